"""Rows of results as the tests of tables and orders make them."""

from __future__ import annotations


def row(backend="torch", seconds=1e-5, width=0.02, count=8, **changed):
    """Make one row of a result: so many seconds a call of so many items, in an interval of so much to either side."""
    made = {
        "workload": "pirl", "op": "forward", "form": "full", "backend": backend, "unit": "samples", "version": 1,
        "precision": "float32", "axes": {"batch": count, "io": "host", "hidden": 32}, "calls": 3, "samples": 15,
        "seconds_per_call": seconds, "low": seconds * (1 - width), "high": seconds * (1 + width), "spread": width,
        "disturbed": 0.0, "items_per_second": count / seconds, "limit_share": 0.5, "bound": "flops",
    }  # fmt: skip
    made |= changed
    return {"id": f"{made['workload']}.{made['op']}[{made['form']}-{backend}-{seconds}]"} | made


def malloc(ratio, low=None, high=None):
    """Make what was found of a row with default malloc."""
    return {"ratio": ratio, "low": low or ratio * 0.999, "high": high or ratio * 1.001, "n": 8}


def cells(line):
    """Split one row of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def loop(form, seconds, width=0.02, **changed):
    """Make a row of snake's loop: 64 environment steps a call, unless said."""
    axes = {"envs": 1, "every": 1, "batch": 32}
    return row("torch", seconds, width, **{"workload": "snake", "op": "collect_and_learn", "form": form, "axes": axes,
               "count": 64} | changed)  # fmt: skip


def hunt(op, form, backend, seconds, worlds=1, width=0.02, **changed):
    """Make one row of a result with five agents."""
    axes = {"agents": 5, "worlds": worlds}
    return row(backend, seconds, width, **{"workload": "treasurehunt", "op": op, "form": form, "axes": axes} | changed)
