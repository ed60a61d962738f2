"""The regression gate: is the working tree slower than a revision, on this machine, today?

To be read in this order: ``rule.py``, what numbers conclude, by ``statistics.py``; ``run.py``, a whole run;
``pairs.py``, two processes that take turns; ``worker.py``, what each of them does; ``source.py``, where cases come
from, and ``benchmarks/``, those of a repository that uses pytest-benchmark.

PYTEST_DONT_REWRITE: a worker imports it before pytest, which warns of that otherwise.
"""
