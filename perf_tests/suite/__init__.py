"""Process set-up, machine metadata and the machine's measured limits."""
