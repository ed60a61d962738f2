"""The benchmark cases and the harness-independent way to run them."""
