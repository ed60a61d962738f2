"""Benchmarks of a repository as tests make them: cases that are given, and nothing that is laid out."""

from __future__ import annotations

from contextlib import nullcontext

from rlgauge.workers import PYTHON


class Given:
    """Stands in for :class:`rlgauge.benchmarks.source.Benchmarks`."""

    def __init__(self, cases, folder):
        self.given, self.cache, self.artifact = cases, folder, folder / "gate.json"

    def ready(self):
        return nullcontext()

    def environments(self):
        return nullcontext(lambda name, code: PYTHON)

    def collected(self, items):
        pass

    def cases(self):
        return self.given

    def unchanged(self, codes, sides, cases, limit):
        return {}

    def check(self, sides, cases, limit):
        pass

    def machine(self, root):
        return {"cpu_model": "abacus", "cores": 2}

    def notes(self, records):
        return ()
