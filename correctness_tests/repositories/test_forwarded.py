"""The pytest options of a user that are forwarded to the workers."""

from types import SimpleNamespace

import pytest

from rlgauge.benchmarks.command import forwarded, selects_by_cache

FILES = ["tests/test_a.py", "tests/test_b.py::test_it[1]"]


def run_with(arguments, source="ARGS"):
    """Return the parts of pytest's configuration that depend on its arguments."""
    return SimpleNamespace(
        args=FILES, args_source=SimpleNamespace(name=source), invocation_params=SimpleNamespace(args=arguments)
    )


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("-k fast -m quick --strict-markers", "-k fast -m quick --strict-markers"),
        ("--gate-against=HEAD~1 --gate-strict -p no:cacheprovider", "-p no:cacheprovider"),
        ("--benchmark-compare-fail min:5% mean:10% --my-option 3", "--my-option 3"),
        ("--benchmark-only --benchmark-timer a.b --benchmark-target x", "--benchmark-timer a.b --benchmark-target x"),
        (  # those of the project
            "--benchmark-compare-others --benchmark-warmup-rounds 5 --benchmark-warmup-iterations 5",
            "--benchmark-compare-others --benchmark-warmup-rounds 5",
        ),
        ("--junitxml out.xml -n 2 --lf -x", "-x"),
        ("--durations=5 -c other.ini -cother.ini --rootdir=x --confcutdir y", "--confcutdir y"),
        ("--benchmark-only some/other.py --lf more.py -n 4 last.py", "some/other.py more.py last.py"),
        ("--pdb --trace --pdbcls IPython:It -k fast", "-k fast"),
        ("--stepwise --new-first --deselect a::b", "--deselect a::b"),
        ("-m tests/test_a.py --gate-strict -k tests/test_a.py", "-m tests/test_a.py -k tests/test_a.py"),
        ("--data-dir tests/test_a.py --log-file run.log", "--data-dir tests/test_a.py"),
        ("-m tests/test_a.py --gate-against=main", "-m tests/test_a.py"),
        ("-p no:terminal -pno:terminal -k fast", "-p terminal -pterminal -k fast"),
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["files-first", "files-last"])
def test_selecting_options_are_forwarded_but_not_files_reports_or_the_gates(line, kept, before):
    arguments = [*FILES, *line.split()] if before else [*line.split(), *FILES]
    assert forwarded(run_with(arguments)) == kept.split()


def test_pytest_addopts_is_forwarded_first(monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'slow and not big' --benchmark-only -n 4")
    assert forwarded(run_with(["-k", "fast", *FILES])) == ["-k", "slow and not big", "-k", "fast"]


def test_paths_from_the_settings_are_no_arguments():
    run = run_with(["--data-dir", FILES[0]], source="TESTPATHS")
    assert forwarded(run) == ["--data-dir", FILES[0]]


@pytest.mark.parametrize(("chosen", "by_cache"), [({}, False), ({"lf": True}, True), ({"stepwise": True}, True)])
def test_last_failed_and_stepwise_select_by_earlier_runs(chosen, by_cache):
    assert selects_by_cache(SimpleNamespace(getoption=chosen.get)) is by_cache


def test_arguments_in_a_file_are_forwarded_like_others(tmp_path, monkeypatch):
    file = tmp_path / "words.txt"
    file.write_text("\n".join(["-k", "fast", "--gate-strict", *FILES]))
    assert forwarded(run_with([f"@{file}", "-x", "@absent.txt"])) == ["-k", "fast", "-x", "@absent.txt"]
    monkeypatch.setenv("PYTEST_ADDOPTS", f"@{file}")
    assert forwarded(run_with(FILES)) == forwarded(None)[:2] == ["-k", "fast"]
