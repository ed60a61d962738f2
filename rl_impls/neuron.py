"""AWS Neuron: a net compiled for a grid of batch sizes, with the XLA or the native version of torch-neuronx."""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob
from typing import Any, ClassVar

from .common.batching import BatchGrid

DEVICE = "neuron"
DEVICE_FILES = "/dev/neuron*"
SIZES = tuple(2**k for k in range(12))  # batch sizes, 1 to 2048 rows, that the backend compiles nets for


def missing() -> str | None:
    """Return why nothing can run on Neuron here; None if it can.

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
        return "torch_neuronx is the public index's placeholder, not AWS's package"
    if getattr(torch_neuronx, "STAND_IN", False):
        return "torch_neuronx is a stand-in: its timings mean nothing"
    return None if APIS[installed_api()].devices() else "torch_neuronx is installed but finds no Neuron device"


def installed_api() -> str:
    """Return the installed version of torch-neuronx: ``xla`` (traces models) or ``native`` (a torch device)."""
    import torch_neuronx

    return "xla" if hasattr(torch_neuronx, "trace") else "native"


class Traced:
    """XLA version: a module traced for one batch size, with the weights outside the compiled program.

    Batches f[B, S], like `example`, and outputs are CPU tensors. `module` and `autocast` are those of
    :class:`NeuronModel`.
    """

    # Explicit, because the compiler's default differs by version: some cast float32 matrix products to bfloat16.
    AUTOCAST: ClassVar = {False: "none", True: "matmult"}

    def __init__(self, module: Any, example: Any, autocast: bool) -> None:
        import torch_neuronx

        self.module = module
        self.model = torch_neuronx.trace(
            module, example, compiler_args=["--auto-cast", self.AUTOCAST[autocast]], inline_weights_to_neff=False
        )

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


class Compiled:
    """Native version: the module on the device, and a compiled graph, with the interface of :class:`Traced`.

    ``example`` is unused.
    """

    def __init__(self, module: Any, example: Any, autocast: bool) -> None:
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


APIS: dict[str, type[Traced] | type[Compiled]] = {"xla": Traced, "native": Compiled}


class NeuronModel:
    """A net on Neuron that takes batches of any size, padded to the next size of a grid.

    Args:
        module: an ``nn.Module``, f[B, S] -> f[B, A], that computes each row independently. Its ``load(params)``
            replaces the weights in place by a flat dict of NumPy arrays.
        example: a tensor f[B, S] with the width and dtype of the batches.
        sizes: batch sizes of the grid.
        autocast: let the compiler compute float32 matrix products in bfloat16.
        lazy: compile for a size when a batch first needs it, instead of for all sizes now.

    Raises:
        ValueError: no size, a size below 1, or an example that is not f[B, S].
    """

    def __init__(
        self, module: Any, example: Any, sizes: Iterable[int], autocast: bool = False, *, lazy: bool = False
    ) -> None:
        import torch

        if not isinstance(example, torch.Tensor) or example.ndim != 2:
            raise ValueError(f"example={_shape(example)} should be a tensor [B, S]")
        self.grid, self.autocast = BatchGrid(sizes), bool(autocast)
        self.make = APIS[installed_api()]
        self.module, self.width, self.dtype = module.eval(), example.shape[1], example.dtype
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
                self.models[size] = self.make(self.module, example, self.autocast)
            with torch.no_grad():
                padding = size - len(rows)
                batch = torch.cat([rows, rows[-1:].expand(padding, -1)]) if padding else rows.contiguous()
                return self.models[size](batch)[: len(rows)]

    def load(self, params: Any) -> None:
        """Replace the weights by a flat dict of NumPy arrays, without tracing or compiling again."""
        self.module.load(params)
        for model in self.models.values():
            model.refresh()


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{type(value).__name__} {_name(value.dtype)}{list(value.shape)}"
