"""Performance-regression gate: is the working tree slower than a revision on this machine?

Suggested reading order: ``rule.py`` and ``statistics.py`` (the decision rule), ``run.py`` (a whole run), ``pairs.py``
(two processes that take turns), ``worker.py`` (one of them), ``case.py`` (a case), and ``benchmarks/`` (the cases of a
repository that uses pytest-benchmark).

PYTEST_DONT_REWRITE: a worker imports this package before pytest, which would warn about that.
"""
