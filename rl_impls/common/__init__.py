"""Code shared by several workloads."""
