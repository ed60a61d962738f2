"""Procgen's alone: processes that torchrun started, on one machine or several, and that learn as one.

They average their gradients by gloo, and PPO normalises advantages over the batches of all.
"""

from __future__ import annotations

import os

import torch
from torch import distributed


def join():
    """Join the other processes; on one machine nothing is heard from outside."""
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")


def leave():
    """Leave the other processes."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def mean_of_all(tensor):
    """Return the mean of a tensor over all processes, in place.

    Args:
        tensor: f[...].
    """
    distributed.all_reduce(tensor)
    return tensor.div_(distributed.get_world_size())


def moments_of_all(x):
    """Return mean and standard deviation over the batches of all processes, which are of one size.  f[B] -> f, f

    Args:
        x: of this process, f[B].
    """
    mean = mean_of_all(x.mean())
    return mean, mean_of_all((x - mean).square().mean()).sqrt()


def average_gradients(train):
    """Make an update average its gradients with those of all processes before it clips them.

    Args:
        train: an :class:`._torch.Update`, changed in place.
    """
    clip = train.clip

    def averaged():
        gradients = [parameter.grad for parameter in train.parameters]
        flat = mean_of_all(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
            gradient.copy_(part.view_as(gradient))
        clip()

    train.clip = averaged


def agree(wanted):
    """Return whether any process wants something.

    Args:
        wanted: whether this one does.
    """
    flag = torch.tensor(float(wanted))
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag)


def beside_each_other(array):
    """Return the arrays of all processes, along their last axis.  [..., N / P] -> [..., N]

    Args:
        array: of this process, of NumPy.
    """
    mine = torch.from_numpy(array)
    everyone = [torch.empty_like(mine) for _ in range(distributed.get_world_size())]
    distributed.all_gather(everyone, mine)
    return torch.cat(everyone, dim=-1).numpy()


def states_of_all(state):
    """Return the states of the environments of all processes, a list.

    Args:
        state: of this one's.
    """
    states = [None] * distributed.get_world_size()
    distributed.all_gather_object(states, state)
    return states
