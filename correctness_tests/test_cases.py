"""Cases as data: which combinations exist, in which tier, under which permanent id."""

from __future__ import annotations

import functools
import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perf_tests import selection
from perf_tests.__main__ import main
from perf_tests.suite import cases
from perf_tests.suite.case import Case, Inputs, Variant
from perf_tests.suite.cases import ids_file, ids_text, load, variants
from rl_impls import backends

CASE = Case(
    "toy",
    "double",
    lambda rng, **axes: Inputs({}),
    ("numpy", "torch", "jax"),
    "numbers",
    lambda **axes: 1,
    axes={"batch": (1, 32), "io": ("host", "device")},
    exclude=[dict(form="naive", backend=("torch", "jax")), dict(io="device", backend="numpy")],
    gate=[dict(form="full", backend=("numpy", "jax"), batch=32)],
    bench=[dict(batch=32), dict(form="naive")],
)


@pytest.mark.parametrize("workload", sorted({case.workload for case in load()}))
def test_ids_and_tiers_are_those_kept_beside_the_cases(workload):
    path = ids_file(workload)
    assert path.exists(), f"keep the ids of {workload}: python -m perf_tests ids {workload}"
    assert path.read_text() == ids_text(workload)


def test_every_file_of_ids_is_of_a_workload():
    files = {path.stem for path in Path(cases.__file__).parent.glob("*.ids")}
    assert files <= {case.workload for case in load()}


def test_patterns_say_what_exists_and_in_which_tier():
    tiers = {variant.parameters: variant.tier for variant in CASE.variants()}
    assert tiers == {
        "naive-numpy-batch1-iohost": "bench",
        "naive-numpy-batch32-iohost": "bench",
        "full-numpy-batch1-iohost": "full",
        "full-numpy-batch32-iohost": "gate",
        "full-torch-batch1-iohost": "full",
        "full-torch-batch1-iodevice": "full",
        "full-torch-batch32-iohost": "bench",
        "full-torch-batch32-iodevice": "bench",
        "full-jax-batch1-iohost": "full",
        "full-jax-batch1-iodevice": "full",
        "full-jax-batch32-iohost": "gate",
        "full-jax-batch32-iodevice": "gate",
    }


def test_an_empty_pattern_is_all_there_is():
    assert {v.tier for v in replace(CASE, gate=(), bench=[{}]).variants()} == {"bench"}
    assert {v.tier for v in replace(CASE, gate=(), bench=()).variants()} == {"full"}


@pytest.mark.parametrize("kind", ["exclude", "gate", "bench"])
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (dict(width=3), r"unknown axis 'width'; known: form, backend, batch, io"),
        (dict(batch=(32, 33)), r"unknown value 33 of batch; known: 1, 32"),
        (dict(backend="jaxx"), r"unknown value 'jaxx' of backend; known: 'numpy', 'torch', 'jax'"),
        (dict(form="compiled"), r"unknown value 'compiled' of form; known: 'naive', 'full'"),
        (dict(batch="32"), r"unknown value '32' of batch"),
    ],
)
def test_a_pattern_that_names_what_a_case_lacks_is_an_error_of_the_case(kind, pattern, message):
    wrong = replace(CASE, **{kind: [{}, pattern]})
    with pytest.raises(ValueError, match=rf"toy.double: {kind} .*: {message}"):
        wrong.check()


@pytest.mark.parametrize("kind", ["gate", "bench"])
@pytest.mark.parametrize(
    "pattern", [dict(form="naive", backend="jax"), dict(io="device", backend="numpy"), dict(io=())]
)
def test_a_pattern_that_matches_nothing_that_exists_is_an_error_of_the_case(kind, pattern):
    with pytest.raises(ValueError, match=rf"toy.double: {kind} .*: matches nothing"):
        replace(CASE, **{kind: [pattern]}).check()


def test_a_case_without_mistakes_passes():
    CASE.check()
    replace(
        CASE, items=lambda batch, **_: batch, flops=functools.partial(lambda batch, io, *, rate: 0.0, rate=2)
    ).check()


@pytest.mark.parametrize("kind", ["inputs", "items", "flops", "bytes"])
@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda rng, batch: 1, "takes (rng, batch)"),
        (lambda rng, batch, io, envs: 1, "takes (rng, batch, io, envs)"),
        (64, "got 64"),
    ],
)
def test_a_function_that_does_not_take_the_axes_is_an_error_of_the_case(kind, wrong, got):
    first = "rng, " if kind == "inputs" else ""
    with pytest.raises(ValueError, match=rf"^toy.double: {kind}: {re.escape(got)}, wanted .*\({first}batch, io\)$"):
        replace(CASE, **{kind: wrong}).check()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([CASE, replace(CASE, version=2)], r"toy.double: id 'toy.double\[.*\]' stands for two variants"),
        ([replace(CASE, gate=[dict(width=3)])], r"toy.double: gate .*: unknown axis 'width'"),
    ],
)
def test_mistakes_end_the_loading_of_all_cases(monkeypatch, wrong, message):
    monkeypatch.setattr(cases, "load", lambda: tuple(wrong))
    with pytest.raises(ValueError, match=message):
        variants.__wrapped__()


def test_what_is_listed_is_what_is_kept(capsys):
    main(["list", "--workload", "snake"])
    listed = [line.partition("  #")[0].split() for line in capsys.readouterr().out.splitlines()]
    kept = [line.split() for line in ids_file("snake").read_text().splitlines()]
    assert sorted(listed) == sorted(kept)


def test_a_list_says_why_something_cannot_run_here(capsys):
    main(["list", "--tier", "bench", "--workload", "pirl", "--backend", "neuron,numpy"])
    lines = capsys.readouterr().out.splitlines()
    assert {("cannot run here: torch_neuronx" in line, "neuron" in line) for line in lines} == {
        (True, True),
        (False, False),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--workload", "tetris"), "unknown workload 'tetris'; known: "),
        (("list", "--tier", "huge"), "unknown tier 'huge'; known: gate, bench, full"),
        (("ids", "tetris"), "invalid choice: 'tetris'"),
        ((), "the following arguments are required"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_ids_are_written_whole_beside_the_cases(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("perf_tests.__main__.ids_file", lambda workload: tmp_path / f"{workload}.ids")
    main(["ids", "pirl"])
    assert (tmp_path / "pirl.ids").read_text() == ids_file("pirl").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["pirl.ids"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "CASES: got (), wanted a tuple of one or more cases"),
        ("CASES = [1]", "CASES: got [1], wanted a tuple of one or more cases"),
        ("import nothing_like_this", ", line 1: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("CASES = (", "SyntaxError: '(' was never closed"),
        ("\nfrom perf_tests.suite.case import Case\nCase(gates=[])", ", line 3: TypeError: "),
        ("from perf_tests.suite.cases.pirl import CASES", ": got the case pirl.forward, wanted cases of toy alone"),
    ],
)
def test_a_module_of_cases_that_cannot_be_used_is_named(monkeypatch, tmp_path, text, said):
    (tmp_path / "perf_tests/suite/cases").mkdir(parents=True)
    (tmp_path / "perf_tests/suite/cases/toy.py").write_text(text)
    monkeypatch.setattr(cases, "__path__", [*cases.__path__, str(tmp_path / "perf_tests/suite/cases")])
    with pytest.raises(cases.CasesError, match=rf"^perf_tests/suite/cases/toy\.py.*{re.escape(said)}"):
        cases.cases_of("toy")
    sys.modules.pop(f"{cases.__name__}.toy", None)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (dict(backends=("numpy")), "backends: got 'numpy', wanted one or more names, as a tuple"),
        (dict(forms=()), "forms: got (), wanted one or more names, as a tuple"),
        (dict(cores="many"), "cores: got 'many', wanted one of one, all, own"),
        (dict(axes={}, io="disk"), "io: got ('disk',), wanted some of device, host, own"),
        (dict(axes={"batch": 3}), "axes: got {'batch': 3}, wanted one or more values of each, as a tuple"),
        (dict(tolerance=0), "tolerance: got 0, wanted more than 0"),
        (dict(most_calls=0), "most_calls: got 0, wanted None, or 1 or more"),
        (dict(version=0), "version: got 0, wanted 1 or more"),
    ],
)
def test_a_mistaken_field_is_an_error_of_the_case(changed, said):
    with pytest.raises(ValueError, match=f"^toy.double: {re.escape(said)}"):
        replace(CASE, **changed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (dict(workload="tetris"), "unknown workload of case tetris.forward 'tetris'; known: "),
        (dict(backends=("numpy", "jaxx")), "unknown backend of case pirl.forward 'jaxx'; known: numpy"),
        (dict(forms=("fast",)), "unknown form of case pirl.forward 'fast'; known: naive, full"),
    ],
)
def test_a_name_that_is_not_registered_is_an_error_of_the_case(changed, said):
    case = variants()["pirl.forward[full-numpy-batch8-iohost-hidden32]"].case
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        selection.check_names([replace(case, **changed)])


def test_a_case_is_blamed_before_a_pattern_that_names_the_right_backend(monkeypatch):
    wrong = replace(CASE, workload="pirl", backends=("numpy", "torch", "jaxx"))
    monkeypatch.setattr(selection, "load", lambda: (wrong,))
    with pytest.raises(ValueError, match=r"^unknown backend of case pirl.double 'jaxx'; known: numpy"):
        selection.select(selection.Selection())


def test_a_workload_without_knobs_is_told_which_file_is_missing(monkeypatch, tmp_path):
    (tmp_path / "toy").mkdir()
    monkeypatch.setattr(backends, "__file__", str(tmp_path / "backends.py"))
    with pytest.raises(ValueError, match=r"^case toy.double: rl_impls/toy/knobs.py is missing$"):
        selection.check_names([CASE])


def test_a_case_is_of_both_forms_on_one_core_against_numpy_unless_it_says_otherwise():
    plain = Case("toy", "double", lambda rng: Inputs({}), ("numpy",), "numbers", lambda: 1)
    assert (plain.forms, plain.io, plain.cores, plain.reference) == (("naive", "full"), "device", "one", "numpy")
    assert (plain.tolerance, plain.most_calls, plain.repeatable, plain.version) == (1e-5, None, True, 1)
    assert (plain.flops(batch=3), plain.bytes(batch=3), plain.name) == (0.0, 0.0, "toy.double")
    assert [(one.id, one.tier, one.io) for one in plain.variants()] == [
        ("toy.double[naive-numpy]", "full", "device"),
        ("toy.double[full-numpy]", "full", "device"),
    ]


@pytest.mark.parametrize(("most", "answered"), [(None, 2), (1, 1), (2, 2), (9, 2)])
def test_answers_are_those_after_two_calls_where_a_case_allows_two(most, answered):
    assert replace(CASE, most_calls=most).answered_calls == answered


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (dict(backends=()), "backends: got (), wanted one or more names, as a tuple"),
        (dict(backends=("numpy", 1)), "backends: got ('numpy', 1), wanted one or more names, as a tuple"),
        (dict(forms="full"), "forms: got 'full', wanted one or more names, as a tuple"),
        (dict(axes={"batch": (1,), "io": ("host", "disk")}), "io: got ('host', 'disk'), wanted some of "),
        (dict(axes={"batch": (1,), "width": ()}), "axes: got {'batch': (1,), 'width': ()}, wanted "),
        (dict(tolerance=-1e-5), "tolerance: got -1e-05, wanted more than 0"),
        (dict(repeatable=False), "repeatable: got False, wanted True, or False without a reference"),
        (dict(repeatable=None, reference=None), "repeatable: got None, wanted True, or False without a reference"),
    ],
)
def test_each_part_of_a_field_is_looked_at(changed, said):
    with pytest.raises(ValueError, match=f"^toy.double: {re.escape(said)}"):
        replace(CASE, **changed)


def test_the_least_that_a_field_may_hold_is_no_mistake():
    found = replace(CASE, most_calls=1, version=1, repeatable=False, reference=None, cores="own", tolerance=1e-9)
    assert not found.repeatable
    assert replace(CASE, axes={}, io="own").io == "own"


def test_a_pattern_that_excludes_may_match_what_another_excludes_too():
    replace(CASE, exclude=[*CASE.exclude, dict(form="naive", backend="jax")]).check()
    with pytest.raises(ValueError, match=r"^toy.double: exclude .*: matches nothing$"):
        replace(CASE, exclude=[*CASE.exclude, dict(batch=())]).check()


def test_what_is_excluded_is_not_gated_and_what_is_gated_is_not_of_the_bench():
    both = replace(CASE, exclude=[dict(backend="jax")], gate=[dict(backend=("jax", "torch"))], bench=[{}])
    tiers = {backend: both.tier({"form": "full", "backend": backend}) for backend in both.backends}
    assert tiers == {"numpy": "bench", "torch": "gate", "jax": None}


def test_combinations_go_by_form_then_backend_then_axes():
    found = list(replace(CASE, backends=("torch", "numpy")).combinations())
    assert len(found) == 2 * 2 * 2 * 2
    assert found[:3] == [
        {"form": "naive", "backend": "torch", "batch": 1, "io": "host"},
        {"form": "naive", "backend": "torch", "batch": 1, "io": "device"},
        {"form": "naive", "backend": "torch", "batch": 32, "io": "host"},
    ]
    assert found[4]["backend"] == "numpy"
    assert found[8]["form"] == "full"


def test_arguments_go_where_the_axis_says_or_else_the_case():
    (one,) = (variant for variant in CASE.variants() if variant.parameters == "full-torch-batch1-iohost")
    assert (CASE.io, one.io) == ("device", "host")
    assert replace(one, case=replace(CASE, axes={}, io="own"), axes={}).io == "own"


def test_inputs_are_drawn_from_the_seed_the_op_and_the_axes_but_for_where_they_go():
    given = []

    def inputs(rng, **axes):
        given.append(axes)
        return Inputs({}, (float(rng.random()),))

    def drawn(seed, op="double", **axes):
        case = replace(CASE, op=op, inputs=inputs)
        return replace(next(case.variants()), case=case, axes=axes).inputs(seed).args[0]

    first = drawn(3, batch=32, io="host", width=2)
    stream = zlib.crc32(b"toy.double:batch=32,width=2")
    assert first == np.random.default_rng([3, stream]).random()
    assert given == [{"batch": 32, "io": "host", "width": 2}]
    assert first == drawn(3, width=2, io="device", batch=32)
    others = drawn(4, batch=32, width=2), drawn(3, batch=32, width=3), drawn(3, "halve", batch=32, width=2)
    assert len({first, *others}) == 4


def test_a_form_has_its_knobs_but_for_those_that_are_axes():
    knobs = variants()["pirl.pde_loss[full-torch-order1]"], variants()["pirl.pde_loss[full-torch-order2]"]
    first, second = (variant.knobs() for variant in knobs)
    full = backends.forms("pirl")["full"]
    assert (first, second) == (replace(full, order=1), replace(full, order=2))
    with pytest.raises(ValueError, match=r"^unknown form 'fast'; known: naive"):
        replace(knobs[0], form="fast").knobs()


@pytest.mark.parametrize(
    ("form", "precision"), [("naive", "float32"), ("full", "float32"), ("bfloat16", "bfloat16"), ("int8", "int8")]
)
def test_the_precision_of_a_form_is_that_of_its_products(form, precision):
    case = next(case for case in load() if case.name == "snake.act")
    assert Variant(case, form, "torch", {"envs": 1}, "full").precision == precision
