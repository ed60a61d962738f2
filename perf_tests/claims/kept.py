"""What processes measured of claims, kept until the code changes, so that an interrupted run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlgauge.files import write_all

ROOT = Path(__file__).parents[2]
MEASURING = ("measure", "resident", "sides")  # modules that the figures depend on


def code(workload: str) -> str:
    """Return a hash of all that the figures of a workload depend on.

    Args:
        workload: its name.
    """
    from rlgauge.revisions import digest

    learned = ROOT / "rl_impls"
    used = [*learned.glob("*.py"), *(learned / "common").rglob("*"), *(learned / workload).rglob("*")]
    used += [ROOT / "perf_tests" / "suite" / "cases" / f"{workload}.py", *(ROOT / "requirements").rglob("*")]
    found = hashlib.sha256(digest(ROOT, used).encode())
    here, suite = Path(__file__).parent, ROOT / "perf_tests" / "suite"
    parts = [here / f"{name}.py" for name in MEASURING] + sorted(suite.glob("*.py"))
    for path in [*parts, suite / "claims" / f"{workload}.py"]:
        found.update(path.read_bytes())
    return found.hexdigest()


def file_of(workload: str, state: Mapping[str, Any]) -> str:
    """Return the name of the file in which is kept what is measured of some claims, with some threads, on a machine.

    Args:
        workload: its name.
        state: that the figures are of, see :func:`kept`.
    """
    about = json.dumps({name: value for name, value in state.items() if name != "code"}, sort_keys=True)
    return f"{workload}-{hashlib.sha256(about.encode()).hexdigest()[:12]}.jsonl"


def kept(path: Path, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what earlier runs of the same code have measured, without errors; forget what others have.

    Args:
        path: of the file.
        state: that the figures must be of.
    """
    known: list[Any] = []
    content = path.read_bytes() if path.exists() else b""
    for line in content.splitlines():
        try:
            known.append(json.loads(line))
        except ValueError:  # cut short where a run was killed
            break
        if not isinstance(known[-1], dict) or (len(known) > 1 and known[-1].keys() != {"claims", "sides"}):
            del known[-1]
            break
    found = [said for said in known[1:] if not has_failed(said)] if known[:1] == [state] else []
    whole = "".join(f"{json.dumps(each)}\n" for each in (state, *found)).encode()
    if content != whole:
        write_all({path: whole})
    return found


def has_failed(said: Mapping[str, Any]) -> bool:
    """Return whether a comparison could not be measured by a process.

    Args:
        said: what it said, see :func:`.measure.measured`.
    """
    return any("error" in each for contexts in said["claims"].values() for each in contexts.values())
