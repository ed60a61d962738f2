"""Data-parallel PPO and A2C, with a share of the environments in each of torchrun's processes."""

from __future__ import annotations

import numpy as np
import torch

from ..common.procgen_state import unpack
from . import group
from .loop import Loop, part_of, state_of
from .parallel import first_state
from .players import joined_states, part_of_spec, share_of, share_of_state
from .rollouts import uniforms_of


class GroupLoop(Loop):
    """Loop of one of P processes; its results and its state cover all of them.

    Each update takes P minibatches of B / P images, one per process. Gradients are averaged, and in PPO so are the
    moments of the advantages. ``spec`` is that of all processes together.

    Raises:
        ValueError: the backend is not torch on the CPU, or P does not divide the environments or the batch.
    """

    def __init__(self, algorithm, spec, options, backend):
        processes, self.everyone = spec["processes"], spec["env"]["num_envs"]
        if backend.library != "torch" or backend.device != "cpu":
            raise ValueError(f"backend of several processes: got {backend.name}, wanted torch or torch-compile")
        if self.everyone % processes:
            raise ValueError(f"envs: got {self.everyone}, wanted a multiple of {processes} processes")
        if spec.get("batch", 0) % processes:
            raise ValueError(f"batch: got {spec['batch']}, wanted a multiple of {processes} processes")
        group.join()
        whole = {**spec, "actors": processes}
        self.share = share_of(whole, spec["rank"])
        mine = part_of_spec(whole) | {"env_state": share_of_state(first_state(spec), self.share)}
        if "batch" in spec:
            mine["batch"] = spec["batch"] // processes
        super().__init__(algorithm, mine, options, backend)
        group.average_gradients(self.train)

    def uniforms(self, number):
        """Return this process's share of the rollout's random numbers, f32[T, N / P]."""
        return uniforms_of(self.spec["seed"], number, self.shape[0], self.everyone)[:, self.share]

    def __call__(self, numbers):
        """Play and learn; return rewards and ends of all environments, and losses averaged over the processes."""
        rewards, ended, losses = super().__call__(numbers)
        whole = group.beside_each_other(rewards), group.beside_each_other(ended.view(np.uint8)).view(bool)
        return *whole, group.mean_of_all(torch.from_numpy(losses)).numpy()

    def state(self):
        """Return the state of all processes, as that of one :class:`.loop.Loop`."""
        return state_of(self.train, joined_states(group.states_of_all(self.envs.get_state())))

    def load_state(self, state):
        """Restore a state of all processes, or of a loop in one process."""
        self.train.load_state(part_of(state, "train"))
        self.envs.set_state(share_of_state(unpack(part_of(state, "env")), self.share))

    def close(self):
        """Stop the environments and leave the process group."""
        super().close()
        group.leave()
