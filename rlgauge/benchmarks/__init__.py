"""Benchmarks of any repository that uses pytest-benchmark, as the gate's cases.

``source.py`` runs in the gate's process. ``worker.py`` is a process that runs one side's tests, ``fixture.py`` the
``benchmark`` fixture that it provides, and ``timed.py`` times the calls.
"""
