"""What ASV is given: the gate tier, an op each, with form, backend and every axis as parameters."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from asv.benchmarks import Benchmarks

from perf_tests.asv import existing
from perf_tests.suite import asv_cases
from perf_tests.suite.case import Inputs
from perf_tests.suite.cases import load, variants
from perf_tests.suite.prepared import prepare
from rl_impls import backends

from .commands import ROOT, python

CLASSES = [made for made in vars(asv_cases).values() if isinstance(made, type) and "skip_params" in vars(made)]
GATED = {variant.id: variant for variant in variants().values() if variant.tier == "gate"}


def combinations(made):
    """Return what ASV would run of a class: names and values of the parameters."""
    everything = itertools.product(*made.params)
    return [dict(zip(made.param_names, values)) for values in everything if values not in made.skip_params]


def test_the_combinations_that_are_not_skipped_are_the_gate_tier():
    assert sum(len(combinations(made)) for made in CLASSES) == len(GATED)
    found = set()
    for made in CLASSES:
        assert made.param_names[:2] == ["form", "backend"]
        for values in combinations(made):
            variant = GATED[made.ids[tuple(values.values())]]
            assert made.time_sample.benchmark_name == f"{variant.case.name}.time_sample"
            wanted = {"form": variant.form, "backend": variant.backend, **variant.axes}
            assert {name: value for name, value in values.items() if value != "-"} == wanted
            found.add(variant.id)
    assert found == GATED.keys()


def test_a_run_of_make_asv_selects_what_is_not_skipped():
    listed = [
        {
            "name": made.time_sample.benchmark_name,
            "params": [[repr(value) for value in values] for values in made.params],
        }
        for made in CLASSES
    ]
    selected = Benchmarks(SimpleNamespace(benchmark_dir=""), listed, regex=existing()).benchmark_selection
    for made in CLASSES:
        everything = list(itertools.product(*made.params))
        chosen = [everything[index] for index in selected[made.time_sample.benchmark_name]]
        assert chosen == [values for values in everything if values not in made.skip_params]


def case(name):
    """Return a case of the suite."""
    return next(case for case in load() if case.name == name)


def test_an_op_of_several_cases_is_one_class_with_the_axes_of_all(monkeypatch):
    same = {"inputs": lambda rng, **axes: Inputs({}), "exclude": [], "gate": [{}], "bench": []}
    plain = replace(case("pirl.sync_target"), forms=("full",), backends=("numpy", "torch"), axes={}, **same)
    wide = replace(plain, forms=("naive",), backends=("numpy",), axes={"hidden": (32, 64)}, version=7)
    listed = {variant.id: variant for case in (plain, wide) for variant in case.variants()}
    monkeypatch.setattr(asv_cases, "variants", lambda: listed)
    ((name, found),) = asv_cases.gated().items()
    made = asv_cases.benchmark_class(name, found)
    assert made.__name__ == "PirlSyncTarget"
    assert made.param_names == ["form", "backend", "hidden"]
    assert made.params == [["full", "naive"], ["numpy", "torch"], ["-", 32, 64]]
    assert made.ids == {
        ("full", "numpy", "-"): "pirl.sync_target[full-numpy]",
        ("full", "torch", "-"): "pirl.sync_target[full-torch]",
        ("naive", "numpy", 32): "pirl.sync_target[naive-numpy-hidden32]",
        ("naive", "numpy", 64): "pirl.sync_target[naive-numpy-hidden64]",
    }
    assert len(made.skip_params) == 2 * 2 * 3 - 4
    assert made.time_sample.version.startswith("7-")


def test_what_a_combination_times_is_the_variant_of_its_values(monkeypatch):
    asked = []
    monkeypatch.setattr(asv_cases, "ready", lambda identity: asked.append(identity) or SimpleNamespace(reset=int))
    for made in CLASSES:
        for values in combinations(made):
            made().setup(*values.values())
            assert GATED[asked[-1]].form == values["form"]
            assert GATED[asked[-1]].backend == values["backend"]
    assert sorted(asked) == sorted(GATED)


def test_the_version_follows_what_is_measured():
    forward = case("pirl.forward")
    gate = [variant for variant in forward.variants() if variant.tier == "gate"]
    other = replace(forward, inputs=lambda rng, **axes: forward.inputs(np.random.default_rng(1), **axes))
    untouched = replace(forward, tolerance=1e-3, unit="states", most_calls=1)

    def version(changed):
        return asv_cases.version([replace(variant, case=changed) for variant in gate])

    assert version(forward) == version(untouched)
    assert len({version(changed) for changed in (forward, replace(forward, version=2), other)}) == 3
    called = replace(forward, inputs=lambda rng, **axes: replace(forward.inputs(rng, **axes), args=(np.ones(3),)))
    assert version(called) != version(forward)
    newer = [replace(variant, case=replace(forward, version=9)) for variant in gate[:1]]
    assert (
        asv_cases.version([*newer, *gate[1:]])
        != asv_cases.version(  # of each case, not of the newest alone
            [*newer, *(replace(variant, case=replace(forward, version=2)) for variant in gate[1:])]
        )
    )


def test_a_sample_is_in_seconds_per_call(monkeypatch):
    now = itertools.count(start=5)
    monkeypatch.setattr(asv_cases.time, "perf_counter", lambda: float(next(now)))
    benchmark = asv_cases.CaseBenchmark()
    benchmark.prepared = SimpleNamespace(calls=4)
    start = benchmark.timer()
    assert benchmark.timer() - start == 1 / 4


def test_an_op_that_a_commit_lacks_is_not_available(monkeypatch):
    from rl_impls.pirl import _numpy

    monkeypatch.delattr(_numpy, "sync_target")
    with pytest.raises(NotImplementedError, match="no op 'sync_target' on numpy"):
        asv_cases.ready("pirl.sync_target[full-numpy-hidden32]")
    with pytest.raises(backends.OpUnavailable):
        prepare(variants()["pirl.sync_target[full-numpy-hidden32]"], 0)


OLDER = """
import sys
from importlib.util import find_spec

installed, suite, root = sys.argv[1:]
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in repr(finder)]
sys.path[:] = [suite, *(path for path in sys.path if path not in ("", root)), installed]
assert find_spec("rlgauge") is None
from suite import process

print(process.cores(), find_spec("rl_impls").origin)
"""


def test_the_cases_need_no_more_of_a_commit_than_its_workloads(tmp_path):
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed/rl_impls").symlink_to(ROOT / "rl_impls")
    done = python("-c", OLDER, tmp_path / "installed", ROOT / "perf_tests", ROOT, cwd=tmp_path, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == str(tmp_path / "installed/rl_impls/__init__.py")


def test_asv_calls_each_sample_once_after_a_reset(monkeypatch):
    log = []
    ready = SimpleNamespace(reset=lambda: log.append("reset"), run=lambda: log.append("run"), calls=3)
    monkeypatch.setattr(asv_cases, "ready", lambda identity: log.append(identity) or ready)
    made = CLASSES[0]
    values = next(iter(made.ids))
    benchmark = made()
    benchmark.setup(*values)
    assert benchmark.time_sample(*values) is None
    assert log == [made.ids[values], "reset", "run"]
    assert (made.number, made.rounds, made.repeat, made.warmup_time, made.timeout) == (1, 1, 15, 0, 300)


def test_a_combination_has_a_dash_for_an_axis_of_another_case():
    def variant(form, backend, **axes):
        return SimpleNamespace(form=form, backend=backend, axes=axes, id=f"{form}-{backend}-{axes}")

    found = asv_cases.parameters([variant("full", "torch", batch=1), variant("naive", "numpy", io="host")])
    assert found.names == ["form", "backend", "batch", "io"]
    assert found.ids == {
        ("full", "torch", 1, "-"): "full-torch-{'batch': 1}",
        ("naive", "numpy", "-", "host"): "naive-numpy-{'io': 'host'}",
    }
    assert found.values == [["full", "naive"], ["torch", "numpy"], [1, "-"], ["-", "host"]]
    assert len(found.skipped) == 14
    assert not found.ids.keys() & set(found.skipped)


@pytest.mark.parametrize(("imported", "threads"), [((), [3]), (("torch",), []), (("jax",), []), (("torch", "jax"), [])])
def test_a_process_is_set_up_before_torch_and_jax_are_there(monkeypatch, imported, threads):
    given = []
    for name in ("torch", "jax"):
        monkeypatch.delitem(asv_cases.sys.modules, name, raising=False)
    for name in imported:
        monkeypatch.setitem(asv_cases.sys.modules, name, SimpleNamespace())
    monkeypatch.setattr(asv_cases.process, "cores", lambda: 3)
    monkeypatch.setattr(asv_cases.process, "set_up", given.append)
    monkeypatch.setattr(asv_cases, "prepared", lambda *of: of)
    assert asv_cases.ready("a[b]") == ("a[b]", asv_cases.SEED)
    assert given == threads


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (ModuleNotFoundError("x", name="rl_impls.toy"), NotImplementedError, "this commit: no rl_impls.toy"),
        (ModuleNotFoundError("No module named 'x'", name="x"), ModuleNotFoundError, "No module named 'x'"),
        (ValueError("unknown form 'x'"), NotImplementedError, "this commit: unknown form 'x'"),
        (ValueError("rate: got 0"), ValueError, "rate: got 0"),
        (KeyError("w"), KeyError, "'w'"),
    ],
)
def test_what_a_commit_lacks_is_not_available_and_other_errors_are_errors(monkeypatch, error, raised, words):
    def fails(*of):
        raise error

    monkeypatch.setattr(asv_cases, "prepared", fails)
    monkeypatch.setattr(asv_cases.process, "set_up", lambda threads: None)
    with pytest.raises(raised, match=f"^{words}$"):
        asv_cases.ready("a[b]")


def test_the_version_follows_each_of_what_an_op_is_built_from_and_called():
    forward = case("pirl.sync_target")
    (one, *_) = forward.variants()

    def version(spec, args=(), **changed):
        made = replace(forward, inputs=lambda rng, **axes: Inputs(spec, args), **changed)
        return asv_cases.version([replace(one, case=made)])

    base = version({"a": 1, "b": np.zeros(2)})
    assert base == version({"b": np.zeros(2), "a": 1})
    assert base.startswith(f"{forward.version}-")
    assert len(base.partition("-")[2]) == 12
    others = [
        version({"a": 2, "b": np.zeros(2)}), version({"a": 1, "b": np.ones(2)}), version({"a": 1, "c": np.zeros(2)}),
        version({"a": 1, "b": np.zeros(2)}, (np.zeros(2),)), version({"a": 1, "b": np.zeros(2)}, version=9),
        version({"a": 1, "b": np.zeros(2)}, op="other"),
    ]  # fmt: skip
    assert len({base, *others}) == 7
