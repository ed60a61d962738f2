"""A toy agent on the command line: options, files, checkpoints, curves, failures, evaluation and comparison."""

import json
import math
import os
import re
import signal
import sys

import numpy as np
import pytest

from correctness_tests.toy_agent import Config, Player
from rl_impls.common import command, runs, training
from rl_impls.common.workers import WorkersEnded


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


def test_help_of_agent_and_further_commands_needs_no_docstring(play, capsys):
    class Silent(Player):
        ABOUT = "Play and count."

    def joined(path, game):
        return f"{path} {game}"

    others = {"join": (joined, "print a path and a game")}
    for words, about in (((), "Play and count."), (("join",), "Print a path and a game.")):
        with pytest.raises(SystemExit):
            play(*words, "--help", agent=Silent, others=others)
        assert f"\n\n{about}\n\n" in capsys.readouterr().out
    assert play("join", "here", "--game", "go", agent=Silent, others=others) == "here go\n"


def assert_trained(path, seed, **fields):
    agent = Player.load(path)
    assert agent.config == Config(**fields)
    assert agent.rng.bit_generator.state == np.random.default_rng(seed).bit_generator.state


@pytest.mark.parametrize(
    ("words", "seed", "fields"),
    [
        ("", 0, {}),
        ("--width 5 --layers 6,7 --form naive --seed 4", 4, {"width": 5, "layers": (6, 7), "form": "naive"}),
        ("--width 0 --share 0.0", 0, {"width": 0, "share": 0.0}),  # 0 is a value, not a missing option
    ],
)
def test_options_set_fields(tmp_path, play, words, seed, fields):
    out = play("train", tmp_path / "it", *words.split(), steps=11)
    assert out.startswith("training from step 0 to 11\n")
    assert out.endswith(f"{tmp_path / 'it'}: 20 moves\n")
    assert_trained(tmp_path / "it", seed, **fields)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorkersEnded("actor 1 died 6 times"), "actor 1 died 6 times; {} holds step 0; continue with --resume"),
        (FloatingPointError("loss is NaN"), "after step 0, loss is NaN; {} still holds the last good state"),
    ],
)
def test_a_training_that_fails_names_its_last_checkpoint(tmp_path, play, error, words):
    class Failing(Player):
        def learn(self):
            raise error

    with pytest.raises(SystemExit) as ended:
        play("train", tmp_path / "it", "--steps", 1, agent=Failing)
    assert ended.value.code.startswith(f"train: {words.format(tmp_path / 'it')}")


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
        ("width: 1\nbatch: 2\n", (), "{file}, line 2: batch was replaced by batch_size"),
        ("- width\n", (), "{file}, line 1: not a setting; write one per line"),
        ("[width]: 1\n", (), "{file}, line 1: the name of a setting should be a word"),
        ("form: full\nlayers: [1\n", (), "{file}, line 3: invalid YAML"),
        ("form: \x01\n", (), "{file}: invalid YAML (unacceptable character #x0001: "),
        ("form: !!python/object:os.system x\n", (), "{file}, line 1: invalid YAML (could not determine a constructor"),
        ("\nsteps: 0\n", (), "{file}, line 2: steps=0 should be an integer from 1 to 2147483647"),
        ("form: full\nduration: 0.0\n", (), "{file}, line 2: duration='0.0' should be a number of hours above 0"),
        ("steps: 1\nduration: 1m\n", (), "{file}, line 2: duration cannot be combined with steps"),
        ("steps: 1\nepisodes: 2\n", (), "{file}, line 2: episodes cannot be combined with steps"),
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


def test_checkpoint_is_saved_every_ten_minutes_and_a_full_disk_at_a_later_one_does_not_end_training(
    tmp_path, play, clock
):
    path, saves = tmp_path / "it", []

    class Saved(Player):
        def save(self, path):
            saves.append((path, self.step))
            if self.step == 30:
                raise OSError(28, "No space left on device", str(path))
            super().save(path)

    clock(200)
    out = play("train", path, "--steps", 70, agent=Saved)
    assert saves == [(path, 0), (path, 30), (path, 60), (path, 70)]  # after 600 and 1,200 seconds, and at the end
    assert "warning: no checkpoint at step 30: [Errno 28] No space left on device" in " ".join(out.split())
    assert Saved.load(path).step == 70


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


def test_run_is_not_overwritten(tmp_path, play):
    folder, words = tmp_path / "run", ("train", "--output-dir", tmp_path / "run", "--steps", 30)
    play(*words)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/run holds a run; add --resume to continue it, or"):
        play(*words)
    with pytest.raises(SystemExit, match=r"^train: checkpoint: .* exists; add --resume to continue it, or"):
        play("train", folder / runs.CHECKPOINT)
    play("train", tmp_path / "it", "--output-dir", tmp_path / "run of it", "--steps", 10)
    for into, words in (
        ("run", (tmp_path / "other", "--output-dir", folder)),
        ("run", (tmp_path / "it", "--resume", "--output-dir", folder)),
        ("run of it", ("--output-dir", tmp_path / "run of it")),
    ):
        with pytest.raises(SystemExit, match=rf"^train: output-dir: .*/{into} holds another run; choose another"):
            play("train", *words)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_unwritable_checkpoint_is_found_before_training(play):
    class Untrained(Player):
        def learn(self):
            pytest.fail("training started")

    with pytest.raises(SystemExit, match=r"^train: /proc/agent: cannot be written: "):
        play("train", "/proc/agent", "--steps", 1, agent=Untrained)


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_that_ends_an_evaluation_determines_the_exit_code(tmp_path, play, number):
    class Interrupted(Player):
        def evaluate(self, episodes, seed):
            os.kill(os.getpid(), number)

    Interrupted(seed=0).save(tmp_path / "it")
    with pytest.raises(SystemExit) as ended:
        play("evaluate", tmp_path / "it", agent=Interrupted)
    assert ended.value.code == 128 + number


def test_configuration_file_sets_the_threads(tmp_path, play):
    file, folder = tmp_path / "it.yaml", tmp_path / "run"
    file.write_text("width: 5\nthreads: 2\nsteps: 1\n")
    assert ", 2 threads, " in play("train", "--config", file, "--output-dir", folder)
    assert runs.summary(folder)["threads"] == 2
    file.write_text("threads: 1\nsteps: 1\n")  # not part of the checkpoint, so it can be set on resume
    for options, threads in ((("--threads", 2), 2), ((), 1)):
        play("train", "--config", file, "--resume", folder, *options)
        assert runs.summary(folder)["threads"] == threads


def test_default_threads_of_an_evaluation_depend_on_its_episodes(tmp_path, capsys, monkeypatch):
    Player(seed=0, weights=100_000, batch_size=1000).save(tmp_path / "it")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    for episodes, threads in ((499, 1), (500, 2)):  # 5e7 weights times episodes
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # an evaluation may set it
        command.main(Player, ["evaluate", str(tmp_path / "it"), "--episodes", str(episodes)])
        assert f", {threads} thread" in capsys.readouterr().err


def test_train_needs_a_file_or_a_folder(tmp_path, play):
    with pytest.raises(SystemExit, match=r"^train: checkpoint: no file was given; name one, or a folder with --output"):
        play("train", "--steps", 1)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"^train: output-dir: .*/file is not a folder; "):
        play("train", "--output-dir", tmp_path / "file")


@pytest.mark.parametrize(("module", "option"), [("rich.progress", "--keep=1"), ("yaml", "--config=it.yaml")])
def test_a_missing_package_is_one_line_with_its_extra(tmp_path, play, monkeypatch, module, option):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=rf"^train: .*{module}.*; pip install 'rlgauge-workloads\[cli\]'$"):
        play("train", tmp_path / "it", option)


def test_evaluations_are_kept_as_json(tmp_path, play):
    Player(seed=0).save(tmp_path / "it.safetensors")
    play("evaluate", tmp_path / "it.safetensors", "--episodes", 3, "--form", "naive")
    shown = play("evaluate", "--checkpoint", tmp_path / "it.safetensors", "--episodes", 3, "--seed", 5)
    assert shown == "a           1.00 +- 0.58, n = 3 episodes\nlongest     5.00 +- 0.00, n = 3 episodes\n"
    found, naive = (json.loads((tmp_path / f"evaluation-it{name}.json").read_text()) for name in ("", "-form=naive"))
    assert found["figures"] == {
        "a": {"mean": 1.0, "error": pytest.approx(3**-0.5)}, "longest": {"mean": 5.0, "error": 0.0},
    }  # fmt: skip
    shown = play("evaluate", tmp_path / "it.safetensors", "--episodes", 1)
    assert shown.startswith("a           0.00, n = 1 episode\n")
    assert (found["checkpoint"], found["step"], found["episodes"], found["seed"]) == ("it.safetensors", 0, 3, 5)
    assert (found["config"]["form"], naive["config"]["form"], naive["seed"]) == ("full", "naive", 0)
    for name in ("lr0.1", "lr0.01"):  # no suffix
        Player(seed=0).save(tmp_path / name)
        play("evaluate", tmp_path / name, "--episodes", 1)
        assert (tmp_path / f"evaluation-{name}.json").exists()


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
