"""Procgen's alone: PPO and A2C in the processes of torchrun, which play a share of the environments each."""

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
    """The share of one process; what it returns, and its state, are those of all.

    Each update takes a minibatch from each process, P of B / P pictures; gradients, and with PPO the moments of the
    advantages, are averaged.

    Args:
        algorithm: ppo or a2c.
        spec: of all processes, see :class:`.spec.Spec`.
        knobs: of the loop and its update.
        backend: that computes, torch's on the CPU.

    Raises:
        ValueError: environments or a batch that cannot be shared, another backend.
    """

    def __init__(self, algorithm, spec, knobs, backend):
        processes, self.everyone = spec["processes"], spec["env"]["num_envs"]
        if backend.source != "torch" or backend.device != "cpu":
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
        super().__init__(algorithm, mine, knobs, backend)
        group.average_gradients(self.train)

    def uniforms(self, number):
        """Return this process's share of what is drawn for a rollout, f32[T, N / P]; see :meth:`Loop.uniforms`.

        Args:
            number: of the rollout.
        """
        return uniforms_of(self.spec["seed"], number, self.shape[0], self.everyone)[:, self.share]

    def __call__(self, numbers):
        """Play and learn; return what all processes played, and their mean losses; see :meth:`Loop.__call__`.

        Args:
            numbers: i64[I], of the rollouts.
        """
        rewards, ended, losses = super().__call__(numbers)
        whole = group.beside_each_other(rewards), group.beside_each_other(ended.view(np.uint8)).view(bool)
        return *whole, group.mean_of_all(torch.from_numpy(losses)).numpy()

    def state(self):
        """Return all that the next rollout of all processes depends on; see :meth:`Loop.state`."""
        return state_of(self.train, joined_states(group.states_of_all(self.envs.get_state())))

    def load_state(self, state):
        """Go on from a state of all processes, or of a loop of one.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        self.train.load_state(part_of(state, "train"))
        self.envs.set_state(share_of_state(unpack(part_of(state, "env")), self.share))

    def close(self):
        """End the environments, and leave the other processes."""
        super().close()
        group.leave()
