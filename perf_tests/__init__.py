"""What is timed, and what is made of the timings."""
