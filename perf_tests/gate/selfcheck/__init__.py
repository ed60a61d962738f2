"""What measures the gate itself: its error rates, whether bisect is right, what counts differ by on the same code."""
