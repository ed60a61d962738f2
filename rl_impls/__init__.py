"""Minimal implementations of reinforcement-learning workloads, each op on several backends."""
