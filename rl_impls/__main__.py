"""``python -m rl_impls``: list which backends are available for which workloads, and why others are not."""

from __future__ import annotations

from .backends import BACKENDS, backends_of, table, workloads
from .common.pipes import quiet_pipe


def main() -> None:
    """Print the table: yes, no, or ``-`` if a workload does not support a backend."""
    names = list(workloads())
    width = max(map(len, BACKENDS))
    with quiet_pipe():
        print(" " * width, *names, sep="  ")
        for backend, state in table():
            here = "yes" if state == "available" else "no"
            marks = [(here if backend in backends_of(name) else "-").ljust(len(name)) for name in names]
            print(backend.ljust(width), *marks, "" if state == "available" else state, sep="  ")


if __name__ == "__main__":
    main()
