"""One HTML page of pytest-benchmark results: ``python -m perf_tests.report.html RESULT.json``.

The page is self-contained and opens without a network. ``runs`` reads results, one module per chapter builds the data
of its plots, ``page`` assembles the page, and ``plots.js`` draws it.
"""
