"""What the suite's own conftest does around a run: its room, its JSON, its exit code, which tests are quick."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from rlgauge.files import Unwritable

from .commands import ROOT


@pytest.fixture
def conftest(pytestconfig):
    """Return the module."""
    return pytestconfig.pluginmanager.getplugin(str(ROOT / "conftest.py"))


@pytest.mark.parametrize(
    ("code", "written"),
    [
        (pytest.ExitCode.OK, True),
        (pytest.ExitCode.TESTS_FAILED, True),
        (pytest.ExitCode.INTERRUPTED, False),
        (pytest.ExitCode.INTERNAL_ERROR, False),
    ],
)
def test_a_run_that_came_to_its_end_leaves_its_json_also_where_a_benchmark_failed(conftest, code, written):
    kept = []
    stash = {conftest.WRITE: kept.append, conftest.WRONG: []}
    conftest.save_json(SimpleNamespace(exitstatus=code, config=SimpleNamespace(stash=stash)), {"a": 1})
    assert bool(kept) is written


def test_where_the_json_cannot_be_written_the_run_says_so(conftest):
    def write(content):
        raise Unwritable("out.json: cannot be written: No space left on device")

    stash = {conftest.WRITE: write, conftest.WRONG: []}
    conftest.save_json(SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=SimpleNamespace(stash=stash)), {})
    assert stash[conftest.WRONG] == ["out.json: cannot be written: No space left on device"]


@pytest.mark.parametrize(("listed", "count"), [(False, 1), (True, 0)])
def test_room_is_taken_for_each_sample_of_each_benchmark(conftest, monkeypatch, listed, count):
    asked = []
    monkeypatch.setattr(conftest.files, "reserved", lambda *of: asked.append(of) or nullcontext())
    options = {"benchmark_json": "out.json", "rounds": 5, "benchmark_only": False, "gate_against": None}
    stash = {conftest.VARIANTS: ["a", "b", "c"]}
    config = SimpleNamespace(getoption=options.get, option=SimpleNamespace(collectonly=listed), stash=stash)
    conftest.make_ready(config, SimpleNamespace(enter_context=lambda entered: entered))
    assert asked == [("out.json", 3 * (5 + conftest.HEAD) * conftest.ROOM)] * count


def finished(conftest, measured, skipped, share=0.5, code=0):
    """End a session that selected two benchmarks; return its exit code and what is said to be wrong."""
    items = [
        SimpleNamespace(name=f"test_perf[{name}]", nodeid=name, callspec=SimpleNamespace(params={"variant": None}))
        for name in "ab"
    ]
    rows = [{"id": name, "limit_share": share, "bound": "flops"} for name in measured]
    stats = {"skipped": [SimpleNamespace(nodeid=name) for name in skipped]}
    session = SimpleNamespace(items=items, exitstatus=code)
    session.config = SimpleNamespace(
        option=SimpleNamespace(collectonly=False),
        getoption=lambda name: None,
        pluginmanager=SimpleNamespace(getplugin=lambda name: SimpleNamespace(stats=stats)),
        stash={conftest.WRONG: [], conftest.LIMITS: {"threads": 1.0, "float32_flops": 1e9}},
        _benchmarksession=SimpleNamespace(benchmarks=[SimpleNamespace(extra_info=row) for row in rows]),
    )
    conftest.pytest_sessionfinish(session)
    return session.exitstatus, session.config.stash[conftest.WRONG]


@pytest.mark.parametrize(
    ("measured", "skipped", "wrong"),
    [
        ("ab", "", []),
        ("a", "b", []),
        ("a", "", ["2 benchmarks were selected and 1 were measured"]),
        ("a", "c", ["2 benchmarks were selected and 1 were measured"]),
        ("", "ab", ["2 benchmarks were selected and 0 were measured"]),
    ],
)
def test_a_run_that_measured_less_than_it_selected_fails_but_for_what_it_says_of(conftest, measured, skipped, wrong):
    assert finished(conftest, measured, skipped) == (bool(wrong), wrong)


def test_a_run_that_is_faster_than_can_be_fails_and_another_failure_stays_what_it_is(conftest):
    code, (first, _) = finished(conftest, "ab", "", share=1.5)
    assert (code, first[:22]) == (1, "a: 150 % of the limit:")
    assert finished(conftest, "a", "", code=2) == (2, [])


def test_of_each_op_form_and_backend_one_is_quick_and_of_what_torch_compiles_one_of_each_op(conftest):
    def variant(op, form, backend, number, **axes):
        case = SimpleNamespace(name=f"toy.{op}", op=op)
        return SimpleNamespace(case=case, form=form, backend=backend, axes=axes, id=f"{op}{number}")

    numpy = [variant("act", form, "numpy", form, batch=1) for form in ("naive", "full")]
    orders = [variant("act", "full", "numpy", f"order{order}", order=order) for order in (2, 1)]
    compiled = [variant("act", "full", "torch-compile", f"compiled{order}", order=order) for order in (2, 1)]
    more = [variant("act", "full", "numpy", "later", batch=2), variant("first_call", "full", "numpy", "")]
    assert conftest.few([*numpy, *orders, *compiled, *more]) == {
        "actnaive", "actfull", "actorder1", "actorder2", "actcompiled1",
    }  # fmt: skip


@pytest.mark.parametrize(("given", "number"), [({}, 0), ({"workerinput": {"workerid": "gw3"}}, 3)])
def test_a_worker_has_its_turn_and_what_it_starts_is_none(conftest, monkeypatch, given, number):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw3")
    assert conftest.turn(SimpleNamespace(**given)) == number
    assert "PYTEST_XDIST_WORKER" not in conftest.os.environ
