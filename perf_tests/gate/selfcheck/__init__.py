"""Error rates of the gate itself, by simulation (``early``) and on a small repository (``small``)."""
