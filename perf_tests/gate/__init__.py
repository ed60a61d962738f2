"""This suite as a source of the gate's cases, and the gate's self-check on them."""
