"""One HTML page of a pytest-benchmark JSON: ``python -m perf_tests.report.html RESULT.json``.

It holds all that it shows and asks for nothing, so it opens without a network. ``runs`` reads results, a module for
each chapter says what its plots show, ``page`` puts them together, and ``plots.js`` draws them.
"""
