"""What two workloads share."""
