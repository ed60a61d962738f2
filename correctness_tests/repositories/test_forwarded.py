"""What of a user's command line reaches the pytest of a worker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rlgauge.benchmarks.command import forwarded, selects_by_memory

FILES = ["tests/test_a.py", "tests/test_b.py::test_it[1]"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("", ""),
        ("-k fast -m quick --strict-markers", "-k fast -m quick --strict-markers"),
        ("--gate-against HEAD~1 -k fast", "-k fast"),
        ("--gate-against=HEAD~1 --gate-strict -p no:cacheprovider", "-p no:cacheprovider"),
        ("--benchmark-min-rounds 5 -k fast", "-k fast"),
        ("--benchmark-warmup -k fast", "-k fast"),
        ("--benchmark-compare-fail min:5% mean:10% --my-option 3", "--my-option 3"),
        ("--benchmark-only", ""),
        ("--junitxml out.xml -n 2 --lf -x", "-x"),
        ("--durations=5 -c other.ini -cother.ini --rootdir=x --confcutdir y", "--confcutdir y"),
        ("--tx 2*popen --dist load -k fast", "-k fast"),
        ("--pdb --trace --pdbcls IPython:It -k fast", "-k fast"),
        ("--stepwise --new-first --deselect a::b", "--deselect a::b"),
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["files-first", "files-last"])
def test_options_of_the_run_alone_and_their_values_and_files_do_not(line, kept, before):
    told = [*FILES, *line.split()] if before else [*line.split(), *FILES]
    run = SimpleNamespace(args=FILES, invocation_params=SimpleNamespace(args=told))
    assert forwarded(run) == kept.split()


def test_what_stands_in_the_variable_comes_first_and_a_worker_has_it_from_here(monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'slow and not big' --benchmark-only -n 4")
    run = SimpleNamespace(args=FILES, invocation_params=SimpleNamespace(args=["-k", "fast", *FILES]))
    assert forwarded(run) == ["-k", "slow and not big", "-k", "fast"]


@pytest.mark.parametrize(("chosen", "by_memory"), [({}, False), ({"lf": True}, True), ({"stepwise": True}, True)])
def test_what_is_selected_by_earlier_runs_another_revision_cannot_select(chosen, by_memory):
    assert selects_by_memory(SimpleNamespace(getoption=chosen.get)) is by_memory
    assert not selects_by_memory(None)


def test_without_a_run_there_is_nothing():
    assert forwarded(None) == []
