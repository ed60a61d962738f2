"""``python -m rl_impls.<workload>`` trains, resumes, evaluates and compares; user errors are one line."""

import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from correctness_tests.commands import ROOT, python
from correctness_tests.quick import quick
from correctness_tests.toy_agent import Config, Player
from correctness_tests.waiting import limit, started, until
from correctness_tests.workload_agents import (
    AGENTS,
    FIGURES,
    SMALL,
    agent_of,
    as_options,
    contents,
    make,
    option,
)
from rl_impls import backends, params
from rl_impls.common import command, config, runs, training
from rl_impls.common.workers import WorkersEnded

limited = limit("a command")


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
        (("train", "folder/agent"), "train: checkpoint: folder/agent must be a file in a folder that exists"),
        (("train", "agent", "--resume", "--seed", "3"), "train: cannot change seed when resuming; only "),
        (("train", "agent", "--resume"), "train: agent: No such file or directory"),
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
def test_a_backend_without_gradients_is_refused_before_training(workload, backend, tmp_path, capsys):
    message = error_of(capsys, workload, "train", tmp_path / "agent", "--backend", backend)
    serve = f" --serve {backend}" if workload == "pirl" else ""
    assert message == f"train: {backend} computes no gradients; train with --backend torch{serve}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "word"), [("--backend", "abacus"), ("--gama", "1"), ("--hidden", "wide")])
def test_unknown_option_or_choice_exits_with_2(tmp_path, capsys, name, word):
    with pytest.raises(SystemExit) as ended:
        run("snake", capsys, "train", tmp_path / "agent", name, word)
    assert ended.value.code == 2
    assert name in capsys.readouterr().err


STOPPED = [(name, number) for name in SMALL for number in (signal.SIGINT, signal.SIGTERM)]
STOPPED.append(("pirl", signal.SIGHUP))


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


def test_failed_allocation_is_one_line(tmp_path, capsys):
    message = error_of(capsys, "snake", "train", tmp_path / "agent", "--capacity", 2_000_000_000)
    assert re.match(r"train: not enough memory \(Unable to allocate .*\); try a smaller --capacity", message)


def test_closed_pipe_ends_a_command_quietly():
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "rl_impls.snake", "train", "--help"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert done.stderr == ""


@pytest.mark.parametrize("workload", AGENTS)
def test_help_describes_every_field(capsys, workload):
    with pytest.raises(SystemExit) as ended:
        run(workload, capsys, "train", "--help")
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, field in config.fields_of(agent_of(workload).Config).items():
        assert f" {option(name)} " in text
        assert field.description


@pytest.fixture
def play(capsys):
    """Return a function that runs a command of an agent and returns its output."""

    def play(*words, agent=Player, **defaults):
        command.main(agent, list(map(str, words)), **defaults)
        return capsys.readouterr().out

    return play


@pytest.fixture
def clock(monkeypatch):
    """Return a function that replaces the clock of training by one that advances at each reading."""

    def every(seconds):
        times = iter(range(0, 1000 * seconds, seconds))
        monkeypatch.setattr(training, "perf_counter", lambda: next(times))

    return every


def assert_trained(path, seed, **fields):
    agent = Player.load(path)
    assert agent.config == Config(**fields)
    assert agent.rng.bit_generator.state == np.random.default_rng(seed).bit_generator.state


@pytest.mark.parametrize(
    ("words", "seed", "fields"),
    [
        ((), 0, {}),
        (
            ("--width", 5, "--layers", "6,7", "--form", "naive", "--seed", 4),
            4,
            {"width": 5, "layers": (6, 7), "form": "naive"},
        ),
        (("--width", 0, "--share", 0.0), 0, {"width": 0, "share": 0.0}),  # 0 is a value, not a missing option
    ],
)
def test_options_set_fields(tmp_path, play, words, seed, fields):
    out = play("train", tmp_path / "it", *words, steps=11)
    assert out.startswith("training from step 0 to 11\n")
    assert out.endswith(f"{tmp_path / 'it'}: 20 moves\n")
    assert_trained(tmp_path / "it", seed, **fields)


def test_failed_workers_are_one_line(tmp_path, play):
    class Failing(Player):
        def learn(self):
            raise WorkersEnded("actor 1 died 6 times before it had answered")

    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--steps", 1, agent=Failing)
    kept = f"{tmp_path / 'it'} holds step 0, continue with --resume"
    assert ended.value.code == f"train: actor 1 died 6 times before it had answered; {kept}"


def test_command_line_overrides_the_file(tmp_path, play):
    (tmp_path / "it.yaml").write_text("width: 6\nlayers: [7]\nshare: 5e-1\nform: naive\nseed: 9\nsteps: 21\n")
    out = play("train", tmp_path / "it", "--config", tmp_path / "it.yaml")
    assert out.startswith("training from step 0 to 21\n")
    assert_trained(tmp_path / "it", 9, width=6, layers=(7,), form="naive")
    words = ("--form", "full", "--seed", 0, "--steps", 1)
    out = play("train", tmp_path / "other", "--config", tmp_path / "it.yaml", *words)
    assert out.startswith("training from step 0 to 1\n")
    assert_trained(tmp_path / "other", 0, width=6, layers=(7,))


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("form: full\nwidth: 10\n", (), "{file}, line 2: width=10 should be at most 9, the sum of layers"),
        ("width: 5\n", ("--width", 10), "width=10 should be at most 9"),
        ("form: full\nwidth: many\n", (), "{file}, line 2: width='many' should be a valid integer"),
        ("layers: [4, x]\n", (), "{file}, line 1: layers[1]='x' should be a valid integer"),
        ("width: 1\nform: full\nwidth: 2\n", (), "{file}, line 3: width is already set on line 1"),
        ("width: 1\nwide: 2\n", (), "{file}, line 2: wide is unknown (choose from backend, form, width, share, "),
        ("width: 1\nbatch: 2\n", (), "{file}, line 2: batch was renamed to batch_size"),
        ("- width\n", (), "{file}, line 1: write one setting per line"),
        ("[width]: 1\n", (), "{file}, line 1: the name of a setting should be a word"),
        ("form: full\nlayers: [1\n", (), "{file}, line 3: invalid YAML"),
        ("form: !!python/object:os.system x\n", (), "{file}, line 1: invalid YAML (could not determine a constructor"),
        ("\nsteps: 0\n", (), "{file}, line 2: steps=0 should be an integer from 1 to 2147483647"),
        ("form: full\nduration: 0.0\n", (), "{file}, line 2: duration='0.0' should be a number of hours above 0"),
        ("steps: 1\nduration: 1m\n", (), "{file}, line 2: duration cannot be combined with steps"),
        ("width: 5\n", ("--resume",), "--config cannot be combined with --resume, except to set "),
    ],
)
def test_invalid_file_is_one_line_that_names_its_line(tmp_path, play, text, words, message):
    file = tmp_path / "it.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--config", file, *words)
    assert ended.value.code.startswith("train: " + message.format(file=file))
    assert len(ended.value.code.splitlines()) == 1


def test_duration_ends_training_after_the_chunk(tmp_path, play, clock):
    deadlines = []

    class Timed(Player):
        def learn(self):
            deadlines.append(self.deadline)
            return super().learn()

    clock(10)
    out = play("train", tmp_path / "it", "--duration", "25s", agent=Timed)
    assert out.startswith("training from step 0 for 25 s\n")
    assert out.endswith(f"{tmp_path / 'it'}: 30 moves\n")  # after 10, 20 and 30 seconds
    assert "1 moves per second" in out
    play("train", tmp_path / "it", "--resume", "--steps", 10, agent=Timed)
    assert deadlines == [25, 25, 25, math.inf]


def test_rate_of_a_resumed_training_counts_its_own_steps_only(tmp_path, play, clock):
    play("train", "--output-dir", tmp_path / "run", "--steps", 50)
    clock(10)
    out = play("train", "--output-dir", tmp_path / "run", "--steps", 20, "--resume")
    assert "\n1 moves per second" in out  # 20 moves in 20 seconds, and 70 in all
    assert runs.summary(tmp_path / "run")["rate"] == 1


def test_checkpoint_is_saved_every_ten_minutes(tmp_path, play, clock):
    saves = []

    class Saved(Player):
        def save(self, path):
            saves.append((path, self.step))

    clock(200)
    path = tmp_path / "it"
    play("train", path, "--steps", 70, agent=Saved)
    assert saves == [(path, 0), (path, 30), (path, 60), (path, 70)]  # after 600 and 1,200 seconds, and at the end


def test_output_dir_keeps_checkpoint_curve_and_summary(tmp_path, play):
    folder = tmp_path / "run"
    play("train", "--output-dir", folder, "--steps", 30, "--width", 5, "--seed", 4, "--threads", 1)
    assert [point["step"] for point in runs.points(folder)] == [10, 20, 30]
    assert list(runs.points(folder)[0])[:7] == ["step", "seconds", "fps", "memory", "return", "length", "episodes"]
    found = runs.summary(folder)
    assert (found["step"], found["config"]["width"], found["seed"], found["threads"]) == (30, 5, 4, 1)
    assert re.fullmatch(r"[0-9a-f]{40}(\+dirty)?", found["commit"])
    assert found["versions"]["numpy"] == np.__version__
    assert play("evaluate", folder, "--num-episodes", 2).startswith("a ")
    out = play("train", "--output-dir", folder, "--steps", 10, "--resume")
    assert out.startswith("training from step 30 to 40\n")
    assert play("train", folder, "--steps", 10, "--resume").startswith("training from step 40 to 50\n")
    assert [point["step"] for point in runs.points(folder)] == [10, 20, 30, 40, 50]
    assert runs.summary(folder)["seed"] == 4
    assert "plot: " in play("compare", folder, "--output", tmp_path / "it.html")


RETURNS = 1, 3, 3, -9, 1, 2, 90


class Scored(Player):
    """A toy agent with a return for each chunk."""

    def learn(self):
        return super().learn() | {"return": RETURNS[self.step // self.chunk - 1]}


@pytest.mark.parametrize("links", [True, False])
def test_last_checkpoints_and_the_best_one_are_kept(tmp_path, play, monkeypatch, links):
    def refuse(*paths):
        raise PermissionError(1, "Operation not permitted")

    if not links:  # as on a FAT file system
        monkeypatch.setattr(os, "link", refuse)
    often = ("train", "--output-dir", tmp_path, "--save-every", "0.000001s")
    Scored(seed=0).save(tmp_path / "agent-final.safetensors")  # a file of the user
    play(*often, "--steps", 50, "--keep", 2, agent=Scored)
    steps = {path.name: Scored.load(path).step for path in tmp_path.glob("*.safetensors")}
    assert steps == {
        "agent.safetensors": 50, "agent-000000040.safetensors": 40, "agent-000000050.safetensors": 50,
        "best.safetensors": 30, "agent-final.safetensors": 0,
    }  # fmt: skip
    for best in (30, 70):  # the mean return is 7 / 3 at step 30, 1 / 6 at step 60 and 13 at step 70
        play(*often, "--steps", 10, "--resume", agent=Scored)
        assert Scored.load(tmp_path / "best.safetensors").step == best
    assert {path.name for path in tmp_path.glob("*.safetensors")} == steps.keys()


def test_an_update_that_diverges_names_the_last_good_checkpoint(tmp_path, play):
    class Diverging(Player):
        def learn(self):
            raise FloatingPointError("a TD error became infinite or NaN")

    words = r"^train: after step 0, a TD error became infinite or NaN; .*/it still holds the last good state; "
    with pytest.raises(SystemExit, match=words):
        play("train", tmp_path / "it", agent=Diverging)


def test_run_is_not_overwritten(tmp_path, play):
    folder, words = tmp_path / "run", ("train", "--output-dir", tmp_path / "run", "--steps", 30)
    play(*words)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/run holds a run; add --resume to continue it, or"):
        play(*words)
    with pytest.raises(SystemExit, match=r"^train: checkpoint: .* exists; add --resume to continue it, or"):
        play("train", folder / runs.CHECKPOINT)
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/run holds another run; choose another folder"):
        play("train", tmp_path / "other", "--output-dir", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_unwritable_checkpoint_is_found_before_training(play):
    class Untrained(Player):
        def learn(self):
            pytest.fail("training started")

    with pytest.raises(SystemExit, match=r"^train: /proc/agent: cannot be written: "):
        play("train", "/proc/agent", "--steps", 1, agent=Untrained)


def test_full_disk_at_a_later_checkpoint_does_not_end_training(tmp_path, play, clock):
    class Full(Player):
        def save(self, path):
            if self.step == 30:
                raise OSError(28, "No space left on device", str(path))
            super().save(path)

    clock(200)
    out = play("train", tmp_path / "it", "--steps", 70, agent=Full)
    assert "warning: no checkpoint at step 30: [Errno 28] No space left on device" in " ".join(out.split())
    assert Full.load(tmp_path / "it").step == 70


def test_unwritable_curve_ends_training_with_a_checkpoint(tmp_path, play):
    class Full(float):
        def __repr__(self):  # as if the disk were full when the curve is written
            raise OSError(28, "No space left on device", "curve.csv")

    class Filling(Player):
        def learn(self):
            return super().learn() | ({"return": Full()} if self.step == 20 else {})

    with pytest.raises(SystemExit, match=r"^train: curve.csv: No space left on device$"):
        play("train", "--output-dir", tmp_path / "run", "--steps", 70, agent=Filling)
    assert Filling.load(tmp_path / "run" / runs.CHECKPOINT).step == 20


@pytest.mark.parametrize("ignored", [False, True])
def test_closed_terminal_stops_a_training_unless_nohup_ignores_it(tmp_path, play, ignored):
    class HungUp(Player):
        def learn(self):
            os.kill(os.getpid(), signal.SIGHUP)
            return super().learn()

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else lambda *of_signal: None)
    try:
        if ignored:
            play("train", tmp_path / "it", "--steps", 20, agent=HungUp)
        else:
            with pytest.raises(SystemExit) as ended:
                play("train", tmp_path / "it", "--steps", 20, agent=HungUp)
            assert ended.value.code == 128 + signal.SIGHUP
    finally:
        signal.signal(signal.SIGHUP, before)
    assert HungUp.load(tmp_path / "it").step == (20 if ignored else 10)


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
from rl_impls.common.procgen_env import default_threads

class Threaded(Player):
    def learn(self):
        import torch
        print(torch.get_num_threads(), "threads,", default_threads(), "of games,", os.environ["NPROC"], "of XLA")
        print(torch.get_num_interop_threads(), "operations at a time,", os.environ["GOMP_SPINCOUNT"], "spins")
        return super().learn()

assert "torch" not in sys.modules
command.main(Threaded)
"""


@pytest.mark.parametrize(
    ("words", "variable", "threads"),
    [
        ((), "", "1"),
        (("--weights", "10000000"), "", str(len(os.sched_getaffinity(0)))),
        (("--threads", "2"), "1", "2"),
    ],
)
def test_default_threads_depend_on_the_size_of_the_net(tmp_path, words, variable, threads):
    words = ["train", tmp_path / "it", "--steps", 1, "--inter-op-threads", 3, *words]
    done = python("-c", THREADS, *words, OMP_NUM_THREADS=variable)
    assert f"{threads} thread" in done.stdout.splitlines()[1]
    assert f"\n{threads} threads, {threads} of games, {threads} of XLA\n" in done.stdout
    assert "\n3 operations at a time, 1000 spins\n" in done.stdout


def test_configuration_file_sets_the_threads(tmp_path, play):
    file, folder = tmp_path / "it.yaml", tmp_path / "run"
    file.write_text("width: 5\nthreads: 2\nsteps: 1\n")
    assert ", 2 threads of " in play("train", "--config", file, "--output-dir", folder)
    assert runs.summary(folder)["threads"] == 2
    file.write_text("threads: 1\nsteps: 1\n")  # not part of the checkpoint, so it can be set on resume
    for options, threads in ((("--threads", 2), 2), ((), 1)):
        play("train", "--config", file, "--resume", folder, *options)
        assert runs.summary(folder)["threads"] == threads


def test_train_needs_a_file_or_a_folder(tmp_path, play):
    with pytest.raises(SystemExit, match=r"^train: checkpoint: no file was given; name one, or a folder with --output"):
        play("train", "--steps", 1)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/file is not a folder; "):
        play("train", "--output-dir", tmp_path / "file")


def test_evaluations_are_kept_as_json(tmp_path, play):
    Player(seed=0).save(tmp_path / "it.safetensors")
    play("evaluate", tmp_path / "it.safetensors", "--episodes", 3, "--form", "naive")
    shown = play("evaluate", "--checkpoint", tmp_path / "it.safetensors", "--episodes", 3, "--seed", 5)
    assert shown == "a           1.00 +- 0.58, n = 3 episodes\nlongest     5.00 +- 0.00, n = 3 episodes\n"
    found, naive = (json.loads((tmp_path / f"evaluation-it{name}.json").read_text()) for name in ("", "-form=naive"))
    assert found["figures"] == {
        "a": {"mean": 1.0, "error": pytest.approx(3**-0.5)}, "longest": {"mean": 5.0, "error": 0.0},
    }  # fmt: skip
    assert play("evaluate", tmp_path / "it.safetensors", "--episodes", 1).startswith(
        "a           0.00, n = 1 episode\n"
    )
    assert (found["checkpoint"], found["step"], found["episodes"], found["seed"]) == ("it.safetensors", 0, 3, 5)
    assert (found["config"]["form"], naive["config"]["form"], naive["seed"]) == ("full", "naive", 0)


def test_evaluation_overrides_the_fields_that_the_agent_names(tmp_path, play):
    class Playing(Player):
        EVALUATES = ("game",)

        def evaluate(self, episodes, seed, game="of the checkpoint"):
            return {game: np.zeros(episodes)}

    Playing(seed=0).save(tmp_path / "it")
    for words, game in (((), "of the checkpoint "), (("--game", "go"), "go "), (("--env", "procgen-go-v0"), "go ")):
        assert play("evaluate", tmp_path / "it", *words, agent=Playing).startswith(game)
    assert {path.name for path in tmp_path.iterdir()} == {"it", "evaluation-it.json", "evaluation-it-game=go.json"}


def test_deterministic_evaluation_is_offered_by_stochastic_agents_only(tmp_path, play):
    class Drawing(Player):
        STOCHASTIC = True

        def evaluate(self, episodes, seed, deterministic=False):
            return {"deterministic": np.full(episodes, float(deterministic))}

    Player(seed=0).save(tmp_path / "it")
    with pytest.raises(SystemExit) as ended:
        play("evaluate", tmp_path / "it", "--deterministic")
    assert ended.value.code == 2
    Drawing(seed=0).save(tmp_path / "it")
    for words, shown in ((("--deterministic",), "1.00"), ((), "0.00")):
        assert play("evaluate", tmp_path / "it", *words, agent=Drawing).split()[1] == shown


def test_a_run_that_resumes_a_checkpoint_from_elsewhere_does_not_know_its_seed(tmp_path, play):
    play("train", tmp_path / "it", "--steps", 10, "--seed", 4)
    play("train", tmp_path / "it", "--output-dir", tmp_path / "run", "--steps", 10, "--resume")
    assert runs.summary(tmp_path / "run")["seed"] is None
