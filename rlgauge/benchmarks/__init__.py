"""Benchmarks of any repository that uses pytest-benchmark, as the gate's cases.

``source.py`` is the gate's part; ``worker.py`` is a process that runs the tests of one side, and ``fixture.py`` the
``benchmark`` fixture that it provides.
"""
