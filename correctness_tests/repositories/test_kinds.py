"""Kinds of benchmarks: custom fixtures, marks, async tests, parameters in no fixed order, failing tests."""

import re

import pytest

from . import kinds, plugins
from .made import CLOCK, QUICK, SAME, SLOWED, Repository, flat, with_numpy

ERRORS = {  # a test's code, and its error; on base, ``slow`` does 100 units of work
    "never": ("def test_never(benchmark):\n    pass\n", "it never calls benchmark: call benchmark(function, ...)"),
    "teardown": (
        "@pytest.fixture\ndef left():\n    yield\n    assert not on_base()\n\n\n"
        "def test_teardown(benchmark, left):\n    benchmark(counted)\n",
        "base: its teardown failed: AssertionError",
    ),
    "assertion": (
        "def test_assertion(benchmark):\n    assert benchmark(counted) == 2\n",
        "head: its test failed: AssertionError: assert 1 == 2",
    ),
    "cleanup": (
        "@pytest.fixture\ndef opened():\n    yield\n    raise OSError('not open')\n\n\n"
        "def test_cleanup(benchmark, opened):\n    assert benchmark(counted) == 2\n",
        "its test failed: AssertionError: assert 1 == 2",
    ),
    "strict": (
        "@pytest.mark.xfail(strict=True, reason='not yet')\ndef test_strict(benchmark):\n    benchmark(counted)\n",
        "its test failed: [XPASS(strict)] not yet",
    ),
    "one_side": (
        "def test_one_side(benchmark):\n    benchmark(counted)\n    assert not on_base()\n",
        "base: its test failed: AssertionError",
    ),
    "fixture": (
        "@pytest.fixture\ndef made():\n    if on_base():\n        raise OSError('no server')\n\n\n"
        "def test_fixture(benchmark, made):\n    benchmark(counted)\n",
        "base: its set-up failed: OSError: no server",
    ),
    "ignored": (
        'def test_ignored(benchmark):\n    Path("data/numbers.txt").read_text()\n    benchmark(counted)\n',
        "; the working tree has data/numbers.txt, but git ignores it",
    ),
    "port": (
        "@pytest.fixture\ndef server():\n    with socket.create_server(('localhost', 47511)):\n        yield\n\n\n"
        "def test_port(benchmark, server):\n    benchmark(counted)\n",
        "; the fixtures of both sides are alive at once",
    ),
    "path": (
        "def test_path(benchmark):\n    benchmark(counted)\n    raise OSError(sorting.__file__)\n",
        "its test failed: OSError: toy/sorting.py",
    ),
}
PARSED = "from toy.parsed import parsed\n\n\ndef test_parsed(benchmark):\n    benchmark(parsed, [1])\n"
UNPARSED = "IndentationError: expected an indented block after function definition on line 1 (parsed.py, line 1)"
CACHED = """CACHE, SLOW = [], []


def loaded():
    CACHE[:] = CACHE or [sorting.slow(NUMBERS)]
    return sorting.kept(NUMBERS[:1])


def test_cached(benchmark):
    benchmark.pedantic(loaded)


def loaded_slowly():
    SLOW[:] = SLOW or [np.sort(np.zeros(2_000_000))]  # 2 s of the fake clock
    return sorting.kept(NUMBERS)


def test_cached_for_long(benchmark):
    benchmark.pedantic(loaded_slowly)


def test_torn_down(benchmark):
    benchmark.pedantic(sorting.kept, (NUMBERS[:1],), teardown=lambda numbers: sorting.slow(NUMBERS))
"""
COUNTED = """def counted():
    np.sort(np.zeros(200))
    return 1


def on_base():
    return 100 in sorting.slow.__code__.co_consts


@pytest.mark.skip(reason="later")
def test_later(benchmark):
    benchmark(counted)


def test_skipped_on_base(benchmark):
    if on_base():
        pytest.skip("not here")
    benchmark(counted)


@pytest.mark.xfail(reason="not yet")
def test_expected(benchmark):
    raise NotImplementedError


"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    files = with_numpy(flat() | {"benchmarks/conftest.py": CLOCK + plugins.HOOKS})
    files |= plugins.CODSPEED | {"toy/modes.py": kinds.MODES}
    files |= {f"benchmarks/test_{name}.py": kinds.HEAD + text for name, text in kinds.FILES.items()}
    files["benchmarks/test_cached.py"] = kinds.HEAD + CACHED
    files["benchmarks/test_errors.py"] = kinds.HEAD + "\n\n".join([COUNTED, *(text for text, _ in ERRORS.values())])
    files |= {"conftest.py": plugins.ROOT_HOOKS, ".gitignore": "__pycache__/\ndata/\n"}
    files["toy/parsed.py"] = "def parsed():\n"
    files["pyproject.toml"] = (
        '[tool.pytest.ini_options]\naddopts = "-p pytest_codspeed.plugin --codspeed"\nmarkers = ["awaited"]\n'
    )
    gone = "\n\ndef test_gone():\n    sorting.kept(NUMBERS)\n"
    before = files | {"benchmarks/test_marks.py": files["benchmarks/test_marks.py"] + gone}
    toy = Repository(tmp_path_factory.mktemp("kinds") / "toy", before)
    new = kinds.HEAD + COUNTED + ERRORS["fixture"][0]
    slower = with_numpy(flat(slow=110))
    added = {"toy/parsed.py": "parsed = sum\n", "benchmarks/test_new.py": new, "benchmarks/test_parsed.py": PARSED}
    toy.commit("slower", files | added | {"toy/sorting.py": slower["toy/sorting.py"]})
    toy.write({"data/numbers.txt": "1"})
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    # two pairs, because the processes of one may order a set alike
    return toy.gate("start", tmp_path_factory.mktemp("ran"), rule=QUICK.replace("screen=1", "screen=2"))


def verdicts(ran, file):
    """Return the verdict on each test of a file, or its rounded ratio if it was timed."""
    prefix = f"benchmarks/test_{file}.py::"
    found = {name: verdict for name, (verdict, *_) in ran.findings.items() if prefix in name}
    assert found, ran.text
    ratios = {name: round(ratio, 1) for name, ratio in ran.ratios.items() if found.get(name) != "error"}
    return {name.removeprefix(prefix): ratios.get(name, verdict) for name, verdict in found.items()}


def note(ran, name):
    verdict, words = ran.findings[f"benchmarks/{name}"]
    assert verdict == "error"
    return words


def test_a_project_fixture_named_benchmark_wraps_the_gates(ran):
    assert verdicts(ran, "fixtures") == {
        "TestPartial::test_partial": 1.1,
        "test_shared": 1.0,
        "test_other_name": 1.1,
        "test_mode": 1.1,
        "test_frozen": 1.1,
        "test_replaced": 1.1,
        "TestCodSpeed::test_other_plugin": 1.1,
        "test_codspeed": 1.1,
        "test_timer": 1.0,
        "test_weave[1]": "error",
        "test_weave[2]": "error",
        "test_alarm": 1.1,
        "TestRequested::test_own": "error",
        "TestRequested::test_requested": 1.1,
        "TestNotMarked::test_requested": 1.1,
        "TestNotMarked::test_requests": 1.1,
    }
    own = note(ran, "test_fixtures.py::TestRequested::test_own")
    assert own == "head: it measures with a BenchmarkFixture of its own: use the fixture benchmark"
    for number in (1, 2):
        words = note(ran, f"test_fixtures.py::test_weave[{number}]")
        assert "the gate does not support benchmark.weave" in words


def test_a_marked_test_without_the_fixture_is_timed_without_its_setup(ran):
    assert verdicts(ran, "marks") == {
        "test_marked": 1.1,
        "test_recorded": 1.1,
        "test_marked_once": 1.1,
        "TestUnit::test_unit": 1.1,
        "TestMarked::test_method[fifty]": 1.0,
        "test_with_fixture[1]": 1.0,
        "test_gone": "gone",
    }
    assert verdicts(ran, "mark") == {"test_codspeed_mark": 1.1}


def test_a_test_that_asks_for_one_call_is_run_again_for_each_sample_unless_a_call_can_be_repeated(ran):
    assert verdicts(ran, "once") == {
        "test_finds_no_work": 1.1,
        "test_iterator": 1.1,
        "test_fails": 1.1,
        "test_counts": 1.1,
        "test_repeats": 1.1,
        "test_fails_later": "error",
    }
    assert "its test failed: AssertionError: assert []" in note(ran, "test_once.py::test_fails_later")
    assert ran.seconds("benchmarks/test_once.py::test_iterator") == pytest.approx([0.1, 0.11], rel=0.01)


def test_the_report_says_if_only_the_first_call_takes_long(ran):
    for name, times in (("cached", r"\d\d"), ("cached_for_long", r"40\d")):
        verdict, words = ran.findings[f"benchmarks/test_cached.py::test_{name}"]
        assert verdict != "error"
        note = f"its first call takes {times} times as long as later calls; only the later calls are timed"
        assert re.fullmatch(note, words), ran.text
    assert ran.findings["benchmarks/test_cached.py::test_torn_down"][1:] == ()


def test_a_child_process_stands_still_during_the_turns_of_the_other_side(ran):
    assert verdicts(ran, "child") == {"test_child": 1.1}, ran.findings


def test_an_async_test_needs_a_plugin_that_awaits_it(ran):
    assert verdicts(ran, "async") == {"test_not_awaited": "error", "test_awaited": 1.1}
    assert "the test is an async function, and no plugin awaits it" in note(ran, "test_async.py::test_not_awaited")


def test_parameters_from_a_set_are_errors_and_others_whose_repr_differs_per_process_are_not(ran):
    sets, others = (list(verdicts(ran, file).values()) for file in ("sets", "parameters"))
    assert (sets, others) == (["error"] * (14 + 1), [1.0] * (18 + 4)), ran.text
    words = note(ran, "test_sets.py::test_set[case0]")
    assert "parameter case of benchmarks/test_sets.py::test_set[case" in words
    assert "sort the values of parametrize" in words
    words = note(ran, "test_sets.py::test_process_beside_an_object[one]")
    assert "if base and head read it from a file, add the file to benchmarks" in words


def test_an_id_may_contain_a_path_in_the_repository(toy, ran):
    found = verdicts(ran, "paths")
    timed = [f"test_file[{toy.root}/benchmarks/test_paths.py]", "test_file[other]", "test_process[1]"]
    assert [found.pop(name) for name in timed] == [1.0] * 3
    (name,) = [name for name, verdict in found.items() if verdict == "error"]  # base's id is gone
    assert "with other parameters on this side" in note(ran, f"test_paths.py::{name}")


@pytest.mark.parametrize("name", ERRORS)
def test_a_test_that_cannot_be_timed_is_an_error_with_its_reason(ran, name):
    assert ERRORS[name][1] in note(ran, f"test_errors.py::test_{name}")
    assert f"test_errors.py::test_{name}: error, " in ran.text


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("errors.py::test_later", ("skipped", "later")),
        ("errors.py::test_expected", ("skipped", "xfail: not yet")),
        ("errors.py::test_skipped_on_base", ("new", "base: skipped: not here")),
        ("new.py::test_fixture", ("new", "base: its set-up failed: OSError: no server")),
        ("parsed.py::test_parsed", ("new", f"base: it cannot be collected: {UNPARSED}")),
    ],
)
def test_a_test_that_both_sides_skip_is_skipped_and_one_that_base_alone_cannot_run_is_new(ran, name, finding):
    assert ran.findings[f"benchmarks/test_{name}"] == finding


def test_a_test_that_a_hook_deselects_is_counted_once(ran):
    assert " / 1 deselected / " in ran.text  # although the hooks run twice, with --codspeed and without it


def test_a_run_with_errors_fails(ran):
    assert ran.code == 1, ran.text
    assert (ran.findings[SAME], ran.findings[SLOWED]) == (("ok",), ("slower",))
    assert "4 skipped" in ran.text
    assert "Traceback" not in ran.text
