"""The ``check`` command: which ops run on which backend, and why others do not."""

import numpy as np

from .. import backends
from . import problem
from ._numpy import q_values
from .agent import NO_GRADIENTS, PirlAgent

OPS = ("forward", "act", "sustained", "serve", "pde_loss", "loss_and_backward", "train_step", "hybrid")
UPDATES = OPS[5:]


def check(backend=None):
    """Return the size of the net, and which ops run on which backend.

    With `backend` None, it checks all backends.
    """
    names = backends.backends_of("pirl") if backend is None else [backends.resolve(backend)]
    lines = [PirlAgent("numpy", seed=0).summary()]
    for name in names:
        lacking = missing_ops(backends.get(name))
        lines += [f"{name}: {availability(name)}", f"  has {', '.join(op for op in OPS if op not in lacking)}"]
        if lacking:
            lines.append(f"  lacks {', '.join(lacking)}: it {NO_GRADIENTS.format(name)}")
    return "\n".join(lines)


def missing_ops(backend):
    """Return the ops that a backend does not have, wherever it runs."""
    if backend.learns:
        return ()
    return UPDATES if backend.compile in backends.GRADIENTS else ("pde_loss", *UPDATES)


def availability(name):
    """Compute Q-values on a backend; describe how well they match NumPy's, or why it cannot run here."""
    states = problem.states(np.random.default_rng(0), 32)
    try:
        agent = PirlAgent(name, seed=0)
        difference = np.abs(agent.get_qs_batch(states) - q_values(agent.params, states)).max()
    except backends.BackendUnavailable as error:
        return f"cannot run here: {error.reason} ({error.install})"
    except Exception as error:  # a broken installation, or no C++ compiler
        reason = str(error).partition("\n")[0]
        return f"cannot run here: {reason}"
    return f"runs here; Q-values differ from NumPy's by at most {difference:.0e}"
