"""Benchmarks of the RL workloads, and the tools that compare, check and report their results."""
