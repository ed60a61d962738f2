"""Compare snake's compiled loop with another scanned one: ``python -m perf_tests.peers.snake_scanned [--only NAME]``.

The other is a DQN in the shape of purejaxrl's on the same game in JAX: one ``lax.scan`` over environment steps that
carries one train state and one buffer, and asks at every step by ``lax.cond`` whether to learn. Both sides get the
same random numbers, so they make the same moves.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from ._common import EVERY, TARGET_EVERY, Comparison, Ours, Side, identity, main

LEFT_OUT = "both sides' random numbers are drawn before the clock starts; no statistics of episodes are kept"
PUREJAXRL = "in the shape of purejaxrl's dqn.py"


def make_train(geometry: Any, fixed: Any, envs: int) -> Any:
    """Return the optimiser and ``train(state, *numbers) -> state, outcome``, T steps of N environments in one scan."""
    import jax
    import jax.numpy as jnp
    import optax

    game: Any = import_module("rl_impls.snake.jax_env")
    capacity, updates = fixed["capacity"], max(1, envs // EVERY)
    optimizer = optax.chain(optax.clip_by_global_norm(fixed["gradient_norm"]), optax.adam(fixed["learning_rate"]))

    def q_values(params: Any, obs: Any) -> Any:
        h = jax.nn.relu(obs @ params["w0"] + params["b0"])
        h = jax.nn.relu(h @ params["w1"] + params["b1"])
        return h @ params["w2"] + params["b2"]

    def loss_of(params: Any, target: Any, batch: Any) -> Any:
        best = q_values(target, batch["next_obs"]).max(axis=1)
        td_target = batch["rewards"] + fixed["gamma"] * best * (1 - batch["terminated"])
        q = q_values(params, batch["obs"])
        taken = jnp.take_along_axis(q, batch["actions"][:, None], axis=1)[:, 0]
        return optax.huber_loss(taken, td_target).mean()

    def learn(train: Any, buffer: Any, pushed: Any, rows: Any) -> Any:
        slots = jnp.where(pushed > capacity, (pushed + rows) % capacity, rows)
        batch = jax.tree.map(lambda field: field[slots], buffer)
        loss, gradient = jax.value_and_grad(loss_of)(train["params"], train["target"], batch)
        changes, moments = optimizer.update(gradient, train["moments"])
        return train | {"params": optax.apply_updates(train["params"], changes), "moments": moments}, loss

    def one_step(state: Any, numbers: Any) -> Any:
        train, buffer, games, obs, count = (state[name] for name in ("train", "buffer", "games", "obs", "count"))
        explore, random_actions, draws, rows = numbers
        greedy = q_values(train["params"], obs).argmax(axis=1).astype(jnp.int32)
        actions = jnp.where(explore, random_actions, greedy)
        games, new_obs, rewards, terminated, truncated, final_obs = game.step(geometry, games, actions, draws)
        new = {
            "obs": obs, "actions": actions, "rewards": rewards, "next_obs": final_obs.reshape(obs.shape),
            "terminated": terminated.astype(jnp.float32),
        }  # fmt: skip
        at = state["pushed"] + jnp.arange(envs)
        buffer = jax.tree.map(lambda field, value: field.at[at % capacity].set(value), buffer, new)
        pushed, passed, count = state["pushed"] + envs, count, count + envs

        def learn_all(train: Any) -> Any:
            return jax.lax.scan(lambda train, rows: learn(train, buffer, pushed, rows), train, rows)

        train, losses = jax.lax.cond(
            count // EVERY > passed // EVERY, learn_all, lambda train: (train, jnp.zeros(updates)), train
        )
        target = jax.lax.cond(
            count // TARGET_EVERY > passed // TARGET_EVERY,
            lambda: train["params"], lambda: train["target"],
        )  # fmt: skip
        state = {
            "train": train | {"target": target}, "buffer": buffer, "games": games,
            "obs": new_obs.reshape(obs.shape), "count": count, "pushed": pushed,
        }  # fmt: skip
        return state, (actions, rewards, terminated | truncated, losses)

    def train(state: Any, *numbers: Any) -> Any:
        return jax.lax.scan(one_step, state, numbers)

    return optimizer, train


class ScannedLoop(Side):
    """A DQN as one program."""

    def __init__(self, seed: list[int], envs: int = 1) -> None:
        import jax
        import jax.numpy as jnp
        import numpy as np

        super().__init__(seed, envs)
        fixed, geometry = self.fixed, import_module("rl_impls.snake.env").Geometry()
        optimizer, train = make_train(geometry, fixed, envs)
        self.train = jax.jit(train, donate_argnums=0)
        as_state = import_module("rl_impls.snake._jax").as_state
        games = as_state(fixed["env_state"])
        names = ("obs", "actions", "rewards", "next_obs", "terminated")
        buffer = {}
        for name, column in zip(names, fixed["stored"]):
            buffer[name] = np.zeros((self.capacity, *column.shape[1:]), column.dtype)
            buffer[name][: self.pushed] = column
        observe = import_module("rl_impls.snake.jax_env").observe
        params, target = dict(fixed["params"]), dict(fixed["target"])
        state = {
            "train": {"params": params, "target": target, "moments": optimizer.init(params)},
            "buffer": buffer, "games": games, "obs": observe(geometry, games).reshape(envs, -1),
            "count": np.int32(0), "pushed": np.int32(self.pushed),
        }  # fmt: skip
        self.state = jax.tree.map(jnp.array, state)

    def play(self, explore: Any, random_actions: Any, draws: Any, rows: Any) -> Any:
        """Play and learn for one block; return its outcome."""
        import jax
        import numpy as np

        if self.envs < EVERY:  # rows of every step, though only some of them learn
            steps = EVERY // self.envs
            rows = np.repeat(rows[:, None], steps, axis=0)
        else:
            rows = rows.reshape(len(explore), -1, rows.shape[1])
        self.state, out = jax.block_until_ready(self.train(self.state, explore, random_actions, draws, rows))
        actions, rewards, ended, losses = map(np.asarray, out)
        losses = losses[EVERY // self.envs - 1 :: EVERY // self.envs] if self.envs < EVERY else losses
        return actions, rewards, ended, losses.reshape(-1)

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(array.size for array in self.state["train"]["params"].values())


def against(envs: int) -> Comparison:
    """Return the comparison with so many environments."""
    ours = functools.partial(Ours, backend="jax", form="compiled", envs=envs)
    theirs = functools.partial(ScannedLoop, envs=envs)
    return Comparison(identity("compiled", "jax", envs), "a scanned loop", PUREJAXRL, ours, theirs, LEFT_OUT)


COMPARISONS = {"envs1": against(1), "envs64": against(64)}

if __name__ == "__main__":
    main("perf_tests.peers.snake_scanned", __doc__, COMPARISONS, needed=("jax", "optax"))
