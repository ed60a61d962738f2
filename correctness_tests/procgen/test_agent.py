"""The agent of Procgen around its loop: its configuration, the figures of its learning, and its checkpoints."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from correctness_tests.hearing import hear
from correctness_tests.procgen.agent_sizes import SMALL
from correctness_tests.quick import quick
from correctness_tests.waiting import limit
from rl_impls import params
from rl_impls.backends import BackendUnavailable, resolve
from rl_impls.common.procgen_env import check_installed
from rl_impls.params import CheckpointError
from rl_impls.procgen.agent import ALGORITHMS, FROM_CONFIG, OPS, Config, ProcgenAgent
from rl_impls.procgen.spec import NEEDED, NETS, RESIDUAL

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("training")
SIZED = {"envs": 2, "unroll": 4, "batch": 4}


@pytest.fixture(autouse=True)
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)


@pytest.fixture
def make():
    """Return a function that makes a small agent, which is closed afterwards."""
    made = []

    def small(**config):
        made.append(ProcgenAgent(**{"seed": 3, **SMALL, **config}))
        return made[-1]

    yield small
    for agent in made:
        agent.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"algorithm": "dqn"}, "algorithm: got 'dqn', wanted one of ppo, a2c, a3c, impala"),
        ({"game": "chess"}, "game: got 'chess', wanted one of bigfish"),
        ({"mode": "medium"}, "mode: got 'medium', wanted one of easy, hard"),
        ({"form": "fast"}, "form: got 'fast', wanted one of naive, full, bfloat16"),
        ({"backend": "fortran"}, "unknown backend 'fortran'; known: "),
        ({"envs": 0}, "envs: got 0, wanted an integer from 1 to"),
        ({"envs": 2**16 + 1}, "envs: got 65537, wanted an integer from 1 to 65536"),
        ({"unroll": 0}, "unroll: got 0, wanted an integer from 1 to"),
        ({"epochs": 0}, "epochs: got 0, wanted an integer from 1 to"),
        ({"batch": 0}, "batch: got 0, wanted an integer from 1 to"),
        ({"batch": 4.0}, "batch: got 4.0, wanted an integer from 1 to"),
        ({"actors": -1}, "actors: got -1, wanted an integer from 0 to"),
        ({"lag": -1}, "lag: got -1, wanted an integer from 0 to"),
        ({"gamma": 1.1}, "gamma: got 1.1, wanted a number from 0 to 1"),
        ({"lam": -0.1}, "lam: got -0.1, wanted a number from 0 to 1"),
        ({"clip": 2}, "clip: got 2, wanted a number from 0 to 1"),
        ({"learning_rate": -1}, "learning_rate: got -1, wanted a number of 0 or more"),
        ({"rho_bar": -1}, "rho_bar: got -1, wanted a number of 0 or more"),
        ({"epsilon": -1}, "epsilon: got -1, wanted a number of 0 or more"),
        ({"decay": 1.5}, "decay: got 1.5, wanted a number from 0 to 1"),
        ({"ahead": -1}, "ahead: got -1, wanted an integer from 0 to"),
        ({"c_bar": float("nan")}, "c_bar: got nan, wanted a number of 0 or more"),
        ({"value_weight": -1}, "value_weight: got -1, wanted a number of 0 or more"),
        ({"entropy_weight": -1}, "entropy_weight: got -1, wanted a number of 0 or more"),
        ({"gradient_norm": -1}, "gradient_norm: got -1, wanted a number of 0 or more"),
        ({"algorithm": "a3c"}, "actors: got 0 with a3c, wanted 1 or more"),
        ({"algorithm": "a2c", "actors": 2}, "actors: got 2 with a2c, wanted 0 (its parallel form is a3c)"),
        ({"actors": 3}, "actors: got 3, wanted a divisor of 32 envs"),
        ({"algorithm": "a3c", "actors": 5}, "actors: got 5, wanted a divisor of 32 envs"),
        ({"lag": 1}, "lag: got 1, wanted 0 but for ppo and impala with actors"),
        ({"algorithm": "impala", "lag": 1}, "lag: got 1, wanted 0 but for ppo and impala with actors"),
        ({"algorithm": "a3c", "actors": 2, "lag": 1}, "lag: got 1, wanted 0 but for ppo and impala with actors"),
        ({"batch": 1000}, "batch: got 1000, wanted a divisor of unroll times envs, 128 x 32"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_an_error_of_one_line(given, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        Config(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "impala", "batch": 1000},
        {"algorithm": "a2c", "batch": 7},
        {"actors": 4, "lag": 2},
        {"algorithm": "impala", "actors": 32, "lag": 1},
        {"algorithm": "a3c", "actors": 1},
        {"backend": "auto"},
    ],
)
def test_a_configuration_that_makes_sense_is_none(given):
    config = Config(**given)
    assert asdict(config) == asdict(Config()) | given | {"backend": resolve(given.get("backend", "torch"))}


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, None])
def test_a_seed_is_an_integer(seed):
    with pytest.raises(ValueError, match=r"^seed: got"):
        ProcgenAgent(seed=seed, **SMALL)


def silent(numbers):
    """A loop in which nothing happens."""
    return np.zeros((1, 4, 2), np.float32), np.zeros((1, 4, 2), bool), np.zeros((1, 1), np.float32)


def loops(monkeypatch):
    """All loops that are built from now on, by op; nothing happens in them."""
    return {op: hear(monkeypatch, op, silent) for op in OPS.values()}


DEFAULTS = {
    "ppo": (128, 5e-4, 1e-5, 0.95, 0, 0.5),
    "a2c": (5, 7e-4, 1e-5, 1.0, 0, 0.5),
    "a3c": (20, 1e-4, 1e-5, 1.0, 2, 0.5),
    "impala": (20, 3e-4, 0.01, 0.95, 0, 40.0),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_has_defaults_of_its_own_and_what_is_given_wins(algorithm, monkeypatch):
    loops(monkeypatch)
    names = "unroll", "learning_rate", "epsilon", "lam", "actors", "gradient_norm"
    config = ProcgenAgent(seed=0, algorithm=algorithm, envs=8).config
    assert tuple(getattr(config, name) for name in names) == DEFAULTS[algorithm]
    others = asdict(Config(envs=8))
    assert {name for name, value in asdict(config).items() if value != others[name]} <= {"algorithm", *names}
    given = {"unroll": 16, "learning_rate": 0.5, "lam": 0.25, "gradient_norm": 3.0, "gamma": 0.5, "batch": 8}
    given |= {"actors": 4} if algorithm in ("a3c", "ppo", "impala") else {}
    found = asdict(ProcgenAgent(seed=0, algorithm=algorithm, envs=8, **given).config)
    assert {name: found[name] for name in given} == given


def test_ppo_is_the_default():
    assert Config().algorithm == "ppo"


@pytest.mark.parametrize(("algorithm", "actors"), OPS)
def test_a_loop_is_built_of_the_configuration(algorithm, actors, monkeypatch):
    built = loops(monkeypatch)
    given = {"learning_rate": 0.25, "gamma": 0.5, "entropy_weight": 0.125, "levels": 9, "start_level": 4, **SIZED}
    agent = ProcgenAgent(seed=5, algorithm=algorithm, actors=int(actors), mode="hard", game="maze", **given)
    [(op, [loop])] = [(op, found) for op, found in built.items() if found]
    assert op == OPS[algorithm, actors]
    assert {name: loop.spec[name] for name in FROM_CONFIG} == {
        name: getattr(agent.config, name) for name in FROM_CONFIG
    }
    assert set(NEEDED[op]) <= set(loop.spec)
    wanted = {"game": "maze", "mode": "hard", "num_levels": 9, "start_level": 4, "num_envs": 2, "seed": agent.seed}
    assert loop.spec["env"] == wanted
    assert loop.spec["seed"] == agent.seed
    assert list(loop.spec["params"]) == list(NETS)
    assert agent.chunk == 8
    assert agent.step == 0
    other = ProcgenAgent(seed=6, **SMALL)
    assert other.seed != agent.seed
    assert (other.loop.spec["params"]["w_policy"] != loop.spec["params"]["w_policy"]).any()


def played(rollouts, steps=4, envs=3):
    """Rewards f32[I, T, N] and ends bool[I, T, N] that are drawn."""
    rng = np.random.default_rng(0)
    ended = rng.random((rollouts, steps, envs)) < 0.15
    ended[1] = False
    return rng.integers(-3, 9, size=ended.shape).astype(np.float32), ended


def test_figures_are_those_of_the_episodes_that_ended_across_rollouts(monkeypatch):
    rewards, ended = played(12)
    asked = []

    def call(numbers):
        [number] = numbers
        asked.append(int(number))
        return rewards[number][None], ended[number][None], np.array([[1.0, 2.0, 6.0]], np.float32) + number

    call.stats = lambda: {"policy_lag": 0.5}
    call.begun_anew = lambda: np.zeros(0, np.int64)
    hear(monkeypatch, "a2c", call)
    agent = ProcgenAgent(seed=0, algorithm="a2c", envs=3, unroll=4)
    going, spans = [(0.0, 0)] * 3, 0
    for number in range(12):
        episodes = []
        for t in range(4):
            for n in range(3):
                going[n] = going[n][0] + float(rewards[number, t, n]), going[n][1] + 1
                if ended[number, t, n]:
                    spans += going[n][1] > 4
                    episodes.append(going[n])
                    going[n] = 0.0, 0
        figures = agent.learn()
        assert figures["episodes"] == len(episodes)
        for name, values in zip(("return", "length"), zip(*episodes)):
            assert figures[name] == pytest.approx(np.mean(values))
        if not episodes:
            assert np.isnan(figures["return"])
            assert np.isnan(figures["length"])
        assert figures["loss"] == 3.0 + number
        assert figures["policy_lag"] == 0.5
        assert agent.step == 12 * (number + 1)
    assert asked == list(range(12))
    assert spans > 3


def test_figures_have_nothing_of_an_episode_that_was_cut_off(monkeypatch):
    ended = np.zeros((3, 1, 4, 3), bool)
    ended[1, 0, 0] = ended[2, 0, 3] = True

    def call(numbers):
        return np.ones((1, 4, 3), np.float32), ended[numbers[0]], np.zeros((1, 1), np.float32)

    cut_off = iter([[], [1, 2], []])
    call.stats, call.begun_anew = dict, lambda: np.array(next(cut_off), np.int64)
    hear(monkeypatch, "a2c", call)
    agent = ProcgenAgent(seed=0, algorithm="a2c", envs=3, unroll=4)
    assert agent.learn()["episodes"] == 0
    figures = agent.learn()
    assert (figures["return"], figures["length"], figures["episodes"]) == (7 / 3, 7 / 3, 3)  # 5, 1 and 1 steps
    figures = agent.learn()
    assert (figures["return"], figures["length"], figures["episodes"]) == (7.0, 7.0, 3)


def test_what_is_counted_is_what_the_games_count(make):
    agent = make(algorithm="impala", game="bossfight", envs=4, unroll=40, learning_rate=0.0)
    figures = [agent.learn() for _ in range(2)]
    assert sum(each["episodes"] for each in figures) > 0
    np.testing.assert_allclose(agent.playing[0], agent.loop.envs.returns)
    np.testing.assert_array_equal(agent.playing[1], agent.loop.envs.lengths)


@pytest.mark.parametrize("algorithm", quick(["impala"], ["ppo", "a2c", "impala"]))
def test_a_loaded_agent_goes_on_with_its_episodes(algorithm, make, tmp_path):
    agent = make(algorithm=algorithm, game="bossfight", unroll=20)
    agent.learn()
    agent.save(tmp_path / "agent")
    resumed = ProcgenAgent.load(tmp_path / "agent")
    try:
        assert (resumed.config, resumed.step, resumed.seed) == (agent.config, agent.step, agent.seed)
        assert agent.playing[1].any()
        np.testing.assert_array_equal(resumed.playing, agent.playing)
        found, wanted = [], []
        for _ in range(3):
            found.append(resumed.learn())
            wanted.append(agent.learn())
        np.testing.assert_equal(found, wanted)
        assert sum(each["episodes"] for each in wanted) > 0
        for name, value in agent.params.items():
            np.testing.assert_array_equal(resumed.params[name], value)
    finally:
        resumed.close()


@pytest.mark.parametrize(("before", "after"), [("ppo", "a2c"), ("impala", "ppo")])
def test_a_checkpoint_of_another_algorithm_is_refused(before, after, make, tmp_path):
    agent = make(algorithm=before)
    agent.config = replace(agent.config, algorithm=after)
    agent.save(tmp_path / "agent")
    with pytest.raises(CheckpointError) as caught:
        ProcgenAgent.load(tmp_path / "agent")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_damaged_is_refused(make, tmp_path):
    agent, path = make(algorithm="a2c"), tmp_path / "agent"
    agent.save(path)
    whole = path.read_bytes()
    for at in (0, 9, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError):
            ProcgenAgent.load(path)
    for length in (0, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            ProcgenAgent.load(path)


def test_a_checkpoint_that_lacks_games_or_has_other_ones_is_refused(make, tmp_path):
    agent, path = make(algorithm="a2c"), tmp_path / "agent"
    agent.save(path)
    arrays, metadata = params.load_with_metadata(path)
    metadata = {name: value for name, value in metadata.items() if name in ("config", "rng", "step")}
    less = {name: value for name, value in arrays.items() if name != "env.games"}
    for changed in (less, arrays | {"env.lengths": np.zeros(3, np.int64)}, arrays | {"agent.seed": np.zeros(2)}):
        params.save(path, changed, **metadata)
        with pytest.raises(CheckpointError):
            ProcgenAgent.load(path)


@pytest.mark.parametrize("change", ["too many bytes", "others of each game", "another game", "other levels"])
def test_a_checkpoint_whose_games_are_no_games_of_it_is_refused_by_its_name(change, make, tmp_path, monkeypatch):
    agent, path = make(algorithm="a2c"), tmp_path / "agent"
    agent.save(path)
    arrays, metadata = params.load_with_metadata(path)
    if change == "too many bytes":
        arrays["env.sizes"] = arrays["env.sizes"] + 1
    elif change == "others of each game":
        arrays["env.sizes"] = arrays["env.sizes"] + [1, -1]
    else:
        before, after = {"another game": (SMALL["game"], "maze"), "other levels": ('"levels": 10', '"levels": 9')}[
            change
        ]
        assert before in metadata["config"]
        metadata["config"] = metadata["config"].replace(before, after)
    params.save(path, arrays, **metadata)
    monkeypatch.setattr(ProcgenAgent, "_build", lambda *args: pytest.fail("it is refused before anything is built"))
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: not a checkpoint of this agent .*: got "):
        ProcgenAgent.load(path)


def test_the_residual_net_learns_and_goes_on_and_is_no_other_one(make, tmp_path):
    agent, path = make(net="residual"), tmp_path / "agent"
    assert agent.params.keys() == RESIDUAL.keys()
    start = agent.params
    agent.learn()
    agent.save(path)
    other = ProcgenAgent.load(path)
    try:
        np.testing.assert_equal(other.learn(), agent.learn())
        for name, value in agent.params.items():
            np.testing.assert_array_equal(other.params[name], value)
            assert (value != start[name]).any()
    finally:
        other.close()
    agent.config = replace(agent.config, net="nature")
    agent.save(path)
    with pytest.raises(CheckpointError, match="of another architecture"):
        ProcgenAgent.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_training_goes_on_with_other_actors_as_with_those_before(before, after, make, tmp_path):
    agent, path = make(envs=4, actors=before), tmp_path / "agent"
    agent.learn()
    agent.save(path)
    other = ProcgenAgent.load(path, actors=after)
    try:
        assert other.config == replace(agent.config, actors=after)
        for _ in range(2):
            found, wanted = other.learn(), agent.learn()
            np.testing.assert_equal(
                *([figures[name] for name in ("return", "length", "episodes")] for figures in (found, wanted))
            )
            assert found["loss"] == pytest.approx(
                wanted["loss"], rel=1e-3
            )  # sums of other batches are rounded otherwise
            np.testing.assert_array_equal(other.playing, agent.playing)
        first = make(envs=4).params
        for name, value in agent.params.items():
            moved = np.linalg.norm(value - first[name])
            assert np.linalg.norm(other.params[name] - value) <= 0.01 * moved
            assert moved > 0
    finally:
        other.close()


def test_where_the_cluster_of_a_checkpoint_is_gone_it_is_evaluated_and_goes_on_elsewhere(make, tmp_path, monkeypatch):
    agent, path = make(), tmp_path / "agent"
    agent.learn()
    sequential, agent.config = agent.config, replace(agent.config, actors=2, lag=1, cluster="127.0.0.1:1")
    agent.save(path)
    build = ProcgenAgent._build
    monkeypatch.setattr(ProcgenAgent, "_build", lambda *args: pytest.fail("nothing is built to evaluate"))
    other = ProcgenAgent.load_to_evaluate(path, form="full")
    assert (other.config, other.step, other.seed) == (agent.config, agent.step, agent.seed)
    np.testing.assert_equal(other.evaluate(2, seed=5), agent.evaluate(2, seed=5))
    other.close()
    with pytest.raises(ValueError, match=r"^actors: got a change, wanted what the checkpoint says: backend and form a"):
        ProcgenAgent.load_to_evaluate(path, actors=0)

    monkeypatch.setattr(ProcgenAgent, "_build", build)
    other = ProcgenAgent.load(path, actors=0, lag=0, cluster="")
    try:
        assert other.config == sequential
        np.testing.assert_equal(other.learn(), agent.learn())
    finally:
        other.close()


def test_a_checkpoint_is_changed_in_its_backend_form_and_actors_alone(make, tmp_path):
    agent, path = make(algorithm="a2c"), tmp_path / "agent"
    agent.save(path)
    with pytest.raises(ValueError, match=r"^game: got a change, wanted what the checkpoint says"):
        ProcgenAgent.load(path, game="maze")
    other = ProcgenAgent.load(path, form="naive")
    other.close()
    assert other.config == replace(agent.config, form="naive")


@pytest.mark.parametrize("episodes", [0, -1, 1.5])
def test_an_evaluation_is_of_one_episode_or_more(make, episodes):
    with pytest.raises(ValueError, match=rf"^episodes: got {episodes}, wanted an integer from 1"):
        make(algorithm="a2c").evaluate(episodes, 0)
