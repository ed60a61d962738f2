"""Data-parallel PPO and A2C, with a share of the environments in each of torchrun's processes."""

import numpy as np
import torch

from ..common.parts import join_parts, part_of
from ..common.procgen_state import pack, unpack
from . import group
from .actors import actor_config, env_slice, join_states, slice_state
from .loop import Loop
from .parallel import first_state
from .rollouts import draw_uniforms


class GroupLoop(Loop):
    """Loop of one of P processes; its results and its state cover all of them.

    Each update takes P minibatches of B / P images, one per process. Gradients are averaged, and in PPO so are the
    moments of the advantages. ``config`` covers all processes together and has ``rank`` and ``processes``.

    Raises:
        ValueError: the backend is not torch on the CPU, or P does not divide the environments or the batch.
    """

    def __init__(self, algorithm, config, options, backend):
        processes, self.num_envs = config["processes"], config["env"]["num_envs"]
        if backend.library != "torch" or backend.device != "cpu":
            raise ValueError(f"backend={backend.name!r} should be torch or torch-compile with several processes")
        if self.num_envs % processes:
            raise ValueError(f"num_envs={self.num_envs} should be a multiple of {processes}, the number of processes")
        if algorithm == "ppo" and config["batch_size"] % processes:
            raise ValueError(
                f"batch_size={config['batch_size']} should be a multiple of {processes}, the number of processes"
            )
        group.join()
        whole = {**config, "actors": processes}
        self.slice = env_slice(whole, config["rank"])
        mine = actor_config(whole) | {"env_state": slice_state(first_state(config), self.slice)}
        if algorithm == "ppo":
            mine["batch_size"] = config["batch_size"] // processes
        super().__init__(algorithm, mine, options, backend)

    def __call__(self, numbers):
        """Play and learn; return rewards and ends of all environments, and losses averaged over the processes."""
        rewards, ended, losses = super().__call__(numbers)
        whole = group.gather_envs(rewards), group.gather_envs(ended.view(np.uint8)).view(bool)
        losses, self.parts = (group.mean_of_all(torch.from_numpy(each)).numpy() for each in (losses, self.parts))
        return *whole, losses

    def uniforms(self, number):
        """Return this process's share of the rollout's random numbers, f32[T, N / P]."""
        return draw_uniforms(self.config["seed"], number, self.shape[0], self.num_envs)[:, self.slice]

    def state(self):
        """Return the state of all processes, as that of one :class:`.loop.Loop`."""
        games = join_states(group.gather_states(self.envs.get_state()))
        return join_parts(learner=self.trained.state(), env=pack(games))

    def load_state(self, state):
        """Restore a state of all processes, or of a loop in one process."""
        self.trained.load_state(part_of(state, "learner"))
        self.envs.set_state(slice_state(unpack(part_of(state, "env")), self.slice))

    def close(self):
        super().close()
        group.leave()
