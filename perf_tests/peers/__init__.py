"""Benchmarks of other people's code beside ours; ``make peers`` compares them, see ``comparisons.toml``."""
