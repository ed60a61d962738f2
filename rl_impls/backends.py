"""Registry of backends: what each consists of, whether it can run here and, if not, why.

A backend is a library (``_numpy.py``, ``_torch.py``, ``_jax.py``), a compiler (how the library's functions become
callables: eager, traced, compiled, ...) and a device. Heavy libraries are imported only when a backend is used.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from .common.checks import choose
from .compilers import COMPILERS, Compiler

GRADIENTS = ("eager", "compile", "jit")  # compilers whose functions can be differentiated
Array = Any
Op = Callable[..., Any]


class BackendUnavailable(NotImplementedError):
    """A backend cannot run on this machine; the message says why and how to install it."""

    def __init__(self, backend: str, reason: str, install: str) -> None:
        super().__init__(f"{backend}: {reason} ({install})")
        self.backend, self.reason, self.install = backend, reason, install


class OpUnavailable(NotImplementedError):
    """A workload has no such op on this library."""


@dataclass(frozen=True)
class Backend:
    """One way to run an op: library + compiler + device.

    Attributes:
        name: name in :data:`BACKENDS`.
        library: library of the ops: numpy, torch or jax.
        compile: name in :data:`.compilers.COMPILERS`.
        device: cpu, cuda or neuron.
        modules: modules that must be installed.
        extra: extra of this package that installs them; empty if there is none.
    """

    name: str
    library: str
    compile: str
    device: str = "cpu"
    modules: tuple[str, ...] = ()
    extra: str = ""

    @property
    def learns(self) -> bool:
        """Whether the backend computes gradients, which training needs."""
        return self.library != "numpy" and self.compile in GRADIENTS

    @property
    def install(self) -> str:
        """The command that installs this backend."""
        return f"pip install 'rlgauge-workloads[{self.extra}]'" if self.extra else "no pip package provides it"

    def missing(self) -> str | None:
        """Return why this backend cannot run here; None if it can."""
        for module in self.modules:
            if find_spec(module) is None:
                return f"{module} is not installed"
        return DEVICES[self.library, self.device]()

    def require(self) -> None:
        """Raise BackendUnavailable if this backend cannot run."""
        reason = self.missing()
        if reason is not None:
            raise BackendUnavailable(self.name, reason, HINTS.get(self.device, self.install))

    def new_compiler(self) -> Compiler:
        """Return a new compiler of this backend, which records the functions that it compiles."""
        return Compiler(self.name, COMPILERS[self.compile], self.device, self.array_kind)

    def ops(self, workload: str, needed: str = "") -> ModuleType:
        """Return the workload's module of ops for this backend's library, such as ``rl_impls.snake._torch``.

        Raises BackendUnavailable, ValueError for an unknown workload, or OpUnavailable if there is no op `needed`.
        """
        self.require()
        choose(f"backend of {workload}", self.name, backends_of(workload))
        DEFAULTS[self.library](self.device)
        module = importlib.import_module(f"{__package__}.{workload}._{self.library}")
        if needed and not hasattr(module, needed):
            raise OpUnavailable(f"{workload} has no op {needed!r} on {self.library}")
        return module

    def build(
        self,
        workload: str,
        op: str,
        config: Mapping[str, Any],
        example: tuple[Array, ...],
        options: Any,
        compiler: Compiler | None = None,
    ) -> Op:
        """Build an op for a test or a benchmark; the callable takes and returns this backend's own arrays.

        The op is looked up in :meth:`ops`, then in the workload's module ``shared_ops``, which holds the ops that are
        written once for all libraries.

        `example` has arguments with the shapes and dtypes of later calls. `options` is an instance of the workload's
        ``Options``, such as one of :func:`forms`. `compiler`, by default a new one, records the compiled functions.
        """
        library, package = self.ops(workload), f"{__package__}.{workload}"
        if hasattr(library, op):
            compiler = compiler or self.new_compiler()
            built: Op = getattr(library, op)(config, example, options=options, compiler=compiler)
        elif find_spec(f"{package}.shared_ops") and hasattr(
            shared := importlib.import_module(f"{package}.shared_ops"), op
        ):
            built = getattr(shared, op)(config, example, options=options, backend=self)
        else:
            raise OpUnavailable(f"{workload} has no op {op!r} on {self.library}")
        return built

    def to_device(self, array: Array) -> Array:
        """Copy a NumPy array to this backend's device; other values, such as numbers, are returned unchanged."""
        return ARRAYS[self.array_kind].to_device(array, self.device) if hasattr(array, "shape") else array

    def from_host(self, array: Array) -> Array:
        """Convert a NumPy array as cheaply as possible, preferably sharing memory; return other values unchanged."""
        return ARRAYS[self.array_kind].from_host(array) if hasattr(array, "shape") else array

    def to_host(self, out: Array) -> Array:
        """Convert an output, or a tuple, list or dict of arrays, to NumPy; waits for the device."""
        return tree_map(ARRAYS[self.array_kind].to_host, out)

    def wait(self, out: Array) -> Array:
        """Return an output once the device has computed it."""
        return ARRAYS[self.array_kind].wait(out)

    def pending(self) -> bool:
        """Return whether the device still has work to do."""
        return ARRAYS[self.array_kind].pending()

    @property
    def array_kind(self) -> str:
        """Array library of this backend's callables: numpy, torch, torch-cuda or jax."""
        if self.compile == "onnx":
            return "numpy"
        return "torch-cuda" if (self.library, self.device) == ("torch", "cuda") else self.library


def tree_map(function: Callable[[Array], Array], tree: Array) -> Array:
    """Apply `function` to each leaf of nested tuples, lists and dicts."""
    if isinstance(tree, dict):
        return {key: tree_map(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(tree_map(function, value) for value in tree)
    return function(tree)


@dataclass(frozen=True)
class Arrays:
    """Conversions between NumPy and the arrays of one library.

    Attributes:
        to_device: ``to_device(array, device)`` copies to the device.
        from_host: ``from_host(array)`` converts as cheaply as possible, sharing memory where possible.
        to_host: ``to_host(out)`` converts to NumPy.
        wait: ``wait(out)`` returns ``out`` once it is computed.
        pending: ``pending()`` returns whether the device still has work to do.
    """

    to_device: Callable[[Array, str], Array]
    from_host: Callable[[Array], Array]
    to_host: Callable[[Array], Array]
    wait: Callable[[Array], Array]
    pending: Callable[[], bool]


def _same(out: Array) -> Array:
    return out


def _never() -> bool:
    return False


def _torch_to_device(array: Array, device: str) -> Array:
    import torch

    # A copy, so that an op that writes to its input cannot change the caller's array.
    return torch.tensor(array, device="cuda" if device == "cuda" else "cpu")


def _torch_from_host(array: Array) -> Array:
    import torch

    return torch.from_numpy(array)


def _torch_cuda_from_host(array: Array) -> Array:
    return _torch_from_host(array).to("cuda")


def _torch_to_host(out: Array) -> Array:
    return out.detach().cpu().numpy() if hasattr(out, "detach") else out


def _cuda_wait(out: Array) -> Array:
    import torch

    torch.cuda.synchronize()
    return out


def _cuda_pending() -> bool:
    import torch

    return not torch.cuda.current_stream().query()


def _jax_to_device(array: Array, device: str) -> Array:
    import jax

    return jax.device_put(array, jax.devices("gpu" if device == "cuda" else "cpu")[0])


def _jax_to_host(out: Array) -> Array:
    import numpy as np

    return np.asarray(out) if hasattr(out, "block_until_ready") else out


def _jax_wait(out: Array) -> Array:
    import jax

    return jax.block_until_ready(out)


def _jax_pending() -> bool:
    import jax

    return any(not array.is_deleted() and not array.is_ready() for array in jax.live_arrays())


def _torch_defaults(device: str) -> None:
    """On CUDA, compute float32 convolutions in float32; by default torch rounds their inputs to TF32."""
    if device == "cuda":
        import torch

        torch.backends.cudnn.allow_tf32 = False


def _jax_defaults(device: str) -> None:
    """If JAX has a GPU, set the default device and compute float32 matrix products in float32."""
    import jax

    if jax.default_backend() != "cpu" or device != "cpu":
        jax.config.update("jax_default_device", jax.devices("gpu" if device == "cuda" else "cpu")[0])
        jax.config.update("jax_default_matmul_precision", "highest")


DEFAULTS = {"numpy": lambda device: None, "torch": _torch_defaults, "jax": _jax_defaults}

ARRAYS = {
    "numpy": Arrays(lambda array, device: array.copy(), _same, _same, _same, _never),
    "torch": Arrays(_torch_to_device, _torch_from_host, _torch_to_host, _same, _never),
    "torch-cuda": Arrays(_torch_to_device, _torch_cuda_from_host, _torch_to_host, _cuda_wait, _cuda_pending),
    # a compiled function accepts NumPy arrays and copies them faster than device_put
    "jax": Arrays(_jax_to_device, _same, _jax_to_host, _jax_wait, _jax_pending),
}


def _no_torch_cuda() -> str | None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:  # importing torch would take seconds and fix its number of threads
        return "no NVIDIA driver is installed"
    import torch

    if not torch.backends.cuda.is_built():
        return "this torch was built without CUDA"
    return None if torch.cuda.is_available() else "torch finds no CUDA device"


def _no_jax_cuda() -> str | None:
    import jax

    try:
        jax.devices("gpu")
    except RuntimeError:
        return "jax finds no CUDA device"
    return None


def _no_neuron() -> str | None:
    from . import neuron

    return neuron.missing()


DEVICES: dict[tuple[str, str], Callable[[], str | None]] = {
    ("numpy", "cpu"): lambda: None,
    ("torch", "cpu"): lambda: None,
    ("jax", "cpu"): lambda: None,
    ("torch", "cuda"): cache(_no_torch_cuda),
    ("jax", "cuda"): cache(_no_jax_cuda),
    ("torch", "neuron"): _no_neuron,
}

LOCKED = "pip install --no-deps -r requirements/py311.txt"  # resolvers reject procgen-mirror and gym3 with NumPy 2
PACKAGES = {"procgen": LOCKED, "gym3": LOCKED, "gym": LOCKED}  # some ops need these besides their backend's modules
NES = "pip install 'rlgauge-workloads[mario-nes]'"
OPTIONAL = {  # packages that some settings need
    "ray": "pip install 'rlgauge-workloads[ray]'",
    "gym_super_mario_bros": NES,
    "nes_py": NES,
}

HINTS = {
    "cuda": "install the CUDA build of torch or jax on a machine with an NVIDIA GPU",
    "neuron": "install AWS's own torch-neuronx on an Inf2, Trn1, Trn2 or Trn3 machine",
}

BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("numpy", "numpy", "eager"),
        Backend("torch", "torch", "eager", modules=("torch",), extra="torch"),
        Backend("torch-trace", "torch", "trace", modules=("torch",), extra="torch"),
        Backend("torch-compile", "torch", "compile", modules=("torch",), extra="torch"),
        Backend("onnx", "torch", "onnx", modules=("torch", "onnx", "onnxscript", "onnxruntime"), extra="onnx"),
        Backend("jax", "jax", "jit", modules=("jax", "optax"), extra="jax"),
        Backend("neuron", "torch", "neuron", "neuron", modules=("torch",), extra="torch"),
        Backend("torch-cuda", "torch", "eager", "cuda", modules=("torch",), extra="torch"),
        Backend("torch-compile-cuda", "torch", "compile", "cuda", modules=("torch",), extra="torch"),
        Backend("jax-cuda", "jax", "jit", "cuda", modules=("jax", "optax"), extra="jax"),
    )
}


AUTO = "auto"
NAMES = (*BACKENDS, AUTO)  # names that a user may choose


def get(name: str) -> Backend:
    """Return a backend by name; raise ValueError for an unknown name."""
    return BACKENDS[choose("backend", name, BACKENDS)]


def resolve(name: str) -> str:
    """Resolve ``auto`` to the best backend here, ``torch-cuda`` or else ``torch``; return other names unchanged.

    Ids and checkpoints store the resolved name. An unknown name raises ValueError.
    """
    if choose("backend", name, NAMES) != AUTO:
        return name
    return "torch-cuda" if get("torch-cuda").missing() is None else "torch"


def workloads() -> Collection[str]:
    """Return the names of the workloads: the packages here that have an ``options`` module."""
    from pathlib import Path

    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/options.py"))


def backends_of(workload: str) -> Collection[str]:
    """Return the backends of a workload: its package's ``BACKENDS``, or else those whose library it has."""
    package = f"{__package__}.{choose('workload', workload, workloads())}"
    written = (name for name, backend in BACKENDS.items() if find_spec(f"{package}._{backend.library}"))
    named: Collection[str] = getattr(importlib.import_module(package), "BACKENDS", None) or tuple(written)
    return named


def names_of(workload: str) -> tuple[str, ...]:
    """Return the backend names that a user may choose for a workload, including ``auto``."""
    return (*backends_of(workload), AUTO)


def forms(workload: str) -> Mapping[str, Any]:
    """Return the forms of a workload by name, each an instance of its ``Options``."""
    module = importlib.import_module(f"{__package__}.{choose('workload', workload, workloads())}.options")
    named: Mapping[str, Any] = module.FORMS
    return named


def table() -> list[tuple[str, str]]:
    """Return each backend's name with ``available``, or the reason why it is not and how to install it."""
    rows = []
    for backend in BACKENDS.values():
        try:
            backend.require()
            rows.append((backend.name, "available"))
        except BackendUnavailable as error:
            rows.append((backend.name, f"{error.reason} ({error.install})"))
    return rows
