"""Compare snake's compiled loop with another scanned one: ``python -m perf_tests.peers.snake_scanned [--only NAME]``.

The other is a DQN in the shape of purejaxrl's on the same game in JAX: one ``lax.scan`` over environment steps that
carries one train state and one buffer, and asks at every step by ``lax.cond`` whether to learn. Both sides get the
same random numbers, so they make the same moves.

Where the other is ``drawing``, it draws them in its program from a key that it carries, as purejaxrl's does. Ours draws
as many by NumPy inside the time, as its trainer does, and then plays by the other's.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from . import _common
from ._common import BATCH, EVERY, EXPLORE, TARGET_EVERY, Comparison, Ours, Side, identity, main

LEFT_OUT = "both sides' random numbers are drawn before the clock starts; no statistics of episodes are kept"
DRAWN = "statistics of episodes; each side's random numbers are drawn inside the time"
PUREJAXRL = "in the shape of purejaxrl's dqn.py"


def drawn_for_a_step(key: Any, envs: int) -> Any:
    """Return the next key, one for the rows of a batch, and what a step needs: explore, random moves, draws.

    Args:
        key: of JAX's random numbers.
        envs: environments N that are played at once.
    """
    import jax

    draws: int = import_module("rl_impls.snake.env").DRAWS
    key, for_rows, *keys = jax.random.split(key, 5)
    explore = jax.random.uniform(keys[0], (envs,)) < EXPLORE
    moves, numbers = jax.random.randint(keys[1], (envs,), 0, 4), jax.random.randint(keys[2], (envs, 3), 0, draws)
    return key, for_rows, (explore, moves, numbers)


def drawn_rows(key: Any, envs: int, stored: Any) -> Any:
    """Return the rows of the batches of a step.  -> i32[U, B]

    Args:
        key: of JAX's random numbers.
        envs: environments N that are played at once.
        stored: transitions that are in the memory.
    """
    import jax

    return jax.random.randint(key, (max(1, envs // EVERY), BATCH), 0, stored)


def replay(envs: int, capacity: int) -> Any:
    """Return ``numbers(key, pushed) -> key, numbers``: what a drawing loop draws in a block, for every step.

    Args:
        envs: environments N that are played at once.
        capacity: transitions that the memory holds.
    """
    import jax
    import jax.numpy as jnp

    def one_step(state: Any, _: Any) -> Any:
        key, pushed = state
        key, for_rows, numbers = drawn_for_a_step(key, envs)
        rows = drawn_rows(for_rows, envs, jnp.minimum(pushed + envs, capacity))
        return (key, pushed + envs), (*numbers, rows)

    def numbers(key: Any, pushed: Any) -> Any:
        (key, _), out = jax.lax.scan(one_step, (key, pushed), length=_common.STEPS // envs)
        return key, out

    return jax.jit(numbers)


def make_train(geometry: Any, spec: Any, envs: int) -> Any:
    """Return the optimiser and ``train(state, *numbers) -> state, outcome``, T steps of N environments in one scan.

    Without numbers it draws them.

    Args:
        geometry: of the game.
        spec: weights, games, memory and constants.
        envs: environments N that are played at once.
    """
    import jax
    import jax.numpy as jnp
    import optax

    game: Any = import_module("rl_impls.snake.jax_env")
    capacity, updates = spec["capacity"], max(1, envs // EVERY)
    optimizer = optax.chain(optax.clip_by_global_norm(spec["gradient_norm"]), optax.adam(spec["learning_rate"]))

    def q_values(params: Any, obs: Any) -> Any:
        h = jax.nn.relu(obs @ params["w0"] + params["b0"])
        h = jax.nn.relu(h @ params["w1"] + params["b1"])
        return h @ params["w2"] + params["b2"]

    def loss_of(params: Any, target: Any, batch: Any) -> Any:
        best = q_values(target, batch["next_obs"]).max(axis=1)
        td_target = batch["rewards"] + spec["gamma"] * best * (1 - batch["terminated"])
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
        if numbers:
            explore, random_actions, draws, rows = numbers
            rows_of: Any = lambda stored: rows  # noqa: E731
        else:
            key, for_rows, (explore, random_actions, draws) = drawn_for_a_step(state["key"], envs)
            state = state | {"key": key}
            rows_of = functools.partial(drawn_rows, for_rows, envs)
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
            rows = rows_of(jnp.minimum(pushed, capacity))
            return jax.lax.scan(lambda train, rows: learn(train, buffer, pushed, rows), train, rows)

        train, losses = jax.lax.cond(
            count // EVERY > passed // EVERY, learn_all, lambda train: (train, jnp.zeros(updates)), train
        )
        target = jax.lax.cond(
            count // TARGET_EVERY > passed // TARGET_EVERY,
            lambda: train["params"], lambda: train["target"],
        )  # fmt: skip
        state = state | {
            "train": train | {"target": target}, "buffer": buffer, "games": games,
            "obs": new_obs.reshape(obs.shape), "count": count, "pushed": pushed,
        }  # fmt: skip
        return state, (actions, rewards, terminated | truncated, losses)

    def train(state: Any, *numbers: Any) -> Any:
        return jax.lax.scan(one_step, state, numbers, length=None if numbers else _common.STEPS // envs)

    return optimizer, train


def of_updates(values: Any, envs: int) -> Any:
    """Return what belongs to the steps that learn.

    Args:
        values: of all steps.
        envs: environments N that are played at once.
    """
    return values[EVERY // envs - 1 :: EVERY // envs] if envs < EVERY else values


class ScannedLoop(Side):
    """A DQN as one program.

    Args:
        seed: of all that is drawn.
        envs: environments N that are played at once.
    """

    def __init__(self, seed: list[int], envs: int = 1) -> None:
        import jax
        import jax.numpy as jnp
        import numpy as np

        super().__init__(seed, envs)
        spec, geometry = self.spec, import_module("rl_impls.snake.spec").Geometry()
        optimizer, train = make_train(geometry, spec, envs)
        self.train = jax.jit(train, donate_argnums=0)
        as_state = import_module("rl_impls.snake._jax").as_state
        games = as_state(spec["env_state"])
        names = ("obs", "actions", "rewards", "next_obs", "terminated")
        buffer = {}
        for name, column in zip(names, spec["stored"]):
            buffer[name] = np.zeros((self.capacity, *column.shape[1:]), column.dtype)
            buffer[name][: self.pushed] = column
        observe = import_module("rl_impls.snake.jax_env").observe
        params, target = dict(spec["params"]), dict(spec["target"])
        state = {
            "train": {"params": params, "target": target, "moments": optimizer.init(params)},
            "buffer": buffer, "games": games, "obs": observe(geometry, games).reshape(envs, -1),
            "count": np.int32(0), "pushed": np.int32(self.pushed),
        }  # fmt: skip
        self.state = jax.tree.map(jnp.array, state)

    def play(self, explore: Any, random_actions: Any, draws: Any, rows: Any) -> Any:
        """Play and learn for one block; return its outcome.

        Args:
            explore: whether a step takes a random action, bool[T, N].
            random_actions: those actions, i32[T, N].
            draws: what the environments need of randomness, i32[T, N, 3].
            rows: of the memory, that each update learns from, i64[U, B].
        """
        import numpy as np

        if self.envs < EVERY:  # rows of every step, though only some of them learn
            steps = EVERY // self.envs
            rows = np.repeat(rows[:, None], steps, axis=0)
        else:
            rows = rows.reshape(len(explore), -1, rows.shape[1])
        return self.outcome_of(self.train(self.state, explore, random_actions, draws, rows))

    def outcome_of(self, result: Any) -> Any:
        """Keep the state and return the outcome, all of it computed.

        Args:
            result: what the compiled program returned.
        """
        import jax
        import numpy as np

        self.state, out = jax.block_until_ready(result)
        actions, rewards, ended, losses = map(np.asarray, out)
        return actions, rewards, ended, of_updates(losses, self.envs).reshape(-1)

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(array.size for array in self.state["train"]["params"].values())


class Drawn(Side):
    """A side whose numbers are those that a drawing loop of the same seed draws.

    Args:
        seed: of all that is drawn.
        envs: environments N that are played at once.
        how: further arguments of the side's class.
    """

    def __init__(self, seed: list[int], envs: int = 1, **how: Any) -> None:
        import jax

        super().__init__(seed, envs=envs, **how)
        self.replay, self.next_key = replay(envs, self.capacity), jax.random.key(int(self.rng.integers(1 << 31)))
        self.key = self.next_key  # of the block

    def drawn(self) -> tuple[Any, ...]:
        """Return what the drawing loop draws in a block."""
        import numpy as np

        self.key = self.next_key
        self.next_key, numbers = self.replay(self.key, self.pushed)
        *others, rows = map(np.asarray, numbers)
        return *others, of_updates(rows, self.envs).reshape(-1, BATCH).astype(np.int64)


class DrawingLoop(Drawn, ScannedLoop):
    """The scanned loop that draws in its program."""

    def play(self, *numbers: Any) -> Any:
        """Play and learn for one block; return its outcome.

        Args:
            numbers: what :meth:`drawn` returned; its program draws the same again.
        """
        return self.outcome_of(self.train(self.state | {"key": self.key}))


class OursDrawing(Drawn, Ours):
    """Ours, which draws by NumPy inside the time and plays by the other's numbers."""

    def play(self, *numbers: Any) -> Any:
        """Play and learn for one block; return its outcome.

        Args:
            numbers: what :meth:`drawn` returned.
        """
        Side.drawn(self)
        return super().play(*numbers)


def against(envs: int, drawing: bool) -> Comparison:
    """Return the comparison with so many environments.

    Args:
        envs: environments N that are played at once.
        drawing: whether the random numbers are drawn while the clock runs.
    """
    ours = functools.partial(OursDrawing if drawing else Ours, backend="jax", form="compiled", envs=envs)
    theirs = functools.partial(DrawingLoop if drawing else ScannedLoop, envs=envs)
    peer, left_out = ("a scanned loop that draws", DRAWN) if drawing else ("a scanned loop", LEFT_OUT)
    return Comparison(identity("compiled", "jax", envs), peer, PUREJAXRL, ours, theirs, left_out)


COMPARISONS = {
    f"envs{envs}{'_drawing' * drawing}": against(envs, drawing) for envs in (1, 64) for drawing in (False, True)
}

if __name__ == "__main__":
    main("perf_tests.peers.snake_scanned", __doc__, COMPARISONS, needed=("jax", "optax"))
