"""The agent as a user has it: what it shows while it trains, what it keeps, and what it refuses to go on from."""

from __future__ import annotations

import re

import numpy as np
import pytest

from correctness_tests.mario.agent_sizes import FIGURES, SMALL
from correctness_tests.waiting import children
from correctness_tests.workload_agents import as_options
from rl_impls import params
from rl_impls.mario.__main__ import main
from rl_impls.mario.agent import MarioAgent
from rl_impls.mario.evaluation import evaluate

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a small agent with batch norm and priorities, and what was printed while it trained."""
    import contextlib
    import io

    path, printed = tmp_path_factory.mktemp("mario") / "agent", io.StringIO()
    words = ["--norm", "batch", "--sampling", "prioritised", "--steps", "80", "--seed", "3"]
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
        patch.setattr("rl_impls.common.training.SAID_EVERY", 0)
        main(["train", str(path), *as_options(SMALL), *words])
    return path, printed.getvalue()


@pytest.fixture(scope="module")
def loaded(trained):
    """The agent of that checkpoint."""
    agent = MarioAgent.load(trained[0])
    yield agent
    agent.close()


def test_two_lines_say_what_hands_over_and_what_learns(trained):
    _, printed = trained
    processor = re.findall(
        r"^\[processor\] processed ([\d,]+) \([\d,]+/s\), batches \d+, drops 0, buffer ([\d,]+), queue 0, "
        r"blocked lock 0\.\d{3} s, full 0\.\d{3} s, empty \d\.\d{3} s$", printed, re.MULTILINE,
    )  # fmt: skip
    learner = re.findall(
        r"^\[main\] epoch (\d+), loss \d\.\d{4}, TD error \d\.\d{4}, reward (?:nan|-?\d+\.\d\d), "
        r"distance (?:nan|[01]\.\d\d), epsilon (\d\.\d{3}), consumed [\d,]+/s, "
        r"[\d.]+ batches/s, \d+\.\d\d s an epoch, "
        r"policy lag (\d+) updates$", printed, re.MULTILINE,
    )  # fmt: skip
    assert [int(number) for number, *_ in learner] == list(range(1, 11))
    assert [int(processed.replace(",", "")) for processed, _ in processor] == list(range(8, 88, 8))
    assert [int(buffer) for _, buffer in processor] == list(range(16, 96, 8))
    epsilons = [float(epsilon) for *_, epsilon, _ in learner]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[-1] == 0.1
    assert {int(lag) for *_, lag in learner} == {2, 4}


def test_it_goes_on_with_batch_norm_and_priorities(trained, loaded):
    first, second = loaded, MarioAgent.load(trained[0])
    assert first.config.sampling == "prioritised"
    said = re.findall(r"reward (-?\d+\.\d\d), distance (\d\.\d\d), ", trained[1])[-1]
    assert tuple(f"{value:.2f}" for value in second.last) == said, "what episodes brought, until another one ends"
    got = [first.learn() for _ in range(3)]
    wanted = [second.learn() for _ in range(3)]
    np.testing.assert_equal(got, wanted)
    assert any(name.startswith("m_") for name in first.params)
    for name, value in second.params.items():
        np.testing.assert_array_equal(first.params[name], value)
    second.close()


def test_an_evaluation_says_how_far_it_came(loaded):
    found = loaded.evaluate(3, seed=0)
    assert list(found) == FIGURES
    assert set(found["distance"]) <= {0.0, 1.0}
    assert (found["length"] >= 1).all()


def test_to_evaluate_a_checkpoint_no_pipeline_is_started(trained, loaded, monkeypatch):
    monkeypatch.setattr(MarioAgent, "_build", lambda *args: pytest.fail("nothing is built to evaluate"))
    agent = MarioAgent.load_to_evaluate(trained[0])
    assert (agent.config, agent.step, agent.seed) == (loaded.config, 80, loaded.seed)
    arrays, _ = params.load_with_metadata(trained[0])
    np.testing.assert_equal(agent.params, {name: arrays[f"train.online.{name}"] for name in loaded.params})
    wanted = evaluate(loaded.spec, agent.params, 3, 0, loaded.config.knobs)
    np.testing.assert_equal(agent.evaluate(3, seed=0), wanted)
    agent.close()
    with pytest.raises(ValueError, match=r"^game: got a change, wanted what the checkpoint says"):
        MarioAgent.load_to_evaluate(trained[0], game="maze")


@pytest.mark.parametrize("change", ["a frame less", "another array", "games of other levels"])
def test_a_checkpoint_that_does_not_fit_is_refused(trained, tmp_path, change):
    arrays, metadata = params.load_with_metadata(trained[0])
    if change == "a frame less":
        arrays["replay.frames"] = arrays["replay.frames"][1:]
    elif change == "another array":
        arrays["replay.more"] = np.zeros(3, np.float32)
    else:
        metadata["config"] = metadata["config"].replace('"levels": 10', '"levels": 9')
    params.save(tmp_path / "agent", arrays, **metadata)
    before = children()
    with pytest.raises(params.CheckpointError, match="^" + re.escape(str(tmp_path / "agent"))):
        MarioAgent.load(tmp_path / "agent")
    assert set(children()) <= set(before)
