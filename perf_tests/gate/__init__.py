"""The regression gate: is the working tree slower than a revision, on this machine, today?"""
