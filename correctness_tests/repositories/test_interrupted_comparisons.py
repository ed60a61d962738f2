"""``rlgauge compare A B`` and ``rlgauge rank --resume``: an interrupted command continues from its pairs."""

import errno
import json
import os
import signal
from pathlib import Path

import pytest

from rlgauge.__main__ import main
from rlgauge.resume import hash_of_installed

from .made import INI, flat, tidy

EARLY = """import pytest


def test_early(benchmark):
    pytest.skip("too early")
"""
RANK = (  # the first test, which is skipped, is no baseline
    "rlgauge", "rank", "*::test_early", "*::test_slow", "*::test_kept[50]",
)  # fmt: skip
SLOW, KEPT = "benchmarks/test_sorting.py::test_slow", "benchmarks/test_sorting.py::test_kept[50]"
repository = tidy({**flat(), **INI, "benchmarks/test_early.py": EARLY})


@pytest.fixture(scope="module")
def interrupted(repository, tmp_path_factory):
    """Interrupt a ranking after its first pair; return the file that keeps its pairs, and its content."""
    folder = tmp_path_factory.mktemp("ranking")
    text = repository.interrupted("rank: pair 1 of", signal.SIGTERM, *RANK, "--json", folder / "out.json")
    assert text.splitlines()[-1] == "interrupted: to resume, repeat the command with --resume"
    assert "Traceback" not in text
    assert list(folder.iterdir()) == []
    assert repository.leftovers() == []
    kept = repository.root / ".rlgauge/rank-pairs.json"
    return kept, kept.read_text()


def write_pairs(file, text, count, **changed):
    """Write the pairs of an interrupted command as if it had measured so many; return their values."""
    content = json.loads(text)
    (row,) = content["pairs"].values()
    row |= {name: (row[name] * count)[:count] for name in ("values", "side_values")} | changed
    file.write_text(json.dumps(content))
    return row["values"]


def test_an_interrupted_ranking_is_resumed_and_keeps_its_pairs_until_the_result_is_written(
    repository, interrupted, monkeypatch, capsys
):
    kept, text = interrupted
    before = write_pairs(kept, text, 5)
    content = json.loads(kept.read_text())
    content["conditions"]["installed packages"] = hash_of_installed()  # this process may import from other folders
    kept.write_text(json.dumps(content))
    out = repository.root / "out.json"  # in the working tree, of which it is no change
    command = [*RANK[1:], "--resume", "--json", str(out)]

    def on_full_disk(source, target, replace=os.replace):
        if Path(target) == out:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.chdir(repository.root)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", on_full_disk)
        assert main(command) == 2
    errors = capsys.readouterr().err
    assert ("resuming with 5 pairs" in errors, "starting over" in errors) == (True, False), errors
    assert "No space left on device" in errors
    assert main(command) == 0
    assert "rank: resuming with 6 pairs" in capsys.readouterr().err
    found = json.loads(out.read_text())
    assert (found["baseline"], found["speedups"][KEPT][:5]) == (SLOW, before)
    assert (len(found["speedups"][KEPT]), kept.exists()) == (6, False)
    out.unlink()


def test_pairs_of_other_code_options_benchmarks_or_machines_are_not_reused(repository, interrupted, tmp_path):
    kept, text = interrupted
    before = json.loads(text)
    before["conditions"]["machine"]["cores"] += 1
    before["conditions"]["installed packages"] = "others"
    kept.write_text(json.dumps(before))
    added = repository.root / "toy/more.py"
    added.touch()
    command = *RANK, "*::test_kept[10]", "--measure=spread", "--resume"
    text = repository.interrupted("starting over", signal.SIGTERM, *command, PYTHONPATH=tmp_path)
    added.unlink()
    changed = "options, benchmarks, working tree, PYTHONPATH, installed packages, machine"
    assert f"rank: starting over, because these changed since the interrupted run: {changed}\n" in text
    assert json.loads(kept.read_text()) == before, "nothing new was measured"


def test_a_ranking_is_not_resumed_if_a_test_is_no_longer_skipped(repository, interrupted):
    kept, text = interrupted
    before, other = json.loads(text), KEPT.replace("50", "10")
    (row,) = before["pairs"].values()
    before["pairs"] = {other: {**row, "values": [], "side_values": []}, KEPT: row}
    before["conditions"]["benchmarks"].insert(-1, other)
    before["conditions"]["options"]["outputs"] = "ignore"
    kept.write_text(json.dumps(before))
    text = repository.output(2, *RANK, "*::test_kept[10]", "--outputs=ignore", "--resume")
    assert "rank: resuming with " in text
    assert text.splitlines()[-1] == "--resume: a test that was skipped now runs; repeat the command without --resume"
    assert json.loads(kept.read_text()) == before


def test_an_interrupted_comparison_is_resumed(repository, tmp_path):
    out, command = tmp_path / "out.json", ("rlgauge", "compare", SLOW, KEPT, "--resume")
    text = repository.interrupted("compare: pair 1: ", signal.SIGINT, *command)
    kept = repository.root / ".rlgauge/compare-pairs.json"
    assert f"compare: nothing to resume, starting over: {kept} does not exist\n" in text
    before = write_pairs(kept, kept.read_text(), 5, side_values=[[3.0, 4.0]] * 5)  # most pairs, so the medians too
    text = repository.output(0, *command, "--json", out)
    found = json.loads(out.read_text())
    assert found["values"][:5] == before
    assert found["sides"] == [3.0, 4.0]
    assert (len(found["values"]), kept.exists()) == (6, False)
