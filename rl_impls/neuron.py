"""AWS Neuron: a net compiled for a grid of batch sizes, with the XLA or the native version of torch-neuronx."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from . import params as weights
from .common.batching import BatchGrid
from .common.checks import choose

DEVICE = "neuron"
DEVICE_FILES = "/dev/neuron*"
SIZES = tuple(2**k for k in range(12))  # batch sizes, 1 to 2,048 rows, that the backend compiles nets for
ABOUT, WEIGHTS, SUMS = "model.json", "weights.safetensors", "SHA256SUMS"


def missing() -> str | None:
    """Return why Neuron cannot be used here; None if it can.

    Raises:
        ImportError: a broken installation of torch-neuronx.
    """
    try:
        import torch_neuronx
    except ModuleNotFoundError as error:
        if error.name != "torch_neuronx":
            raise
        return "torch_neuronx is not installed"
    except ImportError as error:
        if "WRONG PACKAGE" not in str(error):
            raise
        return "the installed torch_neuronx is a placeholder, not AWS's package"
    if getattr(torch_neuronx, "STAND_IN", False):
        return "torch_neuronx is a stand-in: its timings mean nothing"
    return None if APIS[installed_api()].devices() else "torch_neuronx is installed but finds no Neuron device"


def installed_api() -> str:
    """Return the installed version of torch-neuronx: ``xla`` (traces models) or ``native`` (a torch device)."""
    import torch_neuronx

    return "xla" if hasattr(torch_neuronx, "trace") else "native"


class Traced:
    """XLA version: a module traced for one batch size, with the weights outside the compiled program.

    Batches and outputs are CPU tensors. `module` and `autocast` are those of :class:`NeuronModel`. `example` is a batch
    f[B, S], and `saved` a folder written by :meth:`save`, to read instead of tracing.
    """

    # Explicit, because the compiler's default differs by version: some cast float32 matrix products to bfloat16.
    AUTOCAST: ClassVar = {False: "none", True: "matmult"}

    def __init__(self, module: Any, example: Any, autocast: bool, saved: Path | None) -> None:
        import torch
        import torch_neuronx

        self.module, self.file = module, f"{len(example)}.pt"
        if saved is None:
            self.model = torch_neuronx.trace(
                module,
                example,
                compiler_args=["--auto-cast", self.AUTOCAST[autocast]],
                inline_weights_to_neff=False,
            )
        else:
            self.model = torch.jit.load(str(saved / self.file))

    @staticmethod
    def devices() -> int:
        """Return the number of Neuron devices the driver shows."""
        return len(glob(DEVICE_FILES))

    def __call__(self, batch: Any) -> Any:
        """Return the outputs f[B, A] of a batch f[B, S]; copying them back waits for the device."""
        return self.model(batch).cpu()

    def refresh(self) -> None:
        """Copy the module's weights to the traced model."""
        import torch_neuronx

        torch_neuronx.replace_weights(self.model, self.module.state_dict())

    def save(self, folder: Path) -> None:
        """Write the traced model to ``{batch size}.pt`` in an empty folder."""
        import torch

        torch.jit.save(self.model, str(folder / self.file))


class Compiled:
    """Native version: the module on the device, and a compiled graph, with the interface of :class:`Traced`.

    ``example`` and ``saved`` are unused.
    """

    def __init__(self, module: Any, example: Any, autocast: bool, saved: Path | None) -> None:
        import torch
        import torch_neuronx  # noqa: F401 - registers the device and the compiler

        self.module, self.autocast = module.to(DEVICE), autocast
        # Keep graphs separate: otherwise the ninth size would exceed torch's limit of graphs per function.
        self.model = torch.compile(
            self.module, backend="neuron", dynamic=False, fullgraph=True, isolate_recompiles=True, recompile_limit=1
        )

    @staticmethod
    def devices() -> int:
        """Return the number of Neuron devices torch finds."""
        import torch

        return int(torch.neuron.device_count())

    def __call__(self, batch: Any) -> Any:
        """Run one batch, synchronise and copy the outputs back."""
        import torch

        # A new tensor: one created in inference mode by the caller would need its own graph.
        on_device = torch.empty(batch.shape, dtype=batch.dtype, device=DEVICE).copy_(batch)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=self.autocast):
            out = self.model(on_device)
        torch.neuron.synchronize()
        return out.to("cpu", batch.dtype)

    def refresh(self) -> None:
        """Nothing to do: the graph uses the module's own weights."""

    def save(self, folder: Path) -> None:
        """Write nothing: torch compiles the restored module again, from its cache where it can."""


APIS: dict[str, type[Traced] | type[Compiled]] = {"xla": Traced, "native": Compiled}


class NeuronModel:
    """A net on Neuron that takes batches of any size, padded to the next size of a grid.

    Args:
        module: an ``nn.Module``, f[B, S] -> f[B, A], that computes each row independently. Its ``load(params)``
            replaces the weights in place by a flat dict of NumPy arrays.
        example: a tensor f[B, S] with the width and dtype of the batches.
        sizes: batch sizes of the grid.
        autocast: let the compiler compute float32 matrix products in bfloat16.
        api: ``xla`` or ``native``; defaults to the installed one.
        lazy: compile for a size when a batch first needs it, instead of for all sizes now.
        saved: folder with traced models to read instead of compiling; use :meth:`restore`, which checks it first.

    Raises:
        ValueError: no size, a size below 1, an example that is not f[B, S], or an unknown api.
    """

    def __init__(
        self,
        module: Any,
        example: Any,
        sizes: Iterable[int],
        autocast: bool = False,
        api: str | None = None,
        *,
        lazy: bool = False,
        saved: Path | None = None,
    ) -> None:
        import torch

        if not isinstance(example, torch.Tensor) or example.ndim != 2:
            raise ValueError(f"example={_shape(example)} should be a tensor [B, S]")
        self.grid, self.autocast = BatchGrid(sizes), bool(autocast)
        self.api = choose("api", installed_api() if api is None else api, APIS)
        self.module, self.width, self.dtype = module.eval(), example.shape[1], example.dtype
        self.saved = saved
        self.models: dict[int, Traced | Compiled] = {}  # by batch size
        if not lazy:
            for size in self.grid.sizes:  # the first call of each compiles, or loads the program onto the device
                self._compute(torch.zeros((size, self.width), dtype=self.dtype), size)

    def __call__(self, states: Any) -> Any:
        """Return the outputs f[B, A] of a CPU batch f[B, S] of any size once the device has computed them."""
        import torch

        matches = isinstance(states, torch.Tensor) and states.ndim == 2 and states.dtype == self.dtype
        if not matches or len(states) < 1 or states.shape[1] != self.width:
            wanted = f"{_name(self.dtype)}[1 or more, {self.width}]"
            raise ValueError(f"states={_shape(states)} should be a tensor {wanted}")
        outs = [self._compute(states[start:stop], size) for start, stop, size in self.grid.chunks(len(states))]
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def _compute(self, rows: Any, size: int) -> Any:
        import torch

        # Always use the same modes, because torch compiles per mode. The output is an ordinary tensor.
        with torch.inference_mode(False):
            if size not in self.models:
                example = torch.zeros((size, self.width), dtype=self.dtype)
                self.models[size] = APIS[self.api](self.module, example, self.autocast, self.saved)
            with torch.no_grad():
                padding = size - len(rows)
                batch = torch.cat([rows, rows[-1:].expand(padding, -1)]) if padding else rows.contiguous()
                return self.models[size](batch)[: len(rows)]

    def load(self, params: Any) -> None:
        """Replace the weights by a flat dict of NumPy arrays, without tracing or compiling again."""
        self.module.load(params)
        self._refresh()

    def _refresh(self) -> None:
        for model in self.models.values():
            model.refresh()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model atomically to `folder`, which must not exist; its sizes are those compiled so far."""
        folder = Path(folder)
        if folder.exists():
            raise FileExistsError(f"{folder} exists already; choose a new folder")
        temporary = folder.with_name(f".{folder.name}.{uuid4().hex}")
        about = {
            "format": 1,
            "api": self.api,
            "sizes": sorted(self.models),
            "width": self.width,
            "dtype": _name(self.dtype),
            "autocast": self.autocast,
        }
        temporary.mkdir()
        try:
            for model in self.models.values():
                model.save(temporary)
            weights.save(temporary / WEIGHTS, _state(self.module))
            (temporary / ABOUT).write_text(json.dumps(about, indent=2) + "\n")
            (temporary / SUMS).write_text("".join(sorted(_sums(temporary))))
            os.replace(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    @classmethod
    def restore(cls, folder: str | os.PathLike[str], module: Any, api: str | None = None) -> Self:
        """Return a saved model and load its weights into `module`, which has the same architecture.

        Traced models are not traced again. `api` is the installed one by default.

        Raises:
            ValueError: a file is missing, added or damaged, or the model has another architecture or api. The module
                keeps its weights.
        """
        import torch

        folder = Path(folder)
        _check(folder)
        about = json.loads((folder / ABOUT).read_text())
        if about["format"] != 1:
            raise ValueError(f"{folder}: saved in format {about['format']}; only 1 can be read")
        api = installed_api() if api is None else api
        if about["api"] != api:
            raise ValueError(f"{folder}: saved for the api {about['api']!r}, not {api!r}")
        state = weights.load(folder / WEIGHTS, like=_state(module))
        example = torch.zeros((1, about["width"]), dtype=getattr(torch, about["dtype"]))
        model = cls(module, example, about["sizes"], about["autocast"], api, saved=folder)
        module.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        model._refresh()
        return model


def _state(module: Any) -> dict[str, npt.NDArray[np.generic]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{type(value).__name__} {_name(value.dtype)}{list(value.shape)}"


def _sums(folder: Path) -> set[str]:
    """Return a line per saved file, in the format of ``sha256sum``."""
    files = [path for path in folder.iterdir() if path.name != SUMS]
    return {f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files}


def _check(folder: Path) -> None:
    """Raise ValueError unless the folder holds exactly the saved files, unchanged."""
    try:
        recorded, found = set((folder / SUMS).read_text().splitlines(keepends=True)), _sums(folder)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder}: not a saved model ({error})") from error
    wrong = sorted({line.partition("  ")[2].strip() for line in recorded ^ found})
    if wrong or not recorded:
        raise ValueError(f"{folder}: not a whole saved model (missing, added or damaged: {', '.join(wrong) or SUMS})")
