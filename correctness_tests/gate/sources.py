"""Sources of the gate's cases as tests make them: cases that are given, of which this process has none."""

from __future__ import annotations

from types import SimpleNamespace

from perf_tests.gate import source as suite
from perf_tests.selection import Selection
from rlgauge.source import Source

from .toy import FIRST


class Given(Source):
    """Cases of which nothing is laid out."""

    def __init__(self, cases, folder, lacking=None):
        self.given, self.lacking = cases, lacking or {}
        self.cache, self.artifact = folder, folder / "gate.json"

    def cases(self):
        return self.given

    def unable(self):
        return self.lacking

    listed = export = snapshot = fingerprint = lay_out = None


def variant(name=FIRST, backend="numpy", cores="one"):
    """Return a case of the toy, as far as the gate asks of one."""
    case = SimpleNamespace(workload="toy", op="first", cores=cores)
    return SimpleNamespace(id=name, backend=backend, precision="float32", case=case)


def suite_of(monkeypatch, cache, *variants, **selection):
    """Return the suite as a source, where these are all cases and all of them are selected."""
    monkeypatch.setattr(suite, "variants", lambda: {one.id: one for one in variants})
    monkeypatch.setattr(suite, "select", lambda selection: variants)
    return suite.Suite(Selection(**selection), cache)
