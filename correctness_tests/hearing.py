"""Ops that note what they are built of and called with."""

from __future__ import annotations

from rl_impls import backends


class Heard:
    """An op, and what it was built of and called with."""

    def __init__(self, op, spec, example, knobs):
        self.op, self.spec, self.example, self.knobs, self.calls = op, spec, example, knobs, []

    def __call__(self, *args):
        out = self.op(*args)
        self.calls.append((args, out))
        return out

    def __getattr__(self, name):
        return getattr(self.op, name)


def hear(monkeypatch, name, stand_in=None):
    """Return the list of all ops of this name that are built from now on; ``stand_in`` is called in their place."""
    heard, build = [], backends.Backend.build

    def noted(self, workload, op, spec, example, knobs, *target):
        if op != name:
            return build(self, workload, op, spec, example, knobs, *target)
        made = stand_in or build(self, workload, op, spec, example, knobs, *target)
        heard.append(Heard(made, spec, example, knobs))
        return heard[-1]

    monkeypatch.setattr(backends.Backend, "build", noted)
    return heard
