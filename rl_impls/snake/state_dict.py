"""Import of a net that was trained elsewhere and saved with ``torch.save(net.state_dict(), file)``."""

import math
from pathlib import Path

from .agent import SnakeAgent
from .env import ACTIONS

BORDER, BLOCKS = 3, 3  # minimum distance of the initial head from the border, and length of a new snake, if they fit


def read_state_dict(file):
    """Return the weights in a file: ``w{k}`` f32[I, O] and ``b{k}`` f32[O] of each layer.

    The net has three linear layers, with weight and bias of each in this order; their names do not matter.

    Raises:
        ValueError: not a state dict, or one of another net.
    """
    import torch

    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception:  # of many types, for a file that torch did not write or that holds other objects
        found = None
    if not isinstance(found, dict) or not all(map(torch.is_tensor, found.values())):
        raise ValueError(f"{file}: not a state dict of tensors; write one with torch.save(net.state_dict(), file)")
    shapes = [tuple(tensor.shape) for tensor in found.values()]
    hidden, cells = shapes[0] if shapes and len(shapes[0]) == 2 else (0, 0)
    wanted = [(hidden, cells), (hidden,), (hidden, hidden), (hidden,), (ACTIONS, hidden), (ACTIONS,)]
    if shapes != wanted or cells != math.isqrt(cells) ** 2:
        raise ValueError(
            f"{file}: the tensors have the shapes {shapes}; they should be weights and biases of a net from dim * dim "
            f"cells to {ACTIONS} actions with two hidden layers of H units: [H, dim * dim], [H], [H, H], [H], "
            f"[{ACTIONS}, H], [{ACTIONS}]"
        )
    arrays = [tensor.detach().float().numpy() for tensor in found.values()]
    weights, biases = arrays[::2], arrays[1::2]
    return {f"w{k}": weight.T for k, weight in enumerate(weights)} | {f"b{k}": bias for k, bias in enumerate(biases)}


def import_state_dict(file, checkpoint):
    """Convert a net's weights, saved by torch as a state dict, to a checkpoint.

    The checkpoint can be evaluated, or trained from the start of exploration; replay buffer and optimiser are new.
    """
    if Path(checkpoint).exists():
        raise ValueError(f"checkpoint: {checkpoint} exists; choose another file")
    weights = read_state_dict(file)
    cells, hidden = weights["w0"].shape
    dim = math.isqrt(cells)
    border = min(BORDER, (dim - 1) // 2)
    start = {"dim": dim, "dist_to_border": border, "starting_blocks": min(BLOCKS, border + 1)}
    agent = SnakeAgent(seed=0, hidden=hidden, **start)
    state = agent.state()
    for part in ("online", "target"):
        state |= {f"{part}.{name}": value for name, value in weights.items()}
    agent.load_state(state)
    agent.save(checkpoint)
    return f"{checkpoint}: board of {agent.config.dim} x {agent.config.dim} cells, {hidden} hidden units"
