"""Tests that use pytest-benchmark as the gate's cases, in any repository.

``source.py`` is the gate's side of it; ``worker.py`` a process that runs the tests of one side, and ``fixture.py`` the
fixture ``benchmark`` that it gives them.
"""
