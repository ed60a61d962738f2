"""Made-up results, claims and gate artifacts for the tests of the report."""

import json

from rlgauge.artifact import Artifact
from rlgauge.rule import SAME, SLOWED, Record, Rule

LIMITS = {"threads": 2.0, "float32_flops": 1e11, "bfloat16_flops": 2e11, "copy_bytes": 2e10}
KNOWN = "perf_tests/test_pirl.py::test_forward[full-torch-1-host-32]"
OTHER = "perf_tests/test_pirl.py::test_act[full-numpy-32]"


def stats(seconds=1e-3, rounds=8, **changed):
    data = [seconds * (1 + 0.001 * k) for k in range(rounds)]
    middle = data[len(data) // 2]
    return {"median": middle, "iqr": 0.002 * seconds, "rounds": rounds, "data": data} | changed


def ours(op="forward", form="full", backend="torch", seconds=1e-3, width=0.02, workload="pirl", **changed):
    """Return the JSON of one benchmark of this suite."""
    axes = changed.pop("axes", {"batch": 32})
    info = {
        "id": f"{workload}.{op}[{'-'.join([form, backend, *(f'{a}{v}' for a, v in axes.items())])}]",
        "workload": workload, "op": op, "form": form, "backend": backend, "axes": axes,
        "precision": "float32", "calls": 10, "seconds_per_call": seconds, "low": seconds * (1 - width),
        "high": seconds * (1 + width), "samples": 8, "spread": 0.05, "unit": "samples",
        "items_per_second": 32 / seconds, "limit_share": 0.1, "bound": "flops", "phases": {}, "threads": 2,
    }  # fmt: skip
    info |= changed
    name = f"test_{info['id'].partition('.')[2]}"
    fullname = f"perf_tests/test_{workload}.py::{name}"
    return {"group": f"{workload}.{op}", "name": name, "fullname": fullname, "params": None,
            "extra_info": info, "stats": stats(seconds)}  # fmt: skip


def foreign(name, seconds=1e-3, group=None, **params):
    """Return the JSON of one benchmark of another suite."""
    full = f"{name}[{'-'.join(map(str, params.values()))}]" if params else name
    return {"group": group, "name": full, "fullname": f"tests/test_sort.py::{full}", "params": params or None,
            "extra_info": {}, "stats": stats(seconds)}  # fmt: skip


def result(benchmarks, threads=2, **head):
    machine = {"format": 2, "cpu_model": "a CPU", "cores": 2, "threads": threads, "versions": {"numpy": "2"}}
    run = {"git": "abcdef123456", "seed": 0, "limits": LIMITS}
    return {"machine_info": {"system": "Linux", "rlgauge": machine}, "rlgauge": run,
            "commit_info": {"id": "abcdef1234567890"},
            "benchmarks": list(benchmarks), "datetime": "2020-01-02T03:04:05", "version": "5.3.1"} | head  # fmt: skip


def foreign_result(benchmarks):
    machine = {"cpu": {"brand_raw": "their CPU", "count": 8}, "system": "Linux", "python_version": "3.11.7"}
    return result(benchmarks) | {"machine_info": machine, "rlgauge": {}}


def claims(*contexts, **changed):
    claim = {"id": "snake-overall", "workload": "snake", "words": "it is faster", "source": "snake-dqn.md",
             "promised": "4.7 x", "least": 4.7, "same": "close", "note": "", "contexts": list(contexts) or [context()],
             "figures": [{"what": "rate", "ours": 812.3, "unit": "samples/s", "theirs": "333k samples/s"}]}  # fmt: skip
    return {"format": "rlgauge-claims", "version": 2, "commit": "abcdef1234567890", "dirty": False,
            "date": "2020-01-02T00:00:00", "machine": {}, "threads": 2, "claims": [claim | changed]}  # fmt: skip


def context(ratio=2.1, verdict="partly", **changed):
    tests = {"base": "test_act[naive-torch-1]", "change": "test_act[full-torch-1]"}
    return {"context": "alone", **tests, "ratio": ratio, "low": 1.9, "high": 2.4, "n": 7,
            "verdict": verdict, "same_holds": True} | changed  # fmt: skip


def pairs(ratio, count):
    return [[(1.0, ratio * (1 + 0.001 * k))] * 4 for k in range(count)]


def artifact():
    records = {
        KNOWN: Record(screen=pairs(1.06, 4), confirm=pairs(1.06, 16)),
        OTHER: Record(screen=pairs(0.999, 4)),
        SAME: Record(screen=pairs(0.999, 4)),
        SLOWED: Record(screen=pairs(1.06, 4), confirm=pairs(1.06, 16)),
    }
    return Artifact(base="abcdef123456", head="working tree", seed=0, seconds=600.0, machine={"cpu_model": "a CPU"},
                    rule=Rule(), records=records)  # fmt: skip


def write(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path
