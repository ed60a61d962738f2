"""Minimal implementations of reinforcement-learning workloads, each op on several backends."""

__version__ = "0.1.0"
