"""What can be seen of how something is computed, where the answer does not tell."""

from __future__ import annotations


def dispatched(call, *args):
    """Return what torch dispatches in a call, a line each, as in ``aten.addmm.default torch.float32``."""
    from torch.utils._python_dispatch import TorchDispatchMode

    lines = []

    class Lines(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            lines.append(f"{function} {getattr(out, 'dtype', '')}")
            return out

    with Lines():
        call(*args)
    return "\n".join(lines)


def program(target):
    """Return what JAX traced for all functions that were lowered, as text; nothing is compiled."""
    return "\n".join(str(function.trace(*example).jaxpr) for function, example in target.lowered)


def spied(monkeypatch, owner, name, note):
    """Have ``note`` see the arguments of every call of an attribute, which goes on as before."""
    function = getattr(owner, name)

    def call(*args, **kwargs):
        note(*args, **kwargs)
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)


def recording():
    """Return whether autograd records here, and whether torch is in inference mode."""
    import torch

    return torch.is_grad_enabled(), torch.is_inference_mode_enabled()


RECORDING = {"grad": (True, False), "no_grad": (False, False), "inference_mode": (False, True)}  # by the knob inference


def keeps_gradients(step, *batch):
    """Return whether a second update writes its gradients where the first one has put them."""
    step(*batch)
    before = [parameter.grad for parameter in step.parameters]
    step(*batch)
    [kept] = {parameter.grad is gradient for parameter, gradient in zip(step.parameters, before)}
    return kept
