"""What the suite's own conftest does around a run: its room, its JSON, its exit code, which tests are quick."""

from __future__ import annotations

import argparse
import re
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


def finished(conftest, measured, skipped, code=0):
    """End a session that selected two benchmarks; return its exit code and what is said to be wrong."""
    items = [
        SimpleNamespace(name=f"test_perf[{name}]", nodeid=name, callspec=SimpleNamespace(params={"variant": None}))
        for name in "ab"
    ]
    rows = [{"id": name} for name in measured]
    stats = {"skipped": [SimpleNamespace(nodeid=name) for name in skipped]}
    session = SimpleNamespace(items=items, exitstatus=code)
    session.config = SimpleNamespace(
        option=SimpleNamespace(collectonly=False),
        getoption=lambda name: None,
        pluginmanager=SimpleNamespace(getplugin=lambda name: SimpleNamespace(stats=stats)),
        stash={conftest.WRONG: []},
        _benchmarksession=SimpleNamespace(
            benchmarks=[SimpleNamespace(extra_info=row) for row in rows], performance_regressions=[]
        ),
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


def test_a_run_that_failed_otherwise_keeps_its_exit_code(conftest):
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


def test_words_are_split_at_commas_and_none_at_all_is_a_mistake(conftest):
    assert conftest.words(" a, b ,,c") == conftest.some_words(" a, b ,,c") == ("a", "b", "c")
    assert conftest.words("") == ()
    for text in ("", " , "):
        with pytest.raises(argparse.ArgumentTypeError, match=re.escape(f"got {text!r}, wanted one or more names")):
            conftest.some_words(text)


def test_what_is_demanded_is_said_in_a_variable(conftest, monkeypatch):
    monkeypatch.setenv("RL_PERF_REQUIRE", "torch, jax")
    assert conftest.demanded() == ("torch", "jax")
    monkeypatch.delenv("RL_PERF_REQUIRE")
    assert conftest.demanded() == ()


def test_what_a_worker_starts_keeps_all_but_the_variables_of_its_turn(conftest, monkeypatch):
    for name in ("PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        monkeypatch.setenv(name, "2")
    assert conftest.turn(SimpleNamespace(workerinput={"workerid": "gw12"})) == 12
    assert "PYTEST_XDIST_WORKER_COUNT" not in conftest.os.environ
    assert conftest.os.environ["PYTEST_ADDOPTS"] == "2"


def test_options_have_their_defaults(conftest):
    added = {}
    group = SimpleNamespace(addoption=lambda name, **how: added.update({name: how}))
    conftest.pytest_addoption(SimpleNamespace(getgroup=lambda name: group))
    assert {name: how.get("default") for name, how in added.items()} == {
        "--workload": (), "--op": (), "--form": (), "--backend": (), "--axis": [], "--tier": None,
        "--threads": conftest.process.cores(), "--seed": 0, "--rounds": 8,
    }  # fmt: skip
    assert {name for name, how in added.items() if how.get("type") is int} == {"--threads", "--seed", "--rounds"}
    assert added["--axis"]["action"] == "append"


@pytest.mark.parametrize(
    ("given", "checked", "removed"),
    [
        ({}, False, False),
        ({"benchmark_only": True}, True, True),
        ({"gate_against": "main"}, False, True),
        ({"benchmark_only": True, "gate_against": "main"}, True, True),
    ],
)
def test_compile_caches_are_tidied_before_what_is_timed(conftest, monkeypatch, given, checked, removed):
    asked = []
    monkeypatch.setattr(conftest.files, "check_folder", lambda path: asked.append(("checked", path)))
    monkeypatch.setattr(conftest.files, "remove_halves", lambda path: asked.append(("removed", path)) or "2 removed")
    config = SimpleNamespace(getoption=given.get, option=SimpleNamespace(collectonly=False), stash={})
    conftest.make_ready(config, None)
    cache = conftest.process.CACHE
    assert asked == [("checked", cache)] * checked + [("removed", cache / "inductor")] * removed
    assert config.stash == ({conftest.REMOVED: "2 removed"} if removed else {})


def configured(conftest, monkeypatch, require="", select=lambda selection: ["a", "b"], **given):
    """Configure a run; return what it keeps, the threads that are set, and what is cleaned up after it."""
    options = {"threads": 3, "rounds": 8, "seed": 0, "benchmark_group_by": "group"} | given
    threads, cleanups = [], []
    monkeypatch.setattr(conftest.process, "set_up", lambda threads_, turn: threads.append((threads_, turn)))
    monkeypatch.setattr(conftest, "make_ready", lambda config, stack: stack.callback(cleanups.append, "left"))
    monkeypatch.setattr(conftest, "by_sigterm", nullcontext)
    monkeypatch.setattr("perf_tests.selection.selection_of", lambda config: "selection")
    monkeypatch.setattr("perf_tests.selection.select", select)
    monkeypatch.setenv("RL_PERF_REQUIRE", require)
    config = SimpleNamespace(
        getoption=lambda name, default=None: options.get(name, default), stash={}, add_cleanup=cleanups.append,
        workerinput={"workerid": "gw2"},
    )  # fmt: skip
    conftest.pytest_configure(config)
    (close,) = cleanups
    close()
    return config.stash, threads, cleanups[1:]


def test_a_run_is_configured_with_its_threads_turn_and_selection(conftest, monkeypatch):
    stash, threads, left = configured(conftest, monkeypatch, "numpy,torch,optax,procgen,ray")
    assert stash == {conftest.WRONG: [], conftest.SELECTION: "selection", conftest.VARIANTS: ["a", "b"]}
    assert (threads, left) == ([(3, 2)], ["left"])


def test_what_only_hands_out_tests_keeps_all_cores(conftest, monkeypatch):
    assert configured(conftest, monkeypatch, numprocesses=2)[1] == []


def raising(error):
    """Return a function that raises this."""

    def fails(*_):
        raise error

    return fails


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rounds": 0}, "--rounds: got 0, wanted 1 or more"),
        ({"seed": -1}, "--seed: got -1, wanted 0 or more"),
        ({"require": "tensorflow"}, "unknown name in RL_PERF_REQUIRE 'tensorflow'; known: "),
        ({"select": raising(ValueError("no such thing"))}, "no such thing"),
        ({"select": raising(RuntimeError("too late"))}, "too late"),
        ({"select": raising(ImportError("no cases"))}, "no cases"),
    ],
)
def test_a_mistake_ends_a_run_before_anything_is_collected(conftest, monkeypatch, given, message):
    with pytest.raises(pytest.UsageError, match=f"^{re.escape(message)}"):
        configured(conftest, monkeypatch, **given)
    configured(conftest, monkeypatch, rounds=1, seed=0)


def test_an_import_that_fails_is_head_s_where_the_gate_runs(conftest, monkeypatch):
    for error, words in (
        (ImportError("no cases"), "head: no cases"),
        (KeyError("w"), "head: its import fails: KeyError: 'w'"),
    ):
        with pytest.raises(pytest.exit.Exception) as ended:
            configured(conftest, monkeypatch, select=raising(error), gate_against="main")
        assert (ended.value.msg, ended.value.returncode) == (words, 2)
    with pytest.raises(KeyError):
        configured(conftest, monkeypatch, select=raising(KeyError("w")))
    with pytest.raises(pytest.UsageError, match=r"^wrong$"):
        configured(conftest, monkeypatch, select=raising(ValueError("wrong")), gate_against="main")


@pytest.mark.parametrize(("only", "left"), [(True, ["timed"]), (False, ["timed", "plain", "none"])])
def test_what_measures_nothing_is_left_out_where_benchmarks_alone_are_wanted(conftest, only, left):
    items = [
        SimpleNamespace(name="timed", fixturenames=["benchmark", "variant"]),
        SimpleNamespace(name="plain", fixturenames=["variant"]),
        SimpleNamespace(name="none"),
    ]
    every, dropped = list(items), []
    hook = SimpleNamespace(pytest_deselected=lambda items: dropped.extend(items))
    config = SimpleNamespace(getoption={"benchmark_only": only}.get, hook=hook)
    conftest.pytest_collection_modifyitems(config, items)
    assert [item.name for item in items] == left
    assert dropped == [item for item in every if item not in items]


def test_the_head_of_a_report_says_what_figures_depend_on(conftest, monkeypatch):
    monkeypatch.setattr(conftest, "cpu_model", lambda: "an abacus")
    monkeypatch.setattr(conftest.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(conftest.process, "waiting_policy", lambda: "spinning")
    stash = {conftest.VARIANTS: [1, 2, 3], conftest.SELECTION: SimpleNamespace(tier="full")}
    config = SimpleNamespace(getoption={"threads": 2, "seed": 5}.get, stash=stash)
    lines = [
        "machine: an abacus, 64 cores",
        "threads: 2, OpenMP waits by spinning",
        "selected: 3 benchmarks, tier full, seed 5",
    ]
    assert conftest.pytest_report_header(config) == lines
    stash[conftest.REMOVED] = ""
    assert conftest.pytest_report_header(config) == lines
    stash[conftest.REMOVED] = "2 removed"
    assert conftest.pytest_report_header(config) == [*lines, "2 removed"]


def test_there_is_a_test_of_each_selected_benchmark_and_quick_ones_of_those_with_a_reference(conftest):
    def variant(name, reference):
        case = SimpleNamespace(name="toy.act", op="act", reference=reference)
        return SimpleNamespace(id=name, case=case, form="full", backend="numpy", axes={})

    chosen, made = [variant("a", None), variant("b", "numpy"), variant("c", "numpy")], {}
    config = SimpleNamespace(stash={conftest.VARIANTS: chosen})

    def generated(*names):
        made.clear()
        parametrize = lambda name, values, ids=None: made.update({name: (values, ids)})  # noqa: E731
        conftest.pytest_generate_tests(SimpleNamespace(config=config, fixturenames=names, parametrize=parametrize))
        return made

    assert generated("other") == {}
    assert generated("benchmark", "variant") == {"variant": (chosen, ["a", "b", "c"])}
    ((params, _),) = generated("referenced_variant").values()
    assert [(param.id, param.values, [mark.name for mark in param.marks]) for param in params] == [
        ("b", (chosen[1],), []), ("c", (chosen[2],), ["slow"]),
    ]  # fmt: skip


def test_the_quick_order_is_the_one_with_fewer_terms_as_a_number(conftest):
    case = SimpleNamespace(name="toy.act", op="act")
    made = [
        SimpleNamespace(case=case, form=form, backend="torch-compile", axes={"order": order}, id=f"{form}{order}")
        for form, order in (("full", "10"), ("full", "9"), ("naive", "9"))
    ]
    assert conftest.few(made) == {"full9"}
    assert conftest.few([*made, SimpleNamespace(case=case, form="full", backend="jax", axes={}, id="none")]) == {
        "full9", "none",
    }  # fmt: skip


def test_fixtures_say_what_the_options_do(conftest, monkeypatch):
    config = SimpleNamespace(getoption={"threads": "3", "seed": "7"}.get, stash={})
    assert (conftest.threads.__wrapped__(config), conftest.seed.__wrapped__(config)) == (3, 7)
    monkeypatch.setattr(conftest.machine_limits, "here", lambda threads: {"threads": threads})
    assert conftest.limits.__wrapped__(config, 3) == config.stash[conftest.LIMITS] == {"threads": 3}


@pytest.mark.parametrize(
    ("backend", "reason", "required", "fails"),
    [
        ("numpy", "ray is not installed", "numpy", False),
        ("numpy", "ray is not installed", "ray", True),
        ("numpy", "procgen is not installed", "procgen", True),
        ("numpy", "procgen is not installed", "numpy", True),
        ("numpy", "procgen is not installed", "gym3", False),
        ("torch-cuda", "torch finds no CUDA device", "torch-cuda", True),
        ("torch-cuda", "torch finds no CUDA device", "torch", False),
    ],
)
def test_what_is_required_has_to_name_what_is_missing(conftest, monkeypatch, backend, reason, required, fails):
    missing = {reason.split()[0]} - {"torch"}
    monkeypatch.setattr(conftest, "find_spec", lambda name: None if name in missing else name)
    monkeypatch.setenv("RL_PERF_REQUIRE", required)
    error = conftest.BackendUnavailable(backend, reason, "install it")
    with pytest.raises((pytest.fail if fails else pytest.skip).Exception) as ended:
        conftest.unavailable.__wrapped__()(error)
    assert str(ended.value.msg) == (f"RL_PERF_REQUIRE={required}, but {error}" if fails else str(error))


def test_a_session_that_lists_or_times_nothing_on_purpose_is_no_failure(conftest):
    for collect, option in ((True, None), (False, "benchmark_disable"), (False, "benchmark_skip")):
        given, options = {option: True}, SimpleNamespace(collectonly=collect)
        session = SimpleNamespace(exitstatus=0, config=SimpleNamespace(option=options, getoption=given.get))
        conftest.pytest_sessionfinish(session)
        assert session.exitstatus == 0


@pytest.mark.parametrize("kind", ["skipped", "failed", "error"])
def test_what_ended_otherwise_is_counted_once_and_what_is_wrong_already_fails(conftest, kind):
    params = SimpleNamespace(params={"variant": None})
    items = [SimpleNamespace(name=f"test_perf[{name}]", nodeid=name, callspec=params) for name in "ab"]
    items.append(SimpleNamespace(name="test_other", nodeid="c"))
    said = [SimpleNamespace(nodeid="b"), SimpleNamespace(nodeid="b"), SimpleNamespace()]
    stats = {kind: said}

    def ended(wrong, rows=("a",)):
        stash = {conftest.WRONG: wrong}
        benchmarks = [SimpleNamespace(extra_info={"id": row}) for row in rows]
        config = SimpleNamespace(
            option=SimpleNamespace(collectonly=False),
            getoption=lambda name: None,
            pluginmanager=SimpleNamespace(getplugin=lambda name: SimpleNamespace(stats=stats)),
            stash=stash,
            _benchmarksession=SimpleNamespace(
                benchmarks=[*benchmarks, SimpleNamespace(extra_info={})], performance_regressions=[]
            ),
        )
        session = SimpleNamespace(items=items, exitstatus=0, config=config)
        conftest.pytest_sessionfinish(session)
        return session.exitstatus, stash[conftest.WRONG]

    assert ended([]) == (0, [])
    assert ended(["no room"]) == (1, ["no room"])
    assert ended([], rows=()) == (1, ["2 benchmarks were selected and 0 were measured"])


def test_a_benchmark_is_a_test_of_that_name_with_a_variant(conftest):
    def item(name, **params):
        return SimpleNamespace(name=name, callspec=SimpleNamespace(params=params))

    items = [item("test_perf[a]", variant=1), item("test_perf[a]", other=1), item("test_performance", variant=1)]
    assert [conftest.is_benchmark(one) for one in items] == [True, False, False]
    assert conftest._measured(SimpleNamespace()) == []
