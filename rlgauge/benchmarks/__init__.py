"""Benchmarks of any repository that uses pytest-benchmark, as the gate's cases.

In the gate's process, ``source.py`` selects the benchmarks, ``sides.py`` lays out the sides and ``checks.py`` checks
them. ``worker.py`` is a process that runs one side's tests, ``fixture.py`` the ``benchmark`` fixture that it provides,
and ``timed.py`` times the calls.
"""
