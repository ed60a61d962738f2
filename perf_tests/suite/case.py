"""A case is an op with its forms, backends, axes, inputs and cost; a variant is one combination of them, with an id."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Axes = Mapping[str, int | str]
Pattern = Mapping[str, Any]  # values that form, backend or an axis may have, one or a tuple; what it leaves out is free
TIERS = ("gate", "bench", "full")
IO = ("device", "host", "own")
CORES = ("one", "all", "own")


@dataclass(frozen=True)
class Inputs:
    """What an op is built from, and what it is called with.

    Attributes:
        spec: what the op is built from, by name.
        args: what each call gets.
    """

    spec: Mapping[str, Any]
    args: tuple[Any, ...] = ()


NAMES = {"batch": "batch_size", "envs": "num_envs", "unroll": "num_steps"}  # of axes, as problems have them


def inputs_of(make: Callable[..., Any]) -> Callable[..., Inputs]:
    """Return ``inputs(rng, **axes)`` of a case, from the function of a problem.

    Args:
        make: ``make(seed, **axes)``, returns a :class:`rl_impls.common.problem.Problem`.
    """

    def made(rng: np.random.Generator, **axes: Any) -> Inputs:
        found = make(int(rng.integers(1 << 32)), **{NAMES.get(name, name): value for name, value in axes.items()})
        return Inputs(found.config, found.args)

    return made


def no_cost(**axes: Any) -> float:
    """Return the cost of an op that does no arithmetic, or moves no data, worth counting.

    Args:
        axes: the values of the case's axes.
    """
    return 0.0


@dataclass(frozen=True)
class Case:
    """One op of a workload and every way it is timed: forms x backends x axes, but for what is excluded.

    Attributes:
        workload: its folder in ``rl_impls``.
        op: the builder's name in the workload's source files.
        inputs: ``inputs(rng, **axes)``; the same for all backends and forms.
        backends: names of those that it is timed on.
        unit: what a call handles, in the plural.
        items: ``items(**axes)``, how many ``unit`` one call handles.
        forms: names of the settings of the knobs that it is timed in.
        axes: values of each axis; one that is also the name of a knob sets it.
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
        repeatable: whether two samples, each from a reset, give the same answer. Where threads or processes race they
            need not, and of an answer only its shapes are compared; there is no reference then.
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
    repeatable: bool = True
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
            "repeatable": (
                self.repeatable,
                "True, or False without a reference",
                self.repeatable is True or (self.repeatable is False and self.reference is None),
            ),
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
        """Return gate, bench or full; None where the combination does not exist.

        Args:
            combination: values of ``form``, ``backend`` and each axis, by name.
        """
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
        """Raise a ValueError for a function that does not take the axes, and for a pattern that can match nothing."""
        for name, first in (("inputs", ("rng",)), ("items", ()), ("flops", ()), ("bytes", ())):
            check_takes(f"{self.name}: {name}", getattr(self, name), first, self.axes)
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


def check_takes(where: str, function: Any, first: tuple[str, ...], axes: Mapping[str, Any]) -> None:
    """Check that a function of a case takes what it will be given.

    Args:
        where: the case and its field, for the error.
        function: what the field holds.
        first: names of what it is given before the axes.
        axes: what it is given by name.

    Raises:
        ValueError: it is no function, lacks an axis, or wants more.
    """
    wanted = ", ".join([*first, *axes])
    if not callable(function):
        raise ValueError(f"{where}: got {function!r}, wanted a function of ({wanted})")
    signature = inspect.signature(function)
    try:
        signature.bind(*first, **axes)
    except TypeError:
        raise ValueError(f"{where}: takes ({', '.join(signature.parameters)}), wanted ({wanted})") from None


def is_names(values: Any) -> bool:
    """Return whether it is a tuple of names.

    Args:
        values: what a field of a case or a pattern holds.
    """
    return isinstance(values, tuple) and all(isinstance(value, str) for value in values)


def is_values(values: Any) -> bool:
    """Return whether it is a tuple of one or more values.

    Args:
        values: what a field of a case or a pattern holds.
    """
    return isinstance(values, tuple) and bool(values)


def alternatives(values: Any) -> tuple[Any, ...]:
    """Return what a pattern allows for a name: one value or several.

    Args:
        values: what a field of a case or a pattern holds.
    """
    return values if isinstance(values, tuple) else (values,)


def matches(pattern: Pattern, combination: Mapping[str, int | str]) -> bool:
    """Return whether a combination has one of the values that the pattern allows, for each name in it.

    Args:
        pattern: one value or a tuple of them, by name.
        combination: values of ``form``, ``backend`` and each axis, by name.
    """
    return all(combination[name] in alternatives(values) for name, values in pattern.items())


@dataclass(frozen=True, eq=False)
class Variant:
    """One benchmark: a case, a form, a backend and a value for each axis.

    Attributes:
        case: what it is a combination of.
        form: name of a setting of the knobs.
        backend: name of a backend.
        axes: a value for each axis of the case.
        tier: ``gate``, ``bench`` or ``full``.
    """

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
        """Return the seeded inputs, which depend on the op and the axes alone.

        Args:
            seed: of all that is drawn.
        """
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
        """Of its products: float32, bfloat16, float16 or int8."""
        knobs = self.knobs()
        quantised: str = getattr(knobs, "quantised", "none")
        return str(getattr(knobs, "precision", "float32")) if quantised == "none" else quantised
