"""``python -m rl_impls``: which backend is available for which workload, and why not."""

from __future__ import annotations

from importlib.util import find_spec

from .backends import BACKENDS, table, workloads


def main() -> None:
    """Print the table."""
    names = list(workloads())
    width = max(map(len, BACKENDS))
    print(" " * width, *names, sep="  ")
    for backend, state in table():
        source = BACKENDS[backend].source
        marks = [
            ("yes" if state == "available" else "no") if find_spec(f"{__package__}.{name}._{source}") else "-"
            for name in names
        ]
        columns = [mark.ljust(len(name)) for mark, name in zip(marks, names, strict=True)]
        print(backend.ljust(width), *columns, "" if state == "available" else state, sep="  ")


if __name__ == "__main__":
    main()
