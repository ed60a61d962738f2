"""snake's DQN loop in the shape of purejaxrl's ``dqn.py``: one ``lax.scan`` over environment steps.

The scan carries one train state and one replay buffer, and decides at every step by ``lax.cond`` whether to learn.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from rl_impls.snake import problem as snake

from ..bench import Bench
from ..ops import build

pytestmark = pytest.mark.peer
TRAIN_FREQUENCY, BATCH_SIZE, EXPLORE = 4, 32, 0.1  # steps per update; minibatch size; share of random actions


def drawn_for_a_step(key: Any, num_envs: int) -> Any:
    """Return the next key, a key for minibatch rows, and a step's random numbers: explore, random actions, draws."""
    import jax

    from rl_impls.snake.env import DRAWS

    key, for_rows, *keys = jax.random.split(key, 5)
    explore = jax.random.uniform(keys[0], (num_envs,)) < EXPLORE
    moves = jax.random.randint(keys[1], (num_envs,), 0, 4)
    return key, for_rows, (explore, moves, jax.random.randint(keys[2], (num_envs, 3), 0, DRAWS))


def drawn_rows(key: Any, num_envs: int, stored: Any) -> Any:
    """Return random rows of the stored transitions for each minibatch of a step, i32[U, B]."""
    import jax

    return jax.random.randint(key, (max(1, num_envs // TRAIN_FREQUENCY), BATCH_SIZE), 0, stored)


def of_updates(values: Any, num_envs: int) -> Any:
    """Return the entries of the steps that learn."""
    steps = max(1, TRAIN_FREQUENCY // num_envs)  # per update
    return values[steps - 1 :: steps]


def make_train(config: dict[str, Any], num_envs: int, num_steps: int) -> Any:
    """Return the optimizer and ``train(state, *numbers) -> state, outcome``.

    Without ``numbers``, ``train`` generates its random numbers from the key in the state. It plays ``num_steps``
    environment steps T in each of ``num_envs`` environments N.
    """
    import jax
    import jax.numpy as jnp
    import optax

    from rl_impls.snake import jax_env
    from rl_impls.snake.env import Geometry

    geometry, capacity, updates = Geometry(), config["capacity"], max(1, num_envs // TRAIN_FREQUENCY)
    optimizer = optax.chain(optax.clip_by_global_norm(config["max_grad_norm"]), optax.adam(config["learning_rate"]))

    def q_values(params: Any, obs: Any) -> Any:
        h = jax.nn.relu(obs @ params["w0"] + params["b0"])
        h = jax.nn.relu(h @ params["w1"] + params["b1"])
        return h @ params["w2"] + params["b2"]

    def loss_of(params: Any, target: Any, batch: Any) -> Any:
        best = q_values(target, batch["next_obs"]).max(axis=1)
        td_target = batch["rewards"] + config["gamma"] * best * (1 - batch["terminated"])
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
            key, for_rows, (explore, random_actions, draws) = drawn_for_a_step(state["key"], num_envs)
            state = state | {"key": key}
            rows_of = partial(drawn_rows, for_rows, num_envs)
        greedy = q_values(train["params"], obs).argmax(axis=1).astype(jnp.int32)
        actions = jnp.where(explore, random_actions, greedy)
        games, new_obs, rewards, terminated, truncated, final_obs = jax_env.step(geometry, games, actions, draws)
        new = {
            "obs": obs, "actions": actions, "rewards": rewards, "next_obs": final_obs.reshape(obs.shape),
            "terminated": terminated.astype(jnp.float32),
        }  # fmt: skip
        at = state["pushed"] + jnp.arange(num_envs)
        buffer = jax.tree.map(lambda field, value: field.at[at % capacity].set(value), buffer, new)
        pushed, passed, count = state["pushed"] + num_envs, count, count + num_envs

        def learn_all(train: Any) -> Any:
            rows = rows_of(jnp.minimum(pushed, capacity))
            return jax.lax.scan(lambda train, rows: learn(train, buffer, pushed, rows), train, rows)

        train, losses = jax.lax.cond(
            count // TRAIN_FREQUENCY > passed // TRAIN_FREQUENCY,
            learn_all,
            lambda train: (train, jnp.zeros(updates)),
            train,
        )
        target = jax.lax.cond(
            count // config["target_frequency"] > passed // config["target_frequency"],
            lambda: train["params"], lambda: train["target"],
        )  # fmt: skip
        state = state | {
            "train": train | {"target": target}, "buffer": buffer, "games": games,
            "obs": new_obs.reshape(obs.shape), "count": count, "pushed": pushed,
        }  # fmt: skip
        return state, (actions, rewards, terminated | truncated, losses)

    def train(state: Any, *numbers: Any) -> Any:
        return jax.lax.scan(one_step, state, numbers, length=num_steps)

    return optimizer, train


class ScannedLoop:
    """A DQN compiled into one program, with the configuration of our loop.

    ``num_steps`` is the number of steps T per environment and call, ``seed`` that of a loop that generates its numbers.
    """

    def __init__(self, config: dict[str, Any], num_envs: int, num_steps: int, seed: int = 0) -> None:
        import jax

        from rl_impls.snake import jax_env
        from rl_impls.snake._jax import as_state
        from rl_impls.snake.env import Geometry

        self.num_envs = num_envs
        optimizer, train = make_train(config, num_envs, num_steps)
        self.train = jax.jit(train, donate_argnums=0)
        games, pushed, buffer = as_state(config["env_state"]), len(config["stored"][0]), {}
        for name, column in zip(("obs", "actions", "rewards", "next_obs", "terminated"), config["stored"]):
            buffer[name] = np.zeros((config["capacity"], *column.shape[1:]), column.dtype)
            buffer[name][:pushed] = column
        params, target = dict(config["params"]), dict(config["target"])
        start = {
            "train": {"params": params, "target": target, "moments": optimizer.init(params)},
            "buffer": buffer, "games": games, "obs": jax_env.observe(Geometry(), games).reshape(num_envs, -1),
            "count": np.int32(config["step"]), "pushed": np.int32(pushed), "key": jax.random.key(seed),
        }  # fmt: skip
        self.start = jax.tree.map(lambda array: array if isinstance(array, jax.Array) else np.array(array), start)
        self.reset()

    def reset(self) -> None:
        """Restore environments, replay memory, weights, Adam's moments and the key."""
        import jax
        import jax.numpy as jnp

        self.state = jax.block_until_ready(jax.tree.map(lambda array: jnp.array(array, copy=True), self.start))

    def __call__(self, *numbers: Any) -> tuple[Any, ...]:
        """Play and learn, with the given random numbers or with generated ones.

        -> actions i32[T, N], rewards f32[T, N], ended bool[T, N], losses f32[U]
        """
        import jax

        self.state, out = jax.block_until_ready(self.train(self.state, *numbers))
        actions, rewards, ended, losses = map(np.asarray, out)
        return actions, rewards, ended, of_updates(losses, self.num_envs).reshape(-1)

    def rows_of_steps(self, rows: Any) -> Any:
        """Expand the minibatch rows of each update to every step; steps that do not learn ignore theirs."""
        if self.num_envs < TRAIN_FREQUENCY:
            return np.repeat(rows[:, None], TRAIN_FREQUENCY // self.num_envs, axis=0)
        return rows.reshape(-1, self.num_envs // TRAIN_FREQUENCY, BATCH_SIZE)

    def output(self, result: Any) -> list[Any]:
        """Return the result and the weights, as ``Built.output`` does."""
        return [result, {name: np.array(array) for name, array in self.state["train"]["params"].items()}]


def drawn(seed: int, num_envs: int, num_steps: int, stored: int) -> tuple[Any, ...]:
    """Return the random numbers that a generating loop with this seed uses, in the format of our loop.

    ``stored`` is the number of transitions that the replay memory starts with.
    """
    import jax

    def one_step(state: Any, _: Any) -> Any:
        key, pushed = state
        key, for_rows, numbers = drawn_for_a_step(key, num_envs)
        return (key, pushed + num_envs), (*numbers, drawn_rows(for_rows, num_envs, pushed + num_envs))

    _, numbers = jax.lax.scan(one_step, (jax.random.key(seed), stored), length=num_steps)
    *others, rows = map(np.asarray, numbers)
    return *others, of_updates(rows, num_envs).reshape(-1, BATCH_SIZE).astype(np.int64)


@pytest.mark.parametrize("num_envs", [1, 64])
def test_scanned_loop(bench: Bench, seed: int, num_envs: int) -> None:
    """1,024 environment steps and 256 updates, with the start state and the random numbers of our loop.

    Random numbers are generated before timing, and episode statistics are left out.
    """
    pytest.importorskip("optax")
    problem = snake.collect_and_learn(seed, num_envs, TRAIN_FREQUENCY, BATCH_SIZE, "compiled")
    *numbers, rows = problem.args
    loop = ScannedLoop(dict(problem.config), num_envs, len(rows) * TRAIN_FREQUENCY // num_envs)
    args = (*numbers, loop.rows_of_steps(rows))
    bench(loop, *args, reset=loop.reset, output=loop.output, max_calls=1, **problem.cost)


@pytest.mark.parametrize("num_envs", [1, 64])
def test_scanned_loop_that_draws(bench: Bench, seed: int, num_envs: int) -> None:
    """The same loop, generating its random numbers in the program from a carried key, as purejaxrl does.

    Left out: episode statistics.
    """
    pytest.importorskip("optax")
    problem = snake.collect_and_learn(seed, num_envs, TRAIN_FREQUENCY, BATCH_SIZE, "compiled")
    loop = ScannedLoop(dict(problem.config), num_envs, snake.loop_steps(num_envs, "compiled"), seed)
    bench(loop, reset=loop.reset, output=loop.output, max_calls=1, **problem.cost)


@pytest.mark.parametrize("num_envs", [1, 64])
def test_our_loop_that_draws(bench: Bench, seed: int, num_envs: int) -> None:
    """Our loop with the scanned loop's random numbers, while generating as many with NumPy as its trainer does."""
    problem = snake.collect_and_learn(seed, num_envs, TRAIN_FREQUENCY, BATCH_SIZE, "compiled")
    op = build(problem, "compiled", "jax")
    num_steps, stored = snake.loop_steps(num_envs, "compiled"), len(problem.config["stored"][0])
    numbers = drawn(seed, num_envs, num_steps, stored)
    updates, rng = len(numbers[-1]), np.random.default_rng(seed)
    highs = stored + TRAIN_FREQUENCY * np.arange(1, updates + 1)[:, None]

    def draw_and_play() -> Any:
        rng.random((num_steps, num_envs))
        snake.moves(rng, num_steps, num_envs)
        snake.draws(rng, num_steps, num_envs)
        rng.integers(highs, size=(updates, BATCH_SIZE))
        return op.call(*numbers)

    bench(draw_and_play, **op.keywords)
