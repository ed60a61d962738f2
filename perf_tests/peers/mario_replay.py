"""Compare mario's replays with those of others: ``python -m perf_tests.peers.mario_replay [--pairs 7] [--only NAME]``.

``push`` and ``sample`` against Stable-Baselines3's ReplayBuffer with ``optimize_memory_usage``, ``prioritised...`` and
``update`` against cpprb's PrioritizedReplayBuffer. All hold the same 50,000 transitions of four frames of 84 x 84, and
each is given what a program that uses it has at hand: ours single frames in the packets of a collector, theirs a stack
and the next one for each step. A block of samples is a batch of 256 for every 64 steps; those by priority are updated.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ._common import STEPS, Comparison, main
from ._turns import Turns

CAPACITY, SIDE, STACK, BATCH = 50_000, 84, 4, 256
PACKET = 64  # steps of a push of ours
EVERY = 64  # steps from one sample to the next
UPDATES_EVERY = 4  # steps from one update of priorities to the next, where nothing else is done
EPISODE = 200  # steps, on average
ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-4
CHECKED = 64  # transitions that are compared


class Played(Turns):
    """One side, with the steps of a game of noise, as many as it has room for.

    Args:
        seed: of all that is drawn.

    Attributes:
        outcome: of the last block: the transitions pushed or sampled, or the rows updated; and how many calls.
    """

    calls = STEPS // EVERY

    def __init__(self, seed: list[int]) -> None:
        import numpy as np

        super().__init__(seed)
        self.time, self.recent = 0, np.zeros((STACK - 1, SIDE, SIDE), np.uint8)
        self.frame = self.rng.integers(256, size=(1, SIDE, SIDE), dtype=np.uint8)
        for start in range(0, CAPACITY, STEPS):
            self.fill(self.steps(min(STEPS, CAPACITY - start)))

    def fill(self, steps: Mapping[str, Any]) -> None:
        """Store some steps.

        Args:
            steps: what :meth:`steps` returned.
        """
        raise NotImplementedError

    def steps(self, count: int) -> dict[str, Any]:
        """Return the next steps: frames, actions, rewards, ends and times, and the stacks at each and after it.

        Args:
            count: how many.
        """
        import numpy as np

        more = self.rng.integers(256, size=(count, SIDE, SIDE), dtype=np.uint8)
        ends = self.rng.random(count) < 1 / EPISODE
        times = np.zeros(count + 1, np.int32)
        times[0] = self.time
        for k in range(count):
            times[k + 1] = 0 if ends[k] else times[k] + 1
        frames = np.concatenate([self.recent, self.frame, more])
        back = np.arange(STACK - 1, -1, -1)
        stacks = frames[np.arange(count + 1)[:, None] + STACK - 1 - back]
        stacks[back > times[:, None]] = 0
        after = stacks[1:].copy()
        after[ends, :-1], after[ends, -1] = stacks[:-1][ends, 1:], 0
        self.time, self.frame, self.recent = int(times[-1]), frames[-1:], frames[count : count + STACK - 1]
        return {
            "frames": frames[STACK - 1 : -1], "actions": self.rng.integers(12, size=count).astype(np.int32),
            "rewards": self.rng.normal(size=count).astype(np.float32), "ends": ends, "times": times[:-1],
            "stacks": stacks[:-1], "after": after,
        }  # fmt: skip

    def drawn(self) -> tuple[Any, ...]:
        """Draw nothing: each samples by its own numbers."""
        return ()

    def done(self) -> tuple[int, int]:
        """Return the steps of a block, and the calls of the last one."""
        return STEPS, self.outcome[-1]

    def due(self) -> tuple[int, int]:
        """Return the steps of a block, and the calls that it is to have."""
        return STEPS, self.calls

    def transitions(self, rows: Any) -> dict[str, Any]:
        """Return some transitions as arrays of NumPy: states, actions, rewards, next_states and ends.

        Args:
            rows: i64[B], 0 the first that was stored, from 0 again after CAPACITY of them.
        """
        raise NotImplementedError

    def check_first(self, other: Any) -> None:
        """Raise a RuntimeError unless both hold the same transitions; the next state of an ended one is not compared.

        Args:
            other: our side.
        """
        import numpy as np

        rows = np.random.default_rng(0).choice(other.replay.valid_rows(), CHECKED, replace=False)
        theirs, ours = self.transitions(rows), other.transitions(rows)
        going_on = ours["ends"] == 0
        for name, array in ours.items():
            kept = going_on if name == "next_states" else slice(None)
            if not np.array_equal(theirs[name][kept], array[kept]):
                raise RuntimeError(f"{name}: those stored differ, wanted the same: both got the same steps")


class Ours(Played):
    """A FrameReplay of one lane.

    Args:
        seed: of all that is drawn.
    """

    def __init__(self, seed: list[int]) -> None:
        self.replay: Any = self.made(import_module("rl_impls.mario.memory"))
        self.out = self.replay.frames_of(BATCH)
        super().__init__(seed)

    def made(self, memory: Any) -> Any:
        """Return an empty replay.

        Args:
            memory: the module that it is from.
        """
        return memory.FrameReplay(CAPACITY, 1, SIDE, STACK)

    def fill(self, steps: Mapping[str, Any]) -> None:
        """Store some steps.

        Args:
            steps: what :meth:`steps` returned.
        """
        self.replay.push_batch(0, **{name: steps[name] for name in ("frames", "actions", "rewards", "ends", "times")})

    def transitions(self, rows: Any) -> dict[str, Any]:
        """Return some transitions as arrays of NumPy.

        Args:
            rows: i64[B], 0 the first that was stored.
        """
        found: dict[str, Any] = self.replay.gather(rows)._asdict()
        return found


class OurSamples(Ours):
    """The same, of which batches are drawn uniformly, as tensors."""

    def play(self) -> Any:
        """Draw the batches of one block."""
        import torch

        for _ in range(self.calls):
            batch = [torch.from_numpy(array) for array in self.replay.sample(self.rng, BATCH, self.out)]
        return batch, self.calls


class OurPushes(Ours):
    """The same, to which the packets of a collector are pushed."""

    calls = STEPS

    def drawn(self) -> tuple[Any, ...]:
        """Draw the packets of a block, each with its frames, actions, rewards, ends and times."""
        steps = list(self.steps(STEPS).values())[:5]
        packets = [[array[start : start + PACKET] for array in steps] for start in range(0, STEPS, PACKET)]
        return (packets,)

    def play(self, packets: Any) -> Any:
        """Push the packets of one block.

        Args:
            packets: what :meth:`drawn` returned.
        """
        before = self.replay.rings[0].pushed
        for packet in packets:
            self.replay.push_batch(0, *packet)
        return (self.replay.rings[0].pushed - before,)


class Theirs(Played):
    """Stable-Baselines3's ReplayBuffer, with ``optimize_memory_usage``: each stack stored once, next to the next one.

    Args:
        seed: of all that is drawn.
    """

    def __init__(self, seed: list[int]) -> None:
        import numpy as np
        from gymnasium import spaces

        with contextlib.redirect_stderr(io.StringIO()):  # gym, which it imports if it can, says that it is not kept up
            buffers: Any = import_module("stable_baselines3.common.buffers")
        np.random.seed(seed)
        stack = spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
        self.buffer: Any = buffers.ReplayBuffer(
            CAPACITY, stack, spaces.Discrete(12), "cpu", optimize_memory_usage=True, handle_timeout_termination=False
        )
        super().__init__(seed)

    def fill(self, steps: Mapping[str, Any]) -> None:
        """Store some steps.

        Args:
            steps: what :meth:`steps` returned.
        """
        for step in one_by_one(steps):
            self.buffer.add(*step)

    def transitions(self, rows: Any) -> dict[str, Any]:
        """Return some transitions as arrays of NumPy.

        Args:
            rows: i64[B], 0 the first that was stored.
        """
        states, actions, next_states, ends, rewards = self.buffer._get_samples(rows)[:5]
        found = {
            "states": states, "actions": actions[:, 0], "rewards": rewards[:, 0], "next_states": next_states,
            "ends": ends[:, 0],
        }  # fmt: skip
        return {name: tensor.numpy() for name, tensor in found.items()}


class TheirSamples(Theirs):
    """The same, of which batches are drawn uniformly, as tensors."""

    def play(self) -> Any:
        """Draw the batches of one block."""
        for _ in range(self.calls):
            batch = self.buffer.sample(BATCH)
        return batch, self.calls


class TheirPushes(Theirs):
    """The same, to which steps are added."""

    calls = STEPS

    def drawn(self) -> tuple[Any, ...]:
        """Draw the steps of a block, each as ``add`` takes it."""
        return (list(one_by_one(self.steps(STEPS))),)

    def play(self, steps: Any) -> Any:
        """Add the steps of one block.

        Args:
            steps: what :meth:`drawn` returned.
        """
        before = self.buffer.pos
        for step in steps:
            self.buffer.add(*step)
        return ((self.buffer.pos - before) % CAPACITY,)


def one_by_one(steps: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield each step as the ``add`` of Stable-Baselines3 takes it from one environment.

    Args:
        steps: what :meth:`Played.steps` returned.
    """
    columns = [steps[name][:, None] for name in ("stacks", "after", "actions", "rewards", "ends")]
    infos: list[dict[str, Any]] = [{}]
    for step in zip(*columns):
        yield (*step, infos)


class OurPriorities(Ours):
    """A PrioritisedReplay of one lane, all of whose rows have had an error.

    Args:
        seed: of all that is drawn.
    """

    def __init__(self, seed: list[int]) -> None:
        super().__init__(seed)
        errors = self.rng.normal(size=CAPACITY)
        rows = self.replay.valid_rows()
        self.replay.update(rows, errors[rows])

    def made(self, memory: Any) -> Any:
        """Return an empty replay.

        Args:
            memory: the module that it is from.
        """
        return memory.PrioritisedReplay(
            CAPACITY, 1, SIDE, STACK, alpha=ALPHA, beta=BETA, beta_increment=0.0, epsilon=EPSILON
        )


class OurDraws(OurPriorities):
    """The same, of which batches are drawn by priority, each of which then gets new errors."""

    def drawn(self) -> tuple[Any, ...]:
        """Draw the errors of a block."""
        return drawn_errors(self.rng, self.calls)[1:]

    def play(self, errors: Any) -> Any:
        """Draw and update the batches of one block.

        Args:
            errors: f32[U, B].
        """
        for new in errors:
            batch, rows, weights = self.replay.sample(self.rng, BATCH, self.out)
            self.replay.update(rows, new)
        return batch, weights, len(errors)


class OurUpdates(OurPriorities):
    """The same, of which batches get new errors."""

    calls = STEPS // UPDATES_EVERY

    def drawn(self) -> tuple[Any, ...]:
        """Draw the rows and errors of a block."""
        return drawn_errors(self.rng, self.calls)

    def play(self, rows: Any, errors: Any) -> Any:
        """Make the updates of one block.

        Args:
            rows: i64[U, B].
            errors: f32[U, B].
        """
        for some, new in zip(rows, errors):
            self.replay.update(some, new)
        return rows, len(rows)


class Cpprb(Played):
    """The PrioritizedReplayBuffer of cpprb, all of whose rows have had an error.

    Args:
        seed: of all that is drawn.
        shared: what it stores once: nothing, each stack (``next_of``) or each frame (``stack_compress`` too).
    """

    def __init__(self, seed: list[int], shared: str = "stacks") -> None:
        import numpy as np

        cpprb: Any = import_module("cpprb")
        self.last = shared == "frames"  # it wants the stack as the last axis
        stack = {"shape": (SIDE, SIDE, STACK) if self.last else (STACK, SIDE, SIDE), "dtype": np.uint8}
        fields: dict[str, Any] = {"obs": stack, "act": {"dtype": np.int32}, "rew": {}, "done": {}}
        if shared == "nothing":
            fields["next_obs"] = dict(stack)
        once = {"nothing": {}, "stacks": {"next_of": "obs"}, "frames": {"next_of": "obs", "stack_compress": "obs"}}
        np.random.seed(seed)
        self.buffer: Any = cpprb.PrioritizedReplayBuffer(CAPACITY, fields, alpha=ALPHA, eps=EPSILON, **once[shared])
        super().__init__(seed)
        self.buffer.update_priorities(np.arange(CAPACITY), np.abs(self.rng.normal(size=CAPACITY)))

    def fill(self, steps: Mapping[str, Any]) -> None:
        """Store some steps, and say where episodes end.

        Args:
            steps: what :meth:`steps` returned.
        """
        import numpy as np

        ends = np.flatnonzero(steps["ends"]) + 1
        for start, end in zip([0, *ends], [*ends, len(steps["ends"])]):
            if start == end:
                continue
            obs, after = (steps[name][start:end] for name in ("stacks", "after"))
            if self.last:
                obs, after = np.moveaxis(obs, 1, -1), np.moveaxis(after, 1, -1)
            act, rew, done = (steps[name][start:end] for name in ("actions", "rewards", "ends"))
            self.buffer.add(obs=obs, act=act, rew=rew, next_obs=after, done=done)
            if done[-1]:
                self.buffer.on_episode_end()

    def check_first(self, other: Any) -> None:
        """Raise a RuntimeError unless what is drawn of it is what our side holds.

        Args:
            other: our side.
        """
        import numpy as np

        got = self.buffer.sample(BATCH, beta=BETA)
        kept = np.isin(got["indexes"], other.replay.valid_rows())
        rows = got["indexes"][kept].astype(np.int64)
        ours = other.transitions(rows)
        names = {"states": "obs", "actions": "act", "rewards": "rew", "next_states": "next_obs", "ends": "done"}
        for name, theirs in names.items():
            array = got[theirs][kept]
            array = np.moveaxis(array, -1, 1) if self.last and array.ndim == 4 else array.reshape(ours[name].shape)
            if not np.array_equal(array, ours[name]):
                raise RuntimeError(f"{name}: those drawn differ, wanted the same: both got the same steps")


class CpprbDraws(Cpprb):
    """The same, of which batches are drawn by priority, each of which then gets new errors; it takes their sizes."""

    def drawn(self) -> tuple[Any, ...]:
        """Draw the errors of a block."""
        import numpy as np

        return (np.abs(drawn_errors(self.rng, self.calls)[1]),)

    def play(self, errors: Any) -> Any:
        """Draw and update the batches of one block.

        Args:
            errors: f32[U, B].
        """
        for new in errors:
            batch = self.buffer.sample(BATCH, beta=BETA)
            self.buffer.update_priorities(batch["indexes"], new)
        return batch, len(errors)


class CpprbUpdates(Cpprb):
    """The same, of which batches get new errors; it takes their sizes.

    Args:
        seed: of all that is drawn.
    """

    calls = STEPS // UPDATES_EVERY

    def drawn(self) -> tuple[Any, ...]:
        """Draw the rows and errors of a block."""
        import numpy as np

        rows, errors = drawn_errors(self.rng, self.calls)
        return rows, np.abs(errors)

    def play(self, rows: Any, errors: Any) -> Any:
        """Make the updates of one block.

        Args:
            rows: i64[U, B].
            errors: f32[U, B].
        """
        for some, new in zip(rows, errors):
            self.buffer.update_priorities(some, new)
        return rows, len(rows)

    def check_first(self, other: Any) -> None:
        """Raise a RuntimeError unless what is drawn of it is what our side holds, with the same weights.

        Args:
            other: our side, which got the same errors for the same rows.
        """
        import numpy as np

        super().check_first(other)
        got = self.buffer.sample(BATCH, beta=BETA)
        kept = np.isin(got["indexes"], other.replay.valid_rows())
        weights, priorities = got["weights"][kept], other.replay.tree.get(got["indexes"][kept].astype(np.int64))
        if not np.allclose(weights / weights.max(), (priorities.min() / priorities) ** BETA, rtol=1e-3):
            raise RuntimeError("weights: those drawn differ, wanted the same: both got the same errors")


def drawn_errors(rng: Any, calls: int) -> tuple[Any, Any]:
    """Return rows and their errors.  -> i64[U, B], f32[U, B]

    Args:
        rng: generator that draws them.
        calls: number of updates, U.
    """
    import numpy as np

    return rng.integers(CAPACITY, size=(calls, BATCH)), rng.normal(size=(calls, BATCH)).astype(np.float32)


def against(package: str, peer: str, case: str, ours: Any, theirs: Any, left_out: str, least: float) -> Comparison:
    """Return a comparison with a library.

    Args:
        package: its name.
        peer: what of it is compared with ours.
        case: what of ours that is.
        ours: makes our side.
        theirs: makes the other.
        left_out: what the comparison leaves out.
        least: ratio below which it fails.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        found = "(not installed)"
    return Comparison(case, peer, found, ours, theirs, left_out, least)


SB3, CPPRB = "stable-baselines3", "cpprb"
BUFFER = "Stable-Baselines3's ReplayBuffer (optimize_memory_usage)"
PUSHES = "stacks are made, and frames put into packets, before the clock starts"
SAMPLES = "ours gathers into one array again and again and shows it as tensors; theirs makes new ones of each batch"
UPDATES = "the sizes of the errors, which theirs is given, are taken before the clock starts"
BATCHES = f"ours gathers into one array again and again, theirs makes new ones of each batch; {UPDATES}"
COMPARISONS = {
    "push": against(SB3, BUFFER, "FrameReplay.push_batch", OurPushes, TheirPushes, PUSHES, 1.5),
    "sample": against(SB3, BUFFER, "FrameReplay.sample", OurSamples, TheirSamples, SAMPLES, 1.5),
    **{
        f"prioritised_{shared}": against(
            CPPRB, f"cpprb's PrioritizedReplayBuffer that shares {once}", "PrioritisedReplay.sample and update",
            OurDraws, functools.partial(CpprbDraws, shared=shared), BATCHES, 1.0,
        )
        for shared, once in (
            ("nothing", "nothing"), ("stacks", "stacks (next_of)"), ("frames", "frames (stack_compress)"),
        )
    },
    "update": against(
        CPPRB, "cpprb's update_priorities", "PrioritisedReplay.update", OurUpdates, CpprbUpdates, UPDATES, 1.0
    ),
}  # fmt: skip

if __name__ == "__main__":
    asked = [name for name in COMPARISONS if name in sys.argv[1:]] or [*COMPARISONS]
    libraries = ["stable_baselines3"] * ("push" in asked or "sample" in asked)
    libraries += ["cpprb"] * any(name not in ("push", "sample") for name in asked)
    main("perf_tests.peers.mario_replay", __doc__, COMPARISONS, needed=(*libraries, "torch"))
