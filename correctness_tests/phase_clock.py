"""A clock for the phases of a loop, which goes on only while something is done that takes time."""

from __future__ import annotations

from collections import Counter

import numpy as np


class Clock:
    """What ``perf_counter`` says where phases are timed, in whole seconds."""

    def __init__(self, monkeypatch):
        self.now, self.price, self.spent, self.idle, self.monkeypatch = 0, 0, Counter(), set(), monkeypatch
        monkeypatch.setattr("rl_impls.common.phases.perf_counter", lambda: self.now)

    def spend(self, phase):
        """Go on, a second longer than the time before."""
        self.price += 1
        self.now += self.price
        self.spent[phase] += self.price

    def charge(self, phase, owner, *names):
        """Have each call of these attributes take time, which that phase is to count."""
        self.idle.update(names)
        for name in names:
            self.monkeypatch.setattr(owner, name, Charged(self, phase, name, getattr(owner, name)))

    def assert_counted(self, loop, phases, args):
        """Call a loop twice: its phases count what was done in them, and nothing of what came between the calls."""
        assert loop.phases() == dict.fromkeys(phases, 0)
        for _ in range(2):
            self.now += 1000
            loop(*args)
        assert self.spent
        assert not self.idle
        assert loop.phases() == {phase: self.spent[phase] for phase in phases}
        loop.reset()
        assert loop.phases() == dict.fromkeys(phases, 0)

    def charge_program(self, owner, outputs):
        """Have ``owner.run`` compute nothing: its call, waiting for its outputs and copying each of them take time."""

        def run(carry, *drawn):
            self.spend("program")
            return carry, tuple(Output(self) for _ in range(outputs))

        self.monkeypatch.setattr(owner, "run", run)


class Charged:
    """What it stands for, but each call takes time."""

    def __init__(self, clock, phase, name, what):
        self.clock, self.phase, self.name, self.what = clock, phase, name, what

    def __call__(self, *args, **options):
        out = self.what(*args, **options)
        self.clock.spend(self.phase)
        self.clock.idle.discard(self.name)
        return out

    def __getattr__(self, name):
        return getattr(self.what, name)


class Output:
    """An array of a program that is still running."""

    def __init__(self, clock):
        self.clock = clock

    def block_until_ready(self):
        self.clock.spend("program")
        return self

    def __array__(self, *args, **options):
        self.clock.spend("transfer")
        return np.zeros(1)
