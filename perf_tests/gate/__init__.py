"""Measurements of the gate's own error rates, and the tables about them in ``docs``."""
