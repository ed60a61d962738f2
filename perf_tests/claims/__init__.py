"""The ledger of claims: published statements about speed, measured here, see :mod:`perf_tests.suite.claim`."""
