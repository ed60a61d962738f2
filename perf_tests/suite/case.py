"""A case is an op with its forms, backends, axes, inputs and cost; prepared, it is what every harness times.

with variant.prepare(seed) as prepared:
    prepared.settle()
    prepared.reset()  # not timed
    prepared.run()    # timed: a number of calls, each waited for
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .exporter import parse_once

if TYPE_CHECKING:
    from rl_impls.backends import Backend
    from rl_impls.lowering import Target

Axes = Mapping[str, int | str]
Pattern = Mapping[str, Any]  # values that form, backend or an axis may have, one or a tuple; what it leaves out is free
TIERS = ("gate", "bench", "full")
IO = ("device", "host", "own")
CORES = ("one", "all", "own")
LEAST = 0.01  # seconds of a sample


class DriftError(AssertionError):
    """Two samples after a reset did not do the same work."""


class NotWaitedError(AssertionError):
    """A sample ended while the device was still computing."""


@dataclass(frozen=True)
class Inputs:
    """What an op is built from, and what it is called with."""

    spec: Mapping[str, Any]
    args: tuple[Any, ...] = ()


def no_cost(**axes: Any) -> float:
    """Return the cost of an op that does no arithmetic, or moves no data, worth counting."""
    return 0.0


@dataclass(frozen=True)
class Case:
    """One op of a workload and every way it is timed: forms x backends x axes, but for what is excluded.

    Attributes:
        inputs: ``inputs(rng, **axes)``; the same for all backends and forms.
        items: ``items(**axes)``, how many ``unit`` one call handles.
        exclude: patterns of combinations that do not exist.
        gate: patterns of those that a regression gate compares.
        bench: patterns of those that are timed unless something else is asked for; all others are of tier ``full``.
        flops: ``flops(**axes)``, floating-point operations of one call, counted by hand.
        bytes: ``bytes(**axes)``, bytes that one call has to read and write.
        io: where arguments come from and results go, unless it is an axis: ``device``, ``host`` (copied around each
            call) or ``own`` (the op takes and returns NumPy arrays and does its own copying).
        reference: the backend whose naive form, in float64, says what is right; None where rounding may change what is
            done, as in a loop that acts on what it learns: there the workload's own tests tell.
        tolerance: largest relative difference to the float64 reference.
        most_calls: after one reset, where what a call costs depends on those before it (an episode, a ring that fills).
        cores: what the gate times it on: ``one`` core; ``all`` of them, as its work is spread over threads; or all of
            them for threads or processes of its ``own``, which it starts: such a case is never cached, never pinned.
        version: raised by hand whenever what is measured changes.
    """

    workload: str
    op: str
    inputs: Callable[..., Inputs]
    backends: tuple[str, ...]
    unit: str
    items: Callable[..., int]
    forms: tuple[str, ...] = ("naive", "full")
    axes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    exclude: Sequence[Pattern] = ()
    gate: Sequence[Pattern] = ()
    bench: Sequence[Pattern] = ()
    flops: Callable[..., float] = no_cost
    bytes: Callable[..., float] = no_cost
    io: str = "device"
    reference: str | None = "numpy"
    tolerance: float = 1e-5
    most_calls: int | None = None
    cores: str = "one"
    version: int = 1

    def __post_init__(self) -> None:
        """Raise a ValueError that names the case and what is wrong with it."""
        modes = self.axes.get("io", (self.io,))
        wrong = {
            "backends": (
                self.backends,
                "one or more names, as a tuple",
                bool(self.backends) and is_names(self.backends),
            ),
            "forms": (self.forms, "one or more names, as a tuple", bool(self.forms) and is_names(self.forms)),
            "cores": (self.cores, f"one of {', '.join(CORES)}", self.cores in CORES),
            "io": (modes, f"some of {', '.join(IO)}", set(modes) <= set(IO)),
            "axes": (
                dict(self.axes),
                "one or more values of each, as a tuple",
                all(map(is_values, self.axes.values())),
            ),
            "tolerance": (self.tolerance, "more than 0", self.tolerance > 0),
            "most_calls": (self.most_calls, "None, or 1 or more", self.most_calls is None or self.most_calls >= 1),
            "version": (self.version, "1 or more", self.version >= 1),
        }
        for name, (got, wanted, right) in wrong.items():
            if not right:
                raise ValueError(f"{self.name}: {name}: got {got!r}, wanted {wanted}")

    @property
    def answered_calls(self) -> int:
        """The calls after which answers are compared: a second one sees what the first has changed."""
        return min(2, self.most_calls or 2)

    @property
    def name(self) -> str:
        """``workload.op``."""
        return f"{self.workload}.{self.op}"

    def combinations(self) -> Iterator[dict[str, int | str]]:
        """Every combination of form, backend and axes, whether it exists or not."""
        parts = {"form": self.forms, "backend": self.backends, **self.axes}
        for values in itertools.product(*parts.values()):
            yield dict(zip(parts, values, strict=True))

    def tier(self, combination: Mapping[str, int | str]) -> str | None:
        """Return gate, bench or full; None where the combination does not exist."""
        for patterns, tier in ((self.exclude, None), (self.gate, "gate"), (self.bench, "bench")):
            if any(matches(pattern, combination) for pattern in patterns):
                return tier
        return "full"

    def variants(self) -> Iterator[Variant]:
        """Every combination of form, backend and axes that exists."""
        for combination in self.combinations():
            tier = self.tier(combination)
            if tier is not None:
                axes = {name: combination[name] for name in self.axes}
                yield Variant(self, str(combination["form"]), str(combination["backend"]), axes, tier)

    def check(self) -> None:
        """Raise a ValueError for a pattern that names what this case does not have, or that matches nothing."""
        known = {"form": self.forms, "backend": self.backends, **self.axes}
        patterns = [(kind, pattern) for kind in ("exclude", "gate", "bench") for pattern in getattr(self, kind)]
        for kind, pattern in patterns:
            where = f"{self.name}: {kind} {dict(pattern)}"
            for name, values in pattern.items():
                if name not in known:
                    raise ValueError(f"{where}: unknown axis {name!r}; known: {', '.join(known)}")
                for value in alternatives(values):
                    if value not in known[name]:
                        wanted = ", ".join(map(repr, known[name]))
                        raise ValueError(f"{where}: unknown value {value!r} of {name}; known: {wanted}")
        everything = list(self.combinations())
        existing = [combination for combination in everything if self.tier(combination) is not None]
        for kind, pattern in patterns:
            if not any(matches(pattern, found) for found in (everything if kind == "exclude" else existing)):
                raise ValueError(f"{self.name}: {kind} {dict(pattern)}: matches nothing")


def is_names(values: Any) -> bool:
    """Tell whether it is a tuple of names."""
    return isinstance(values, tuple) and all(isinstance(value, str) for value in values)


def is_values(values: Any) -> bool:
    """Tell whether it is a tuple of one or more values."""
    return isinstance(values, tuple) and bool(values)


def alternatives(values: Any) -> tuple[Any, ...]:
    """Return what a pattern allows for a name: one value or several."""
    return values if isinstance(values, tuple) else (values,)


def matches(pattern: Pattern, combination: Mapping[str, int | str]) -> bool:
    """Tell whether a combination has one of the values that the pattern allows, for each name in it."""
    return all(combination[name] in alternatives(values) for name, values in pattern.items())


@dataclass(frozen=True, eq=False)
class Variant:
    """One benchmark: a case, a form, a backend and a value for each axis."""

    case: Case
    form: str
    backend: str
    axes: Axes
    tier: str

    @functools.cached_property
    def id(self) -> str:
        """Permanent name, as in ``pirl.forward[full-torch-batch1-iohost]``."""
        return f"{self.case.name}[{self.parameters}]"

    @property
    def parameters(self) -> str:
        """The part of the id in brackets."""
        return "-".join([self.form, self.backend, *(f"{name}{value}" for name, value in self.axes.items())])

    @property
    def io(self) -> str:
        """Where arguments come from and results go: device, host or own."""
        return str(self.axes.get("io", self.case.io))

    def inputs(self, seed: int) -> Inputs:
        """Return the seeded inputs, which depend on the op and the axes alone."""
        values = ",".join(f"{name}={self.axes[name]}" for name in sorted(self.axes) if name != "io")
        stream = zlib.crc32(f"{self.case.name}:{values}".encode())
        return self.case.inputs(np.random.default_rng([seed, stream]), **self.axes)

    def knobs(self) -> Any:
        """Return the form's knobs, with those axes set that are knobs."""
        from rl_impls import backends

        forms = backends.forms(self.case.workload)
        knobs = forms[backends.choose("form", self.form, forms)]
        names = {knob.name for knob in dataclasses.fields(knobs)}
        return dataclasses.replace(knobs, **{name: value for name, value in self.axes.items() if name in names})

    @property
    def precision(self) -> str:
        """Of its products: float32, bfloat16 or int8."""
        knobs = self.knobs()
        quantised: str = getattr(knobs, "quantised", "none")
        return str(getattr(knobs, "precision", "float32")) if quantised == "none" else quantised

    def prepare(self, seed: int) -> Prepared:
        """Build everything that is not timed.

        Raises:
            BackendUnavailable: the backend cannot run here.
            OpUnavailable: the workload has no such op.
        """
        from rl_impls import backends

        backend = backends.get(self.backend)
        backend.require()
        if "onnx" in (self.backend, self.axes.get("serve")):
            parse_once()
        inputs = self.inputs(seed)
        graphs = graphs_compiled()
        target = backend.lowering_here()
        device = tuple(backend.to_device(value) for value in inputs.args)
        op = backend.build(self.case.workload, self.case.op, inputs.spec, device, self.knobs(), target)
        args = device if self.io == "device" else inputs.args
        held = backend.wait(getattr(op, "held", arguments)(*args))
        return Prepared(self, backend, op, held, target, graphs)


def arguments(*values: Any) -> tuple[Any, ...]:
    """Return arguments as they are: how an op's caller holds them, unless the op has a method ``held`` that says it."""
    return values


def graphs_compiled() -> int:
    """Return how many graphs torch.compile has made in this process; does not import torch."""
    import sys

    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


class Prepared(AbstractContextManager["Prepared"]):
    """A built variant: ``run`` is timed; ``reset`` and ``close`` are not."""

    def __init__(
        self,
        variant: Variant,
        backend: Backend,
        op: Callable[..., Any],
        args: tuple[Any, ...],
        target: Target,
        graphs_before: int,
    ) -> None:
        self.variant, self.backend, self.op, self.target = variant, backend, op, target
        self.args, self.calls, self.graphs_before = args, 1, graphs_before
        self.late: bool | None = None  # whether a reset may return before the device has finished; settling finds out
        self.call = {"host": self._host_call, "device": self._device_call, "own": self._own_call}[variant.io]

    def _host_call(self) -> Any:
        return self.backend.to_host(self.op(*map(self.backend.from_host, self.args)))

    def _device_call(self) -> Any:
        return self.backend.wait(self.op(*self.args))

    def _own_call(self) -> Any:
        return self.op(*self.args)

    def run(self) -> Any:
        """Make the calls of one sample, wait for each, and return the last output."""
        call = self.call
        for _ in range(self.calls):
            out = call()
        return out

    def reset(self) -> None:
        """Put back what the op changes, so that every sample times the same work, and wait until that is done.

        To ask JAX takes longer than a sample where hundreds of benchmarks hold arrays: not asked where it need not be.
        """
        getattr(self.op, "reset", int)()
        while self.late is not False and self.backend.pending():  # all that an old commit's backend can be asked
            self.late = True
            time.sleep(1e-4)  # a loop without a pause would take the core from what it waits for

    def close(self) -> None:
        """End the threads, processes and shared memory of the op."""
        getattr(self.op, "close", int)()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sample(self) -> float:
        """Return the seconds of one sample, from a reset."""
        self.reset()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def measure_calls(self) -> int:
        """Double the calls of a sample until it takes 10 ms, or there are as many as the case allows; return them.

        One sample in which others had the cores does not end it.
        """
        most = self.variant.case.most_calls or float("inf")
        while self.calls < most and not all(self.sample() >= LEAST for _ in range(2)):
            self.calls = int(min(2 * self.calls, most))
        return self.calls

    def answer(self) -> list[Any]:
        """Make a few calls from the start; return the last output and the weights after it, as NumPy copies."""
        from rl_impls.backends import tree_map

        measured, self.calls = self.calls, self.variant.case.answered_calls
        self.reset()
        try:
            out = self.run()
        finally:
            self.calls = measured
        if self.backend.pending():
            raise NotWaitedError(f"{self.variant.id}: the sample ended before the device had finished")
        params = getattr(self.op, "params", None)
        copied: list[Any] = tree_map(np.array, [self.backend.to_host(out), params or {}])
        return copied

    def settle(self) -> list[Any]:
        """Compile, warm the caches, and check that samples are repeatable and waited for; return the answer.

        Raises:
            NotWaitedError: the device was still computing when a sample ended.
            DriftError: two samples, each after a reset, gave different answers.
        """
        first, second = self.answer(), self.answer()
        for a, b in zip(leaves(first), leaves(second), strict=True):
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True):
                raise DriftError(f"{self.variant.id}: two samples after a reset gave different answers")
        self.reset()
        self.late = bool(self.late)
        return first

    def stats(self) -> dict[str, float]:
        """Return what else the op measured in its last sample: latencies, the lag of its policy."""
        measured: dict[str, float] = getattr(self.op, "stats", dict)()
        return measured

    def phases(self) -> dict[str, float]:
        """Return the seconds that each phase of a loop took in its last sample."""
        seconds: dict[str, float] = getattr(self.op, "phases", dict)()
        return seconds


def flat(tree: Any) -> list[Any]:
    """Return the leaves of nested dicts, lists and tuples, a dict's by name."""
    if isinstance(tree, dict):
        tree = [tree[name] for name in sorted(tree)]
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, list | tuple) else [tree]


def leaves(tree: Any) -> list[Any]:
    """Return the same as arrays."""
    return [np.asarray(leaf) for leaf in flat(tree)]


def unsupported_reason(error: Exception) -> str | None:
    """Return what of a case this revision does not have, where that is why it could not be prepared."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("rl_impls"):
        return f"no {error.name}"
    if isinstance(error, ValueError) and str(error).startswith("unknown "):  # what the registry says of a name
        return str(error)
    return str(error) if type(error).__name__ == "OpUnavailable" else None


@functools.cache
def prepared(identity: str, seed: int) -> Prepared:
    """Return a settled variant, prepared once in this process."""
    from .cases import variants

    variant = variants()[identity]
    if variant.case.cores == "own":
        raise ValueError(f"{identity}: owns threads or processes, so it is prepared and closed each time, never kept")
    ready = variant.prepare(seed)
    ready.settle()
    ready.measure_calls()
    return ready
