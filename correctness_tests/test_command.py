"""``python -m rl_impls.<workload>``: trains, goes on and evaluates; a mistake is one line."""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

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
def test_training_resuming_and_evaluating(tmp_path, capsys, workload):
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
def test_the_options_of_a_command_reach_the_agent(tmp_path, capsys, workload):
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


@pytest.mark.parametrize("workload", AGENTS)
def test_auto_is_a_backend(tmp_path, monkeypatch, capsys, workload):
    monkeypatch.setitem(backends.DEVICES, ("torch", "cuda"), lambda: "no device")
    path, options = tmp_path / "agent", as_options(SMALL[workload])
    run(workload, capsys, "train", path, "--backend", "auto", "--steps", 1, *options)
    assert agent_of(workload).load(path).config.backend == "torch"
    said = " ".join(params.load_with_metadata(path)[1].values())
    assert not re.search(r"\bauto\b", said)  # which would be another backend on another machine
    assert "n = 1 episodes" in run(workload, capsys, "evaluate", path, "--backend", "auto", "--episodes", 1)


MISTAKES = [
    (("evaluate", "nowhere"), "evaluate: nowhere: No such file or directory"),
    (("evaluate", "agent", "--episodes", "0"), "episodes: got 0, wanted an integer from 1 to"),
    (("train", "agent", "--steps", "0"), "steps: got 0, wanted an integer from 1 to"),
    (("train", "agent", "--threads", "0"), "threads: got 0, wanted an integer from 1 to"),
    (("train", "agent", "--seed", "-1"), "seed: got -1, wanted an integer from 0 to"),
    (("train", "folder/agent"), "checkpoint: folder/agent must be a file in a folder that exists"),
    (("train", "."), "checkpoint: . must be a file in a folder that exists"),
    (
        ("train", "agent", "--resume", "--seed", "3"),
        "seed: got a change, wanted what the checkpoint says: ",
    ),
    (("train", "agent", "--resume"), "train: agent: No such file or directory"),
    (("train", ".", "--resume"), "train: agent.safetensors: No such file or directory"),
]


def mistakes_in_a_configuration(workload):
    """Each mistake that is made with a field of this workload's agent, and what is said of it."""
    for kind, wrong, wanted in ((int, str(2**31), "an integer"), (float, "nan", "a")):
        for name in fields_of(workload, kind)[:1]:
            yield ("train", "agent", option(name), wrong), f"{name}: got {wrong}, wanted {wanted} "
            changed, free = ("train", "agent", "--resume", option(name), "3"), "backend and form"
            if workload == "procgen":
                free = "backend, form, actors, lag and cluster"
            yield changed, f"{name}: got a change, wanted what the checkpoint says: {free} alone may be changed"


@pytest.mark.parametrize(
    ("workload", "arguments", "message"),
    [(name, *one) for name in SMALL for one in (*MISTAKES, *mistakes_in_a_configuration(name))],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, capsys, workload, arguments, message):
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
def test_a_backend_trains_or_is_refused_in_a_line(tmp_path, capsys, workload, backend):
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
def test_what_an_option_takes_and_what_it_may_be_is_asked_first(tmp_path, capsys, workload):
    numbers = dict.fromkeys(fields_of(workload, int, float), "wide")
    for name, word in {"backend": "abacus", "form": "fastest", "gama": "1", **numbers}.items():
        with pytest.raises(SystemExit) as ended:
            run(workload, capsys, "train", tmp_path / "agent", option(name), word)
        assert ended.value.code == 2
        assert option(name) in capsys.readouterr().err


STOPPED = [(name, number) for name in SMALL for number in (signal.SIGINT, signal.SIGTERM)]
STOPPED.append(("pirl", signal.SIGHUP))


@pytest.mark.parametrize(("workload", "number"), quick([("pirl", signal.SIGTERM)], STOPPED))
def test_a_stopped_training_is_saved_and_can_be_resumed(tmp_path, capsys, workload, number):
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
def test_a_training_that_diverges_ends_and_keeps_the_last_good_checkpoint(tmp_path, capsys, workload):
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
def test_a_checkpoint_of_weights_that_are_not_finite_is_refused(tmp_path, capsys, workload, command):
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


@pytest.mark.parametrize("workload", [name for name in ("snake", "pirl") if name in SMALL])
def test_runs_are_compared_by_their_returns(tmp_path, capsys, workload):
    folder = tmp_path / "run"
    options = as_options(SMALL[workload])
    run(workload, capsys, "train", "--output-dir", folder, "--steps", 2000, "--seed", 7, *options)
    text = run(workload, capsys, "compare", folder, "--output", tmp_path / "it.html")
    (shown,) = re.findall(r"return, last 20 points +│ (\S+)", text)
    returns = [point["return"] for point in runs.points(folder) if point["return"] == point["return"]]
    assert float(shown) == pytest.approx(np.mean(returns[-20:]), abs=0.006)


def test_memory_that_is_not_there_is_one_line(tmp_path, capsys):
    with pytest.raises(
        SystemExit, match=r"^train: not enough memory \(Unable to allocate .*\); try a smaller --capacity"
    ):
        run("snake", capsys, "train", tmp_path / "agent", "--capacity", 2_000_000_000)


@pytest.mark.parametrize(
    "words", [("rl_impls",), ("rl_impls.procgen", "advise"), ("rl_impls.snake", "train", "--help")]
)
def test_output_that_nobody_reads_ends_a_command_quietly(words):
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([sys.executable, "-m", *words], stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert done.stderr == ""


def test_an_option_cannot_be_shortened(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        run("procgen", capsys, "train", tmp_path / "agent", "--env", 3)
    assert ended.value.code == 2
    assert "unrecognized arguments: --env" in capsys.readouterr().err


def help_of(main, capsys, *words):
    """The help of a command, in one line."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("workload", AGENTS)
def test_every_field_of_a_configuration_is_an_option_with_its_default(monkeypatch, capsys, workload):
    monkeypatch.setenv("COLUMNS", "1000")
    agent = importlib.import_module(f"rl_impls.{workload}.agent")
    text = help_of(importlib.import_module(f"rl_impls.{workload}.__main__").main, capsys, "train")
    for entry, _, sentence in single_fields(agent.Config):
        default = entry.default
        default = ",".join(map(str, default)) if isinstance(default, tuple) else default
        shown = text.rpartition(f" {option(entry.name)} ")[2].partition(" --")[0]
        assert f"{sentence.rstrip('.')} (default: {default})" in shown


@dataclass(frozen=True)
class Board:
    """A part.

    Attributes:
        width: of the board, in cells, which is said
            in two lines.
        share: 50 % of it.
    """

    width: int = 3
    share: float = 0.5

    def __post_init__(self):
        if self.width > 9:
            raise ValueError(f"width: got {self.width}, wanted at most 9")


@dataclass(frozen=True)
class Config:
    """A whole.

    Attributes:
        board: that is played on.
        layers: widths.
        form: of play.

    Raises:
        ValueError: never.
    """

    board: Board = field(default_factory=Board)
    layers: tuple[int, ...] = (4, 5)
    form: str = "full"


class Player:
    """Learns nothing.

    It only notes what it is made of and asked.
    """

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
    """Return a function that runs a command of the player. -> what it prints"""
    Player.made.clear()

    def play(*words, **how):
        command.main(Player, Config, {"form": ("full", "naive")}, list(map(str, words)), **how)
        return capsys.readouterr().out

    return play


def test_fields_of_a_part_are_options_like_the_others(tmp_path, play):
    out = play("train", tmp_path / "it", "--width", 5, "--layers", "6,7", "--form", "naive", "--seed", 4, "--steps", 11)
    assert Player.made == [(4, Config(Board(5, 0.5), (6, 7), "naive")), "closed"]
    assert out.startswith("training from step 0 to 11\n")
    assert out.endswith(f"{tmp_path / 'it'}: 20 moves\n")


@pytest.mark.parametrize("kind", [WorkersEnded, TransportBroken])
def test_workers_that_failed_are_one_line(tmp_path, play, monkeypatch, kind):
    def learn(self):
        raise kind("actor 1 died 6 times before it had answered")

    monkeypatch.setattr(Player, "learn", learn)
    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--steps", 1)
    kept = f"{tmp_path / 'it'} holds step 0, continue with --resume"
    assert ended.value.code == f"train: actor 1 died 6 times before it had answered; {kept}"
    assert (tmp_path / "it").read_text() == "0"
    assert Player.made[-1] == "closed"


def test_what_is_given_as_zero_is_given(tmp_path, play):
    play("train", tmp_path / "it", "--width", 0, "--share", 0.0, "--seed", 0)
    assert Player.made == [(0, Config(Board(0, 0.0))), "closed"]


def test_what_is_not_given_is_as_in_the_configuration(tmp_path, play):
    assert play("train", tmp_path / "it", steps=7).endswith("10 moves\n")
    assert Player.made == [(0, Config()), "closed"]


def test_figures_are_means_and_standard_errors(tmp_path, play):
    (tmp_path / "it").write_text("0")
    lines = play("evaluate", tmp_path / "it", "--episodes", 5, "--seed", 3).splitlines()
    assert lines[0] == "a           2.00 +- 0.63, n = 5 episodes"
    assert lines[1] == "longest     3.00 +- 0.00, n = 5 episodes"
    assert Player.made[-1] == "closed"


def test_what_is_given_for_an_evaluation_reaches_the_agent(tmp_path, play):
    (tmp_path / "it").write_text("0")
    play("evaluate", tmp_path / "it", "--form", "naive", "--episodes", 1)
    assert Player.made == [(0, Config(form="naive")), "closed"]


def test_a_mistake_in_a_part_is_one_line(tmp_path, play):
    with pytest.raises(SystemExit, match=r"^train: width: got 10, wanted at most 9$"):
        play("train", tmp_path / "it", "--width", 10)


def test_help_is_what_the_docstrings_say(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    shown = help_of(lambda words: command.main(Player, Config, {}, words, steps=7), capsys, "train")
    assert "--width N of the board, in cells, which is said in two lines (default: 3)" in shown
    assert "--share X 50 % of it (default: 0.5)" in shown
    assert "--layers N,... widths (default: 4,5)" in shown
    assert "--steps N moves, rounded up to whole chunks (default: 7)" in shown
    assert "--board" not in shown
    assert "Learns nothing." in help_of(lambda words: command.main(Player, Config, {}, words), capsys)
    assert "--width" not in help_of(lambda words: command.main(Player, Config, {}, words), capsys, "evaluate")


def test_a_configuration_without_sentences_is_refused():
    @dataclass
    class Bare:
        """It says nothing."""

        width: int = 1

    with pytest.raises(TypeError, match="Bare: its docstring has no Attributes"):
        command.main(Player, Bare, {}, ["train", "it"])


def test_a_file_says_what_an_agent_is_made_of_and_the_command_line_counts_more(tmp_path, play):
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
        ("\nsteps: 0\n", (), "{file}, line 2: steps: got 0, wanted an integer from 1 to 2147483647"),
        ("form: full\nduration: 0.0\n", (), "{file}, line 2: duration: got '0.0', wanted more than 0 hours"),
        ("duration: true\n", (), "{file}, line 1: duration: got True, wanted hours, or as 30m or 90s"),
        ("duration: 0m\n", (), "{file}, line 1: duration: got '0m', wanted more than 0 hours, or as 30m or 90s"),
        ("steps: 1\nduration: 1m\n", (), "{file}, line 2: duration: got it with steps, wanted one of them"),
        ("width: 5\n", ("--resume",), "config: a file cannot be combined with --resume"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_its_line(tmp_path, play, text, words, message):
    file = tmp_path / "it.yaml"
    file.write_text(text)
    if words == ("--resume",):
        (tmp_path / "it").write_text("0")
    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--config", file, *words)
    assert ended.value.code.startswith("train: " + message.format(file=file))
    assert len(ended.value.code.splitlines()) == 1


def test_a_training_of_some_time_ends_with_the_chunk_in_which_it_is_over(tmp_path, play, monkeypatch):
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(training, "perf_counter", lambda: next(seconds))
    out = play("train", tmp_path / "it", "--duration", "25s")
    assert out.startswith("training from step 0 for 25 s\n")
    assert out.endswith(f"{tmp_path / 'it'}: 30 moves\n")  # after 10, 20 and 30 seconds
    assert "1 moves per second" in out


@pytest.mark.parametrize(("text", "seconds"), [("0.5", 1800), ("1", 3600), ("2m", 120), ("'.5'", 1800)])
def test_a_file_says_a_duration_as_the_command_line_does(tmp_path, text, seconds):
    (tmp_path / "it.yaml").write_text(f"duration: {text}\n")
    chosen = training.from_file(Config, tmp_path / "it.yaml")
    assert training.length(SimpleNamespace(steps=None, duration=None), chosen) == (None, seconds)


def test_the_rate_of_a_training_that_goes_on_counts_what_it_made_itself(tmp_path, play, monkeypatch):
    play("train", "--output-dir", tmp_path / "run", "--steps", 50)
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(training, "perf_counter", lambda: next(seconds))
    out = play("train", "--output-dir", tmp_path / "run", "--steps", 20, "--resume")
    assert "\n1 moves per second" in out  # 20 moves in 20 seconds, and 70 in all
    assert runs.summary(tmp_path / "run")["rate"] == 1


def test_a_training_is_saved_now_and_then_so_that_little_is_lost_if_it_fails(tmp_path, play, monkeypatch):
    seconds, saves = iter(range(0, 10_000, 200)), []
    monkeypatch.setattr(training, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(Player, "save", lambda self, path: saves.append((path, self.step)))
    path = tmp_path / "it"
    play("train", path, "--steps", 70)
    assert saves == [(path, 0), (path, 30), (path, 60), (path, 70)]  # after 600 and 1,200 seconds, and at the end


def test_a_folder_keeps_the_checkpoint_the_curve_and_what_came_of_it(tmp_path, play):
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


def test_a_folder_that_holds_a_run_takes_no_other_one(tmp_path, play):
    folder, words = tmp_path / "run", ("train", "--output-dir", tmp_path / "run", "--steps", 30)
    play(*words)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/run holds a run; add --resume to continue it, or"):
        play(*words)
    with pytest.raises(SystemExit, match=r"^train: checkpoint: .* exists; add --resume to continue it, or"):
        play("train", folder / runs.CHECKPOINT)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_without_a_checkpoint_can_be_used_again(tmp_path, play):
    folder = tmp_path / "run"
    play("train", "--output-dir", folder, "--steps", 30)
    (folder / runs.CHECKPOINT).unlink()
    assert play("train", "--output-dir", folder, "--steps", 20).startswith("training from step 0 to 20\n")
    assert [point["step"] for point in runs.points(folder)] == [10, 20]


def test_a_place_that_cannot_be_written_is_found_before_training(play, monkeypatch):
    monkeypatch.setattr(Player, "save", lambda self, path: files.write_whole(path, b"0"))
    monkeypatch.setattr(Player, "learn", lambda self: pytest.fail("it trained"))
    with pytest.raises(SystemExit, match=r"^train: /proc/agent: cannot be written: "):
        play("train", "/proc/agent", "--steps", 1)


def test_a_checkpoint_that_cannot_be_written_later_does_not_end_training(tmp_path, play, monkeypatch):
    seconds = iter(range(0, 10_000, 200))
    monkeypatch.setattr(training, "perf_counter", lambda: next(seconds))

    def save(self, path):
        if self.step == 30:
            raise OSError(28, "No space left on device", str(path))
        path.write_text(str(self.step))

    monkeypatch.setattr(Player, "save", save)
    out = play("train", tmp_path / "it", "--steps", 70)
    assert "warning: no checkpoint at step 30: [Errno 28] No space left on device" in " ".join(out.split())
    assert (tmp_path / "it").read_text() == "70"


def test_a_curve_that_cannot_be_written_ends_training_with_a_checkpoint(tmp_path, play, monkeypatch):
    class Full(float):
        def __repr__(self):  # the writer of the curve finds the disk full
            raise OSError(28, "No space left on device", "curve.csv")

    learn = Player.learn
    monkeypatch.setattr(Player, "learn", lambda self: learn(self) | ({"score": Full()} if self.step == 20 else {}))
    with pytest.raises(SystemExit, match=r"^train: curve.csv: No space left on device$"):
        play("train", "--output-dir", tmp_path / "run", "--steps", 70)
    assert (tmp_path / "run" / runs.CHECKPOINT).read_text() == "20"


def test_a_run_keeps_its_seed_commit_and_versions(tmp_path, play):
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


def test_a_second_ctrl_c_ends_a_training_that_hangs(tmp_path):
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
        ((), "2", "2"),
        (("--threads", "2"), "1", "2"),
    ],
)
def test_threads_are_chosen_by_the_size_of_the_net_and_sleep_while_they_wait(tmp_path, words, variable, threads):
    done = python("-c", THREADS, "train", tmp_path / "it", "--steps", 1, *words, OMP_NUM_THREADS=variable)
    assert f"{threads} thread" in done.stdout.splitlines()[1]
    assert f"\n{threads} threads, 1000 spins\n" in done.stdout


def test_a_run_can_be_seen_while_it_goes_on(tmp_path, play, monkeypatch):
    seen, learn = [], Player.learn

    def looked(self):
        figures = learn(self)
        if self.step == 20:
            seen.append(runs.summary(tmp_path / "run"))
            runs.compare([tmp_path / "run"], tmp_path / "it.html")
        return figures

    monkeypatch.setattr(Player, "learn", looked)
    out = play("train", "--output-dir", tmp_path / "run", "--steps", 30)
    (found,) = seen
    assert found["config"] == {"board": {"width": 3, "share": 0.5}, "layers": [4, 5], "form": "full"}
    assert "step" not in found
    assert re.search(r"steps +│ 10 ", out)
    assert re.search(r"steps a second +│ - ", out)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_done_time_left_rate_and_every_figure_are_seen_in_a_terminal(width):
    figures = "return 5.1, length 300, episodes 12, loss 0.1234, policy_lag 0.5, most_policy_lag 1, replaced_actors 0"
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with training.progress_bar(console=console, auto_refresh=False, get_time=iter(range(99)).__next__) as bar:
        task = bar.add_task("training", total=1_000_000, completed=0, rate="")
        for done in (100_000, 200_000):
            bar.update(task, completed=done, rate="1,234 environment frames/s", description=figures)
        bar.refresh()
    shown = re.sub(r"\x1b\[[?\d]*\w", "\n", console.file.getvalue())
    (line,) = {line for line in shown.splitlines() if "frames/s" in line}
    assert re.search(r"200000/1\S+ 0:00:\d\d 1,234 environment frames/s$", line.rstrip())
    assert figures in " ".join(shown.split())


def test_threads_are_those_of_the_games_too(tmp_path, play, monkeypatch):
    import torch

    monkeypatch.setattr(procgen_env, "CHOSEN", [])
    before = torch.get_num_threads()
    assert procgen_env.default_threads() == len(os.sched_getaffinity(0))
    try:
        play("train", tmp_path / "it", "--steps", 1, "--threads", 3)
        assert (torch.get_num_threads(), procgen_env.default_threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)


def test_an_agent_that_can_is_evaluated_without_what_it_trains_by(tmp_path, play, monkeypatch):
    (tmp_path / "it").write_text("0")
    monkeypatch.setattr(
        Player, "load_to_evaluate", classmethod(lambda cls, path, **changes: cls(seed=7)), raising=False
    )
    play("evaluate", tmp_path / "it", "--episodes", 1)
    assert Player.made == [(7, Config()), "closed"]


def test_a_checkpoint_needs_a_place(tmp_path, play):
    with pytest.raises(SystemExit, match=r"^train: checkpoint: no file was given; name one, or a folder by --output"):
        play("train", "--steps", 1)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/file is not a folder$"):
        play("train", "--output-dir", tmp_path / "file")
    assert Player.made == []


def test_the_likeliest_action_is_taken_where_that_is_asked_for(tmp_path, play, monkeypatch):
    (tmp_path / "it").write_text("0")
    with pytest.raises(SystemExit) as ended:
        play("evaluate", tmp_path / "it", "--deterministic")  # an agent that always does
    assert ended.value.code == 2
    asked = []
    monkeypatch.setattr(Player, "STOCHASTIC", True, raising=False)
    monkeypatch.setattr(Player, "evaluate", lambda self, episodes, seed, **how: asked.append(how) or {"a": np.ones(2)})
    play("evaluate", tmp_path / "it", "--deterministic")
    play("evaluate", tmp_path / "it")
    assert asked == [{"deterministic": True}, {}]
