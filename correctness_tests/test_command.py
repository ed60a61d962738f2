"""``python -m rl_impls.<workload>`` trains, resumes, evaluates and compares; a mistake is one line."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from correctness_tests.commands import ROOT, python
from correctness_tests.quick import quick
from correctness_tests.waiting import limit, started, until
from correctness_tests.workload_agents import (
    AGENTS,
    FIGURES,
    SMALL,
    agent_of,
    as_options,
    contents,
    fields_of,
    make,
    option,
)
from rl_impls import backends, params
from rl_impls.common import command, files, procgen_env, runs, training
from rl_impls.common.config_fields import single_fields
from rl_impls.common.workers import WorkersEnded
from rl_impls.mario.transport import TransportBroken

limited = limit("a command")


def run(workload, capsys, *arguments):
    """Run a command in this process; return what it prints."""
    importlib.import_module(f"rl_impls.{workload}.__main__").main(list(map(str, arguments)))
    return capsys.readouterr().out


@pytest.mark.parametrize("workload", AGENTS)
def test_train_resume_and_evaluate(tmp_path, capsys, workload):
    path, options, small = tmp_path / "agent", as_options(SMALL[workload]), make(workload)
    chunk, unit = small.chunk, small.UNIT
    text = run(workload, capsys, "train", path, "--steps", chunk + 1, "--seed", 1, *options)
    assert f"training from step 0 to {chunk + 1}\n" in text
    assert f"{path}: {2 * chunk} {unit}\n" in text
    text = run(workload, capsys, "train", path, "--steps", 1, "--resume", "--form", "naive")
    assert f"training from step {2 * chunk} to {2 * chunk + 1}\n" in text
    assert f"{path}: {3 * chunk} {unit}\n" in text
    text = run(workload, capsys, "evaluate", path, "--episodes", 3, "--form", "full")
    assert [line.split()[0] for line in text.splitlines()] == FIGURES[workload]
    assert text.count("n = 3 episodes") == len(FIGURES[workload])


@pytest.mark.parametrize("workload", AGENTS)
def test_options_reach_the_agent(tmp_path, capsys, workload):
    path, kind = tmp_path / "agent", agent_of(workload)
    run(workload, capsys, "train", path, "--steps", 1, "--seed", 5, *as_options(SMALL[workload] | {"form": "naive"}))
    agent = kind(form="naive", seed=5, **SMALL[workload])
    agent.learn()
    agent.save(tmp_path / "wanted")
    assert contents(path) == contents(tmp_path / "wanted")
    figures = agent.evaluate(4, seed=2)
    for line in run(workload, capsys, "evaluate", path, "--episodes", 4, "--seed", 2).splitlines():
        name, mean, _, error, *_ = line.split()
        assert float(mean) == pytest.approx(np.mean(figures[name]), abs=0.006)
        assert float(error.rstrip(",")) == pytest.approx(np.std(figures[name]) / 2, abs=0.006)


MISTAKES = [
    (("evaluate", "nowhere"), "evaluate: nowhere: No such file or directory"),
    (("evaluate", "agent", "--episodes", "0"), "episodes: got 0, wanted an integer from 1 to"),
    (("train", "agent", "--steps", "0"), "steps: got 0, wanted an integer from 1 to"),
    (("train", "agent", "--threads", "0"), "threads: got 0, wanted an integer from 1 to"),
    (("train", "folder/agent"), "checkpoint: folder/agent must be a file in a folder that exists"),
    (("train", "agent", "--resume", "--seed", "3"), "seed: got a change, wanted what the checkpoint says: "),
    (("train", "agent", "--resume"), "train: agent: No such file or directory"),
]


def mistakes_in_a_configuration(workload):
    """A value out of range of one integer and one float field, and a change of it on resuming."""
    for kind, wrong, wanted in ((int, str(2**31), "an integer"), (float, "nan", "a")):
        for name in fields_of(workload, kind)[:1]:
            yield ("train", "agent", option(name), wrong), f"{name}: got {wrong}, wanted {wanted} "
            changed = ("train", "agent", "--resume", option(name), "3")
            yield changed, f"{name}: got a change, wanted what the checkpoint says: "


@pytest.mark.parametrize(
    ("workload", "arguments", "message"),
    [
        *(("snake", *one) for one in MISTAKES),
        *((name, *one) for name in SMALL for one in mistakes_in_a_configuration(name)),
    ],
)
def test_mistake_is_one_line(tmp_path, monkeypatch, capsys, workload, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(workload, capsys, *arguments)
    assert message in ended.value.code  # which Python prints, and exits with 1
    assert ended.value.code.startswith(f"{arguments[0]}: ")
    assert len(ended.value.code.splitlines()) == 1
    assert not list(tmp_path.iterdir())


NEVER_COMPILED = ("numpy", "torch-trace", "onnx")


@pytest.mark.parametrize(
    ("workload", "backend"),
    [(name, backend) for name in SMALL for backend in NEVER_COMPILED if backend in backends.names_of(name)],
)
def test_backend_trains_or_is_refused_in_one_line(tmp_path, capsys, workload, backend):
    path, refused = tmp_path / "agent", ""
    try:
        run(workload, capsys, "train", path, "--steps", 1, "--backend", backend, *as_options(SMALL[workload]))
    except SystemExit as ended:
        refused = ended.code
    assert path.exists() != bool(refused)
    if refused:
        assert re.match(rf"train: .*{backend}", refused)
        assert len(refused.splitlines()) == 1


@pytest.mark.parametrize("workload", AGENTS)
def test_wrong_option_or_value_exits_with_2(tmp_path, capsys, workload):
    numbers = dict.fromkeys(fields_of(workload, int, float), "wide")
    for name, word in {"backend": "abacus", "form": "fastest", "gama": "1", **numbers}.items():
        with pytest.raises(SystemExit) as ended:
            run(workload, capsys, "train", tmp_path / "agent", option(name), word)
        assert ended.value.code == 2
        assert option(name) in capsys.readouterr().err


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


DIVERGING = {name: ("--learning-rate", "1e39" if name == "pirl" else "1e20") for name in SMALL}
for name in ("snake", "treasurehunt", "procgen", "mario"):
    DIVERGING[name] += ("--gradient-norm", "1e30")


@pytest.mark.parametrize("workload", AGENTS)
def test_diverged_training_keeps_the_last_good_checkpoint(tmp_path, capsys, workload):
    path, small = tmp_path / "agent", {**SMALL[workload]}
    small.pop("learning_rate", None)
    many = 100 * make(workload).chunk
    with pytest.raises(SystemExit) as ended:
        run(workload, capsys, "train", path, "--steps", many, *as_options(small), *DIVERGING[workload])
    assert re.match(r"train: between steps \d+ and \d+, (the loss|weights) became ", ended.value.code)
    assert f"{path} still holds the last good state" in ended.value.code
    kept = agent_of(workload).load(path)
    kept.close()
    assert kept.step == 0
    assert all(np.isfinite(value).all() for value in kept.params.values())


@pytest.mark.parametrize("command", ["evaluate", "train"])
@pytest.mark.parametrize("workload", AGENTS)
def test_checkpoint_with_nan_weights_is_refused(tmp_path, capsys, workload, command):
    path, made = tmp_path / "agent", make(workload)
    made.save(path)
    made.close()
    arrays, metadata = params.load_with_metadata(path)
    name = next(name for name in arrays if "online." in name)
    arrays[name].flat[0] = np.nan
    params.save(path, arrays, **metadata)
    more = ("--resume",) if command == "train" else ()
    with pytest.raises(SystemExit, match=f"^{command}: {path}, step 0: weights became infinite or NaN; "):
        run(workload, capsys, command, path, *more)


def test_failed_allocation_is_one_line(tmp_path, capsys):
    with pytest.raises(
        SystemExit, match=r"^train: not enough memory \(Unable to allocate .*\); try a smaller --capacity"
    ):
        run("snake", capsys, "train", tmp_path / "agent", "--capacity", 2_000_000_000)


@pytest.mark.parametrize(
    "words", [("rl_impls",), ("rl_impls.procgen", "advise"), ("rl_impls.snake", "train", "--help")]
)
def test_closed_pipe_ends_a_command_quietly(words):
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([sys.executable, "-m", *words], stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert done.stderr == ""


@pytest.mark.parametrize("workload", AGENTS)
def test_every_field_of_a_configuration_is_an_option(capsys, workload):
    agent = importlib.import_module(f"rl_impls.{workload}.agent")
    with pytest.raises(SystemExit) as ended:
        run(workload, capsys, "train", "--help")
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for entry, _, _ in single_fields(agent.Config):
        assert f" {option(entry.name)} " in text


@dataclass(frozen=True)
class Board:
    """A part of a configuration.

    Attributes:
        width: of the board, in cells.
        share: 50 % of it.
    """

    width: int = 3
    share: float = 0.5

    def __post_init__(self):
        if self.width > 9:
            raise ValueError(f"width: got {self.width}, wanted at most 9")


@dataclass(frozen=True)
class Config:
    """A configuration.

    Attributes:
        board: that is played on.
        layers: widths.
        form: of play.
    """

    board: Board = field(default_factory=Board)
    layers: tuple[int, ...] = (4, 5)
    form: str = "full"


class Player:
    """An agent that learns nothing and records how it was made."""

    UNIT, chunk, made = "moves", 10, []

    def __init__(self, *, seed, **config):
        self.config, self.step = Config(**config), 0
        self.made.append((seed, self.config))

    def learn(self):
        self.step += self.chunk
        return {"score": 1.5, "games": 2}

    def evaluate(self, episodes, seed):
        return {"a": np.arange(episodes), "longest": np.full(episodes, seed)}

    def save(self, path):
        path.write_text(str(self.step))

    @classmethod
    def load(cls, path, **changes):
        made = cls(seed=0, **changes)
        made.step = int(path.read_text())
        return made

    def close(self):
        self.made.append("closed")


@pytest.fixture
def play(capsys):
    """Return a function that runs a command of an agent and returns what it prints."""
    Player.made.clear()

    def play(*words, agent=Player, **how):
        command.main(agent, Config, {"form": ("full", "naive")}, list(map(str, words)), **how)
        return capsys.readouterr().out

    return play


@pytest.fixture
def clock(monkeypatch):
    """Return a function that makes each look at the training's clock so many seconds later than the one before."""

    def every(seconds):
        times = iter(range(0, 1000 * seconds, seconds))
        monkeypatch.setattr(training, "perf_counter", lambda: next(times))

    return every


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ((), (0, Config())),
        (
            ("--width", 5, "--layers", "6,7", "--form", "naive", "--seed", 4),
            (4, Config(Board(5, 0.5), (6, 7), "naive")),
        ),
        (("--width", 0, "--share", 0.0, "--seed", 0), (0, Config(Board(0, 0.0)))),  # 0 is a value, not a missing option
    ],
)
def test_options_set_fields_and_nested_fields(tmp_path, play, words, made):
    out = play("train", tmp_path / "it", *words, steps=11)
    assert Player.made == [made, "closed"]
    assert out.startswith("training from step 0 to 11\n")
    assert out.endswith(f"{tmp_path / 'it'}: 20 moves\n")


@pytest.mark.parametrize("kind", [WorkersEnded, TransportBroken])
def test_workers_that_failed_are_one_line(tmp_path, play, kind):
    class Failing(Player):
        def learn(self):
            raise kind("actor 1 died 6 times before it had answered")

    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--steps", 1, agent=Failing)
    kept = f"{tmp_path / 'it'} holds step 0, continue with --resume"
    assert ended.value.code == f"train: actor 1 died 6 times before it had answered; {kept}"
    assert (tmp_path / "it").read_text() == "0"
    assert Player.made[-1] == "closed"


def test_evaluate_options_reach_the_agent(tmp_path, play):
    (tmp_path / "it").write_text("0")
    play("evaluate", tmp_path / "it", "--form", "naive", "--episodes", 1)
    assert Player.made == [(0, Config(form="naive")), "closed"]


def test_command_line_overrides_the_file(tmp_path, play):
    (tmp_path / "it.yaml").write_text("width: 6\nlayers: [7]\nform: naive\nseed: 9\nsteps: 21\n")
    out = play("train", tmp_path / "it", "--config", tmp_path / "it.yaml")
    assert Player.made == [(9, Config(Board(6), (7,), "naive")), "closed"]
    assert out.startswith("training from step 0 to 21\n")
    Player.made.clear()
    words = ("--form", "full", "--seed", 0, "--steps", 1)
    out = play("train", tmp_path / "other", "--config", tmp_path / "it.yaml", *words)
    assert Player.made == [(0, Config(Board(6), (7,), "full")), "closed"]
    assert out.startswith("training from step 0 to 1\n")


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("form: full\nwidth: 10\n", (), "{file}, line 2: width: got 10, wanted at most 9"),
        ("width: 5\n", ("--width", 10), "width: got 10, wanted at most 9"),
        ("form: full\nwidth: many\n", (), "{file}, line 2: width: got 'many', wanted an integer"),
        ("share: true\n", (), "{file}, line 1: share: got True, wanted a number"),
        ("layers: [4, x]\n", (), "{file}, line 1: layers: got [4, 'x'], wanted a list of integers"),
        ("width: 1\nform: full\nwidth: 2\n", (), "{file}, line 3: got width again, it stands on line 1 already"),
        ("width: 1\nwide: 2\n", (), "{file}, line 2: got the unknown name 'wide'; known: width, share, layers, form"),
        ("- width\n", (), "{file}, line 1: got no names with values"),
        ("form: full\nlayers: [1\n", (), "{file}, line 3: got no YAML"),
        ("form: !!python/object:os.system x\n", (), "{file}, line 1: could not determine a constructor"),
        ("\nsteps: 0\n", (), "{file}, line 2: steps: got 0, wanted an integer from 1 to 2147483647"),
        ("form: full\nduration: 0.0\n", (), "{file}, line 2: duration: got '0.0', wanted more than 0 hours"),
        ("steps: 1\nduration: 1m\n", (), "{file}, line 2: duration: got it with steps, wanted one of them"),
        ("width: 5\n", ("--resume",), "config: a file cannot be combined with --resume"),
    ],
)
def test_mistake_in_a_file_is_one_line_that_names_its_line(tmp_path, play, text, words, message):
    file = tmp_path / "it.yaml"
    file.write_text(text)
    if words == ("--resume",):
        (tmp_path / "it").write_text("0")
    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--config", file, *words)
    assert ended.value.code.startswith("train: " + message.format(file=file))
    assert len(ended.value.code.splitlines()) == 1


@pytest.mark.parametrize("text", ["5e-1", "0.5", "+5E-1"])
def test_number_in_a_file_may_be_written_as_in_python(tmp_path, play, text):
    (tmp_path / "it.yaml").write_text(f"share: {text}\nsteps: 1\nlayers: [3, 4]\n")
    play("train", tmp_path / "it", "--config", tmp_path / "it.yaml")
    assert Player.made == [(0, Config(Board(share=0.5), (3, 4))), "closed"]


def test_duration_ends_training_after_the_chunk(tmp_path, play, clock):
    clock(10)
    out = play("train", tmp_path / "it", "--duration", "25s")
    assert out.startswith("training from step 0 for 25 s\n")
    assert out.endswith(f"{tmp_path / 'it'}: 30 moves\n")  # after 10, 20 and 30 seconds
    assert "1 moves per second" in out


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
    play("train", "--output-dir", tmp_path / "run", "--steps", 30, "--width", 5)
    assert [point["step"] for point in runs.points(tmp_path / "run")] == [10, 20, 30]
    found = runs.summary(tmp_path / "run")
    assert (found["step"], found["config"]["board"]["width"]) == (30, 5)
    assert play("evaluate", tmp_path / "run", "--num-episodes", 2).startswith("a ")
    out = play("train", "--output-dir", tmp_path / "run", "--steps", 10, "--resume")
    assert out.startswith("training from step 30 to 40\n")
    assert [point["step"] for point in runs.points(tmp_path / "run")] == [10, 20, 30, 40]
    assert play("train", tmp_path / "run", "--steps", 10, "--resume").startswith("training from step 40 to 50\n")
    assert [point["step"] for point in runs.points(tmp_path / "run")] == [10, 20, 30, 40, 50]
    assert "picture: " in play("compare", tmp_path / "run", "--output", tmp_path / "it.html")


def test_run_is_not_overwritten(tmp_path, play):
    folder, words = tmp_path / "run", ("train", "--output-dir", tmp_path / "run", "--steps", 30)
    play(*words)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/run holds a run; add --resume to continue it, or"):
        play(*words)
    with pytest.raises(SystemExit, match=r"^train: checkpoint: .* exists; add --resume to continue it, or"):
        play("train", folder / runs.CHECKPOINT)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_checkpoint_that_cannot_be_written_is_found_before_training(play):
    class Writing(Player):
        def save(self, path):
            files.write_whole(path, b"0")

        def learn(self):
            pytest.fail("it trained")

    with pytest.raises(SystemExit, match=r"^train: /proc/agent: cannot be written: "):
        play("train", "/proc/agent", "--steps", 1, agent=Writing)


def test_full_disk_at_a_later_checkpoint_does_not_end_training(tmp_path, play, clock):
    class Full(Player):
        def save(self, path):
            if self.step == 30:
                raise OSError(28, "No space left on device", str(path))
            super().save(path)

    clock(200)
    out = play("train", tmp_path / "it", "--steps", 70, agent=Full)
    assert "warning: no checkpoint at step 30: [Errno 28] No space left on device" in " ".join(out.split())
    assert (tmp_path / "it").read_text() == "70"


def test_curve_that_cannot_be_written_ends_training_with_a_checkpoint(tmp_path, play):
    class Full(float):
        def __repr__(self):  # the writer of the curve finds the disk full
            raise OSError(28, "No space left on device", "curve.csv")

    class Filling(Player):
        def learn(self):
            return super().learn() | ({"score": Full()} if self.step == 20 else {})

    with pytest.raises(SystemExit, match=r"^train: curve.csv: No space left on device$"):
        play("train", "--output-dir", tmp_path / "run", "--steps", 70, agent=Filling)
    assert (tmp_path / "run" / runs.CHECKPOINT).read_text() == "20"


def test_run_records_seed_threads_commit_and_versions(tmp_path, play):
    folder = tmp_path / "run"
    play("train", "--output-dir", folder, "--steps", 10, "--seed", 4)
    play("train", folder, "--steps", 10, "--resume")
    found = runs.summary(folder)
    assert (found["seed"], found["threads"]) == (4, len(os.sched_getaffinity(0)))
    assert re.fullmatch(r"[0-9a-f]{40}(\+dirty)?", found["commit"])
    assert found["versions"]["numpy"] == np.__version__


HANGS = """
import time
from correctness_tests.test_command import Config, Player, command

class Hanging(Player):
    def learn(self):
        print("learning", flush=True)
        time.sleep(1000)

command.main(Hanging, Config, {})
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
import sys
from dataclasses import dataclass
from correctness_tests.test_command import Player, command
import rl_impls.common.threads

@dataclass(frozen=True)
class Config:
    \"\"\"A net.

    Attributes:
        weights: how many.
        batch: samples.
    \"\"\"

    weights: int = 100_000
    batch: int = 32

class Threaded(Player):
    def __init__(self, *, seed, **config):
        self.config, self.step = Config(**config), 0

    def learn(self):
        import os, torch
        print(torch.get_num_threads(), "threads,", os.environ["GOMP_SPINCOUNT"], "spins")
        return super().learn()

assert "torch" not in sys.modules
command.main(Threaded, Config, {})
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
    done = python("-c", THREADS, "train", tmp_path / "it", "--steps", 1, *words, OMP_NUM_THREADS=variable)
    assert f"{threads} thread" in done.stdout.splitlines()[1]
    assert f"\n{threads} threads, 1000 spins\n" in done.stdout


def test_threads_option_sets_threads_of_torch_and_of_the_games(tmp_path, play, monkeypatch):
    import torch

    monkeypatch.setattr(procgen_env, "CHOSEN", [])
    before = torch.get_num_threads()
    assert procgen_env.default_threads() == len(os.sched_getaffinity(0))
    try:
        play("train", tmp_path / "it", "--steps", 1, "--threads", 3)
        assert (torch.get_num_threads(), procgen_env.default_threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)


def test_train_needs_a_file_or_a_folder(tmp_path, play):
    with pytest.raises(SystemExit, match=r"^train: checkpoint: no file was given; name one, or a folder by --output"):
        play("train", "--steps", 1)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/file is not a folder$"):
        play("train", "--output-dir", tmp_path / "file")
    assert Player.made == []


def test_deterministic_evaluation_is_offered_by_stochastic_agents_only(tmp_path, play):
    asked = []

    class Drawing(Player):
        STOCHASTIC = True

        def evaluate(self, episodes, seed, **how):
            asked.append(how)
            return {"a": np.ones(2)}

    (tmp_path / "it").write_text("0")
    with pytest.raises(SystemExit) as ended:
        play("evaluate", tmp_path / "it", "--deterministic")
    assert ended.value.code == 2
    play("evaluate", tmp_path / "it", "--deterministic", agent=Drawing)
    play("evaluate", tmp_path / "it", agent=Drawing)
    assert asked == [{"deterministic": True}, {}]
