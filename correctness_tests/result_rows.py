"""Rows of results for the tests of tables."""


def row(backend="torch", seconds=1e-5, width=0.02, count=8, **changed):
    """Return a row of a benchmark with `count` items per call and an interval of `width` to either side."""
    made = {
        "workload": "pirl", "op": "forward", "form": "full", "backend": backend, "unit": "samples",
        "precision": "float32", "axes": {"batch": count, "io": "host", "hidden": 32}, "calls": 3, "samples": 15,
        "seconds_per_call": seconds, "low": seconds * (1 - width), "high": seconds * (1 + width), "spread": width,
        "items_per_second": count / seconds, "limit_share": 0.5, "bound": "flops",
    }  # fmt: skip
    made |= changed
    return {"id": f"{made['workload']}.{made['op']}[{made['form']}-{backend}-{seconds}]"} | made
