"""Communication between processes that torchrun started, on one or more machines, by gloo."""

import os

import torch
from torch import distributed


def join():
    """Join the process group; if all processes are on one machine, gloo listens only on the loopback interface."""
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")


def leave():
    """Destroy the process group, if there is one."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def mean_of_all(tensor):
    """Average a tensor over all processes, in place."""
    distributed.all_reduce(tensor)
    return tensor.div_(distributed.get_world_size())


def mean_and_std(x):
    """Mean and standard deviation over the batches of all processes, which have equal sizes.  f[B] -> f, f"""
    mean = mean_of_all(x.mean())
    return mean, mean_of_all((x - mean).square().mean()).sqrt()


def average_gradients(parameters):
    """Average the gradients of parameters over all processes, in place."""
    gradients = [parameter.grad for parameter in parameters]
    flat = mean_of_all(torch.cat([gradient.flatten() for gradient in gradients]))
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def agree(wanted):
    """Return whether ``wanted`` is true in any process."""
    flag = torch.tensor(float(wanted))
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag)


def gather_envs(array):
    """Concatenate the NumPy arrays of all processes along the last axis.  [..., N / P] -> [..., N]"""
    mine = torch.from_numpy(array)
    everyone = [torch.empty_like(mine) for _ in range(distributed.get_world_size())]
    distributed.all_gather(everyone, mine)
    return torch.cat(everyone, dim=-1).numpy()


def gather_states(state):
    """Gather the environment states of all processes, a list by rank."""
    states = [None] * distributed.get_world_size()
    distributed.all_gather_object(states, state)
    return states
