"""``python -m rl_impls.<workload>`` trains, resumes and evaluates; user errors are one line."""

import importlib
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from correctness_tests.commands import ROOT, python
from correctness_tests.quick import quick
from correctness_tests.waiting import started, until
from correctness_tests.workload_agents import AGENTS, FIGURES, SMALL, agent_of, as_options, contents, make, option
from rl_impls import backends, params
from rl_impls.common import config, runs


def run(workload, capsys, *arguments):
    importlib.import_module(f"rl_impls.{workload}.__main__").main(list(map(str, arguments)))
    return capsys.readouterr().out


@pytest.mark.parametrize("workload", AGENTS)
def test_commands_train_evaluate_and_resume_like_the_agent(tmp_path, capsys, workload):
    path, config = tmp_path / "agent", SMALL[workload] | {"form": "naive"}
    agent = agent_of(workload)(seed=5, **config)
    chunk, unit = agent.chunk, agent.UNIT
    text = run(workload, capsys, "train", path, "--steps", chunk + 1, "--seed", 5, *as_options(config))
    assert f"training from step 0 to {chunk + 1}\n" in text
    assert f"{path}: {2 * chunk} {unit}\n" in text
    for _ in range(2):
        agent.learn()
    agent.save(tmp_path / "same")
    assert contents(path) == contents(tmp_path / "same")
    figures = agent.evaluate(4, seed=2)
    agent.close()
    lines = run(workload, capsys, "evaluate", path, "--episodes", 4, "--seed", 2).splitlines()
    assert [line.split()[0] for line in lines] == FIGURES[workload]
    for line in lines:
        name, mean, _, error, *_ = line.split()
        assert float(mean) == pytest.approx(np.mean(figures[name]), abs=0.006)
        assert float(error.rstrip(",")) == pytest.approx(np.std(figures[name], ddof=1) / 2, abs=0.006)
    text = run(workload, capsys, "train", path, "--steps", 1, "--resume", "--form", "full")
    assert f"training from step {2 * chunk} to {2 * chunk + 1}\n" in text
    assert f"{path}: {3 * chunk} {unit}\n" in text


def error_of(capsys, workload, *arguments):
    with pytest.raises(SystemExit) as ended:
        run(workload, capsys, *arguments)
    assert len(ended.value.code.splitlines()) == 1
    return ended.value.code  # Python prints it and exits with 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "nowhere"), "evaluate: nowhere: No such file or directory"),
        (("evaluate", "agent", "--episodes", "0"), "evaluate: episodes=0 should be an integer from 1 to"),
        (("train", "agent", "--steps", "0"), "train: steps=0 should be an integer from 1 to"),
        (("train", "agent", "--save-every", "soon"), "train: save_every='soon' should be a number of hours above 0"),
        (("train", "folder/agent"), "train: checkpoint: folder/agent is a folder, or its folder does not exist; "),
        (("train", "agent", "--resume", "--seed", "3"), "train: cannot change seed when resuming; only "),
        (("train", "agent", "--resume"), "train: agent does not exist; leave out --resume to start a new run"),
    ],
)
def test_user_error_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert error_of(capsys, "snake", *arguments).startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("workload", "backend"),
    [(name, backend) for name in SMALL for backend in ("numpy", "torch-trace", "onnx")
     if backend in backends.names_of(name)],
)  # fmt: skip
def test_a_backend_without_gradients_is_refused_before_training(workload, backend, tmp_path, capsys, request):
    if workload == "procgen":
        request.getfixturevalue("installed")
    message = error_of(capsys, workload, "train", tmp_path / "agent", "--backend", backend)
    serve = f" --serve {backend}" if workload == "pirl" else ""
    assert message == f"train: {backend} computes no gradients; train with --backend torch{serve}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--backend=abacus", "argument --backend: invalid choice: 'abacus' (choose from "),
        ("--batch-size=x", "argument --batch-size: invalid choice: 'x' (choose from 32, 64, 128, 256)"),
        ("--batch-size=33", "argument --batch-size: invalid choice: '33' (choose from 32, 64, 128, 256)"),
        ("--hidden=wide", "argument --hidden: invalid int value: 'wide'"),
        ("--batch-szie=64", "unrecognized arguments: --batch-szie=64; did you mean --batch-size?"),
        ("--abacus", "unrecognized arguments: --abacus"),
    ],
)
def test_wrong_option_is_one_line_and_code_2(tmp_path, capsys, option, message):
    with pytest.raises(SystemExit) as ended:
        run("snake", capsys, "train", tmp_path / "agent", option)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"python -m rl_impls.snake train: error: {message}")


STOPPED = [(name, number) for name in SMALL for number in (signal.SIGINT, signal.SIGTERM)]
STOPPED.append(("pirl", signal.SIGHUP))


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(("workload", "number"), quick([("pirl", signal.SIGTERM)], STOPPED))
def test_stopped_training_is_saved_and_can_be_resumed(tmp_path, capsys, workload, number):
    folder = tmp_path / "run"
    words = [sys.executable, "-m", f"rl_impls.{workload}", "train", "--output-dir", str(folder), "--steps", "10000000"]
    with started([*words, *as_options(SMALL[workload]), "--threads", "1", "--inter-op-threads", "1"]) as process:
        assert process.stdout.readline().startswith("training from step 0")
        until(lambda: runs.points(folder), "the first point of the curve")
        process.send_signal(number)
        out, _ = process.communicate()
        assert process.returncode == 128 + number
    saved = agent_of(workload).load(folder / runs.CHECKPOINT)
    saved.close()
    assert 0 < saved.step == runs.points(folder)[-1]["step"]
    assert out.endswith(f"stopped by {number.name}; continue with --resume\n")
    text = run(workload, capsys, "train", folder, "--resume", "--steps", 1)
    assert f"training from step {saved.step} to {saved.step + 1}\n" in text


DIVERGING = {name: {"learning_rate": 1e20, "max_grad_norm": 1e30} for name in SMALL} | {"pirl": {"learning_rate": 1e39}}


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("workload", AGENTS)
def test_diverged_training_keeps_the_last_good_checkpoint(tmp_path, capsys, workload):
    path, many = tmp_path / "agent", 100 * make(workload).chunk
    options = as_options(SMALL[workload] | DIVERGING[workload])
    message = error_of(capsys, workload, "train", path, "--steps", many, *options)
    assert re.match(r"train: between steps \d+ and \d+, (the [a-z ]*loss|weights) became ", message)
    assert f"{path} still holds the last good state" in message
    kept = agent_of(workload).load(path)
    kept.close()
    assert kept.step == 0
    assert all(np.isfinite(value).all() for value in kept.params.values())


@pytest.mark.parametrize("command", ["evaluate", "train"])
def test_checkpoint_with_nan_weights_is_refused(tmp_path, capsys, command):
    path, agent = tmp_path / "agent", make("snake")
    agent.save(path)
    weight = next(iter(agent.params))
    arrays, metadata = params.load_with_metadata(path)
    for name, array in arrays.items():
        if name.endswith(weight):
            array.flat[0] = np.nan
    params.save(path, arrays, **metadata)
    more = ("--resume",) if command == "train" else ()
    message = error_of(capsys, "snake", command, path, *more)
    assert message.startswith(f"{command}: {path}, step 0: weights became infinite or NaN; ")


@pytest.mark.usefixtures("torch")
def test_failed_allocation_is_one_line(tmp_path, capsys):
    message = error_of(capsys, "snake", "train", tmp_path / "agent", "--capacity", 2_000_000_000)
    assert re.match(r"train: not enough memory \(Unable to allocate .*\); try a smaller --capacity", message)


@pytest.mark.parametrize("workload", AGENTS)
def test_help_describes_every_field(capsys, workload):
    with pytest.raises(SystemExit) as ended:
        run(workload, capsys, "train", "--help")
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert " Train an agent and save checkpoints. " in text
    assert agent_of(workload).ABOUT
    for name, field in config.fields_of(agent_of(workload).Config).items():
        assert f" {option(name)} " in text
        assert field.description


HANGS = """
import time
from correctness_tests.toy_agent import Player
from rl_impls.common import command

class Hanging(Player):
    def learn(self):
        print("learning", flush=True)
        time.sleep(1000)

command.main(Hanging)
"""


def test_second_ctrl_c_ends_a_training_that_hangs(tmp_path):
    words = [sys.executable, "-c", HANGS, "train", str(tmp_path / "it")]
    with started(words, cwd=ROOT) as process:
        while process.stdout.readline() != "learning\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


THREADS = """
import os, sys
from correctness_tests.toy_agent import Player
from rl_impls.common import command
from rl_impls.common.procgen_env import chosen_threads

class Threaded(Player):
    def learn(self):
        print(os.environ["OMP_NUM_THREADS"], "threads,", chosen_threads(), "of games,", os.environ["NPROC"], "of XLA")
        print(os.environ["GOMP_SPINCOUNT"], "spins")
        if torch := sys.modules.get("torch"):
            print(torch.get_num_threads(), "threads,", torch.get_num_interop_threads(), "operations at a time")
        return super().learn()

assert "torch" not in sys.modules
command.main(Threaded)
"""


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("words", "variable", "threads"),
    [
        ((), "", "1"),
        (("--weights", "10000000"), "", str(len(os.sched_getaffinity(0)))),
        (("--threads", "2", "--inter-op-threads", "3"), "1", "2"),
    ],
)
def test_default_threads_depend_on_the_size_of_the_net(tmp_path, words, variable, threads):
    done = python("-c", THREADS, "train", tmp_path / "it", "--steps", 1, *words, OMP_NUM_THREADS=variable)
    assert f"{threads} thread" in done.stdout.splitlines()[1]
    assert f"\n{threads} threads, {threads} of games, {threads} of XLA\n" in done.stdout
    assert "\n1000 spins\n" in done.stdout
    assert ("\n2 threads, 3 operations at a time\n" in done.stdout) == bool(variable)
