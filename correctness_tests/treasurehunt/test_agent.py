"""The agents end to end: seeds, random draws, evaluation, and rejected configurations."""

import numpy as np
import pytest

from correctness_tests.draws import assert_as_often, assert_distributed, assert_each_for_itself
from correctness_tests.quick import quick
from rl_impls import backends
from rl_impls.common.parts import part_of
from rl_impls.treasurehunt.__main__ import main
from rl_impls.treasurehunt._numpy import init_params
from rl_impls.treasurehunt.agent import TreasurehuntAgents
from rl_impls.treasurehunt.memory import Memory
from rl_impls.treasurehunt.vector_env import DRAWS

SMALL = {
    "num_agents": 2, "height": 6, "width": 6, "turns": 6, "spawn": 0.1, "hidden": 8, "batch_size": 8, "capacity": 64,
    "learning_rate": 1e-2,
}  # fmt: skip
FRAME, ROWS = 6 * 5 * 5, 7  # frame size, and rows of the memory per episode
KINDS = [("full", "torch"), ("full", "jax"), ("compiled", "jax"), ("keyed", "jax")]
DRAWN = "reset_draws", "draws", "taus", "explore", "random_actions", "rows", "train_taus", "noise"


class Recorded(TreasurehuntAgents):
    """Agents that record the random arguments of each epoch."""

    def draw_epoch(self, epsilon):
        draws = super().draw_epoch(epsilon)
        self.drawn = dict(zip(DRAWN, draws))
        return draws


def make(seed=3, **config):
    return Recorded(**{**SMALL, **config}, seed=seed)


def memory_of(agents):
    memory = Memory(agents.config.num_agents, agents.config.num_worlds, 64, FRAME)
    memory.restore(part_of(agents.state(), "memory"))
    return memory


def test_initial_weights_are_uniform_and_sigma_is_half_their_bound():
    params = init_params(np.random.default_rng(0), 2, 5 * FRAME, 32)
    for layer, inputs in (("state", 5 * FRAME), ("cos", 64), ("hidden", 32), ("heads", 32)):
        outputs = 5 if layer == "heads" else 32
        for kind, shape in (("w", (2, inputs, outputs)), ("b", (2, outputs))):
            value = params.pop(f"{kind}_{layer}")
            assert (value.shape, value.dtype) == (shape, np.float32)
            assert_distributed((value * inputs**0.5 + 1) / 2, "uniform")
            if layer in ("hidden", "heads"):
                sigma = params.pop(f"s{kind}_{layer}")
                np.testing.assert_array_equal(sigma, np.full(shape, 0.5 / inputs**0.5, np.float32))
    assert not params


def test_weights_are_counted():
    agents = make()
    assert agents.config.weights == sum(value.size for value in agents.params.values())


def test_memory_is_filled_by_random_play_as_far_as_a_batch_needs():
    for batch_size, episodes in ((6, 1), (7, 2), (24, 4)):
        state = make(batch_size=batch_size).state()
        assert state["memory.pushed"] == ROWS * episodes
        assert state["memory.last"].sum() == episodes
    with pytest.raises(ValueError, match=r"^batch_size=60 should be at most \d+, the transitions that fit in capac"):
        make(batch_size=60)


def test_random_play_stores_each_action_with_the_reward_of_the_cell_it_led_to():
    memory = part_of(make(num_agents=1, spawn=0.3, batch_size=60, capacity=128).state(), "memory")
    rows = np.flatnonzero((np.arange(128) < memory["pushed"]) & ~memory["last"])
    actions, rewards = memory["actions"][0, rows], memory["rewards"][0, rows]
    views = memory["frames"][0, rows].reshape(-1, 6, 5, 5)
    row, column = np.array([[1, 2], [3, 2], [2, 1], [2, 3]])[actions].T  # up, down, left, right of the centre
    kinds = views[np.arange(len(rows)), :, row, column].argmax(axis=1)
    np.testing.assert_array_equal(rewards, np.array([0, -1, 10, 5, -10])[kinds])
    assert len(np.unique(rewards)) == 5
    assert_as_often(actions, 4)


def test_random_play_draws_items_for_each_world():
    grid = make(num_worlds=4, spawn=1.0).worlds.get_state()["grid"]
    items = grid[:, (grid >= 2).all(axis=0)]  # in cells with an item in every world
    assert_each_for_itself(items, 1 / 3)


def by_numpy(agents):
    for _ in range(30):
        yield agents.draw_epoch(0.3)


def by_keys(agents):
    """Make the draws that the form ``keyed`` makes inside its compiled program."""
    import jax

    from rl_impls.treasurehunt.jax_draws import draw_epoch, draw_rows

    draw, choose = jax.jit(draw_epoch, static_argnums=(2, 3, 4, 5)), jax.jit(draw_rows, static_argnums=3)
    memory = memory_of(agents)
    for key in agents.rng.integers(2**32, size=(30, 2), dtype=np.uint32):
        *turns, rows_key, taus, noise = draw(key, 0.3, agents.settings, 2, 8, agents.noise_size)
        yield *turns, choose(rows_key, memory.fields, memory.pushed, 8), taus, noise


@pytest.mark.parametrize("draw", [by_numpy, by_keys])
def test_every_draw_is_fresh_for_each_agent_world_turn_and_epoch(draw):
    agents = make(num_agents=3, num_worlds=2)
    drawn = dict(zip(DRAWN, map(np.array, zip(*draw(agents)))))
    shapes = {name: array.shape[1:] for name, array in drawn.items()}
    assert shapes == {
        "reset_draws": (2, 36), "draws": (6, 2, 36), "taus": (6, 3, 2, 12), "explore": (6, 3, 2),
        "random_actions": (6, 3, 2), "rows": (3, 8), "train_taus": (3, 3, 8, 12), "noise": (3, 2, 3 * 8 + 5),
    }  # fmt: skip
    cells = np.concatenate([drawn["reset_draws"][:, None], drawn["draws"]], axis=1)
    assert_distributed(cells / DRAWS, "uniform")
    for name, distribution in (("taus", "uniform"), ("train_taus", "uniform"), ("noise", "norm")):
        assert_distributed(drawn[name], distribution)
    assert_as_often(drawn["random_actions"], 4)
    assert_each_for_itself(drawn["random_actions"], 1 / 4)
    assert_each_for_itself(drawn["explore"], 0.3**2 + 0.7**2)
    assert drawn["explore"].mean() == pytest.approx(0.3, abs=0.05)
    assert_as_often(drawn["random_actions"][drawn["explore"]], 4)
    assert_distributed(np.concatenate([drawn["taus"].ravel(), drawn["train_taus"].ravel()]), "uniform")
    # drawn with the same key, they would be alike
    noise, train_taus = (drawn[name].reshape(30, -1) for name in ("noise", "train_taus"))
    alike = np.corrcoef(noise.ravel(), train_taus[:, : noise.shape[1]].ravel())[0, 1]
    assert abs(alike) < 5 / np.sqrt(noise.size)


def test_keyed_epochs_get_a_new_key_and_the_exploration_rate():
    agents = make(form="keyed", backend="jax")
    (key, epsilon), (other, _) = agents.draw_epoch(0.25), agents.draw_epoch(0.25)
    assert (key.shape, key.dtype, epsilon) == ((2,), np.uint32, 0.25)
    assert (other != key).any()


@pytest.mark.parametrize("num_worlds", [1, 4])
def test_batches_are_drawn_from_all_starts_in_memory_without_repeats(num_worlds):
    agents = make(num_worlds=num_worlds)
    for _ in range(8):
        agents.run(1)
        memory = memory_of(agents)
        assert np.isin(agents.drawn["rows"], memory.starts()).all()
    assert memory.pushed > memory.length
    rows = np.array([agents.draw_epoch(0.5)[DRAWN.index("rows")] for _ in range(300)])
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    for agent in range(2):
        np.testing.assert_array_equal(np.unique(rows[:, agent]), np.sort(memory.starts()))
    assert (rows[:, 0] != rows[:, 1]).any(axis=-1).mean() > 0.99


def test_epoch_is_described_by_figures_and_epsilon_falls_but_not_below_zero():
    agents, figures, shares = make(num_worlds=4, epsilon=1.0, epsilon_step=0.4), [], []
    for _ in range(5):
        figures.append(agents.learn())
        shares.append(agents.drawn["explore"].mean())
        assert list(figures[-1]) == ["return", "length", "episodes", "loss", "epsilon"]
    assert {(one["length"], one["episodes"]) for one in figures} == {(6, 4)}
    assert [one["epsilon"] for one in figures] == pytest.approx([1, 0.6, 0.2, 0, 0])
    assert np.abs(np.array(shares) - [1, 0.6, 0.2, 0, 0]).max() < 0.2
    assert (shares[0], *shares[3:]) == (1, 0, 0)
    mean = make(num_worlds=4, epsilon=1.0, loss_reduction="mean").learn()
    assert mean["loss"] == pytest.approx(figures[0]["loss"] / 12, rel=1e-5)


def test_return_and_loss_are_means_over_the_agents():
    agents, same = make(num_worlds=4), make(num_worlds=4)
    figures = agents.learn()
    same.prepare()
    _, rewards, losses = same.loop(*agents.drawn.values())
    assert figures["return"] == pytest.approx(rewards.sum(axis=0).mean(), rel=1e-5)
    assert figures["loss"] == pytest.approx(losses.mean(), rel=1e-5)


def test_training_takes_a_thousand_epochs_by_default(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "train for at least N epochs (default: 1000)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("num_worlds", [1, 4])
def test_returns_are_summed_over_turns_and_averaged_over_worlds(num_worlds):
    agents = make(num_worlds=num_worlds)
    for _ in range(3):
        [returns] = agents.run(1)
        memory = memory_of(agents)
        rewards = memory.fields.rewards.reshape(2, num_worlds, memory.length)
        last = rewards[..., (memory.pushed - ROWS + np.arange(ROWS)) % memory.length]
        np.testing.assert_allclose(returns, last.sum(axis=2).mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize(("form", "backend"), quick(KINDS[:1], KINDS))
def test_evaluation_plays_greedily_by_the_present_weights_each_episode_in_its_own_world(form, backend):
    agents = make(num_agents=1, spawn=0.0, form=form, backend=backend)
    always_up = {
        "learner.online.w_heads": np.zeros((1, 8, 5), np.float32),
        "learner.online.b_heads": np.array([[0, 1, 0, 0, 0]], np.float32),
    }
    agents.load_state(agents.state() | always_up)
    returns = agents.play(100, seed=0)
    assert returns.shape == (100, 1)
    assert np.unique(returns).tolist() == [-6, -5, -4, -3, -2, -1]  # up to the wall from each row, then into it
    np.testing.assert_array_equal(agents.play(100, seed=0, epsilon=0.0), returns)
    assert (agents.play(100, seed=0, epsilon=1.0) != returns).any()


def test_evaluation_needs_a_backend_that_learns():
    with pytest.raises(backends.OpUnavailable, match="cannot play on numpy; choose another backend"):
        make(backend="numpy").play(1, seed=0)


def test_evaluation_names_the_returns_of_each_agent():
    agents = make()
    returns, figures = agents.play(7, seed=0), agents.evaluate(7, seed=0)
    np.testing.assert_equal(
        figures, {"returns": returns.mean(axis=1), "agent_0": returns[:, 0], "agent_1": returns[:, 1]}
    )
    assert (returns[:, 0] != returns[:, 1]).any()


def test_state_loaded_into_agents_that_have_learned_replaces_their_own():
    one, other = make(seed=3), make(seed=4)
    one.run(1)
    other.run(3)
    other.load_state(one.state())
    other.rng.bit_generator.state, other.step = one.rng.bit_generator.state, one.step
    np.testing.assert_equal(other.params, one.params)
    np.testing.assert_array_equal(other.run(2), one.run(2))
    np.testing.assert_equal(other.state(), one.state())


def test_state_of_another_configuration_is_refused():
    agents = make()
    with pytest.raises(ValueError, match=r"^names, shapes or dtypes are not those of this configuration$"):
        agents.load_state(make(hidden=9).state())
    np.testing.assert_equal(agents.state(), make().state())


def test_settings_of_an_older_checkpoint_are_named_with_the_fields_that_replaced_them():
    message = r"^settings was replaced by num_agents, height, width, radius, spawn, turns, observation$"
    with pytest.raises(ValueError, match=message):
        make(settings={"agents": 2, "turns": 6})


def test_zero_epochs_are_refused():
    with pytest.raises(ValueError, match=r"^epochs=0 should be an integer from 1"):
        make().run(0)
