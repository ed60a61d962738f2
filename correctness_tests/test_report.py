"""The README's figures are what the generator makes of the kept results; no table says more than the samples do."""

from __future__ import annotations

import errno
import json
import os
import re

import pytest

from correctness_tests.result_rows import cells, hunt, loop, malloc, row
from perf_tests.report import readme
from perf_tests.report.fronts import front_table
from perf_tests.report.headlines import headlines, picture
from perf_tests.report.order import Span
from perf_tests.report.page import judged, name_of, op_table, page, present_versions
from perf_tests.report.readme import END, PAGES, PEERS, README, RESULTS, START, insert, reduce
from perf_tests.report.table import (
    call_words,
    duration,
    factor,
    figures,
    lines,
    notes,
    percent,
    quantity,
    ratio_words,
    text_tables,
)
from perf_tests.suite.cases import CasesError, front_of, pirl, variants
from perf_tests.suite.limits import share_words

LIMITS = {"threads": 2.0, "float32_flops": 4.63e11, "bfloat16_flops": 8e11, "copy_bytes": 2e10}
MACHINE = {
    "cpu_model": "a CPU", "cores": 2, "threads": 2, "git": "abc", "versions": {"numpy": "2"}, "limits": LIMITS,
}  # fmt: skip


def test_pages_show_the_kept_results():
    text, results, peers = README.read_text(), json.loads(RESULTS.read_text()), json.loads(PEERS.read_text())
    name, rows = name_of(results["machine"]), judged(results, present_versions())
    assert insert(text, START, END, headlines(results, rows, f"results/{name}")) == text
    assert text.count(START) == text.count(END) == 1
    assert (PAGES / f"{name}.md").read_text() == page(results, peers)
    assert (PAGES / f"{name}.svg").read_text() == picture(results, rows)


def test_kept_results_are_of_benchmarks_that_exist():
    rows = json.loads(RESULTS.read_text())["rows"]
    assert rows
    for kept in rows:
        assert kept["id"] in variants()
        assert kept["low"] <= kept["seconds_per_call"] <= kept["high"]


def test_a_readme_without_markers_is_refused():
    with pytest.raises(ValueError, match="wanted the markers"):
        insert("# nothing", START, END, "")


def test_all_that_cannot_be_told_apart_from_the_fastest_are_bold_and_named():
    rows = [row("torch", 3e-5), row("onnx", 1.03e-5), row("jax", 1e-5)]
    rows += [row("torch", 1e-4, count=64), row("onnx", 2e-4, count=64)]
    table = table_of("pirl", rows)
    assert table[2] == "| 8 | 30 us | **10.3 us** | **10 us** | jax or onnx |"
    assert table[3] == "| 64 | **100 us** | 200 us |  | torch |"


def test_use_goes_by_the_time_with_default_malloc_and_both_are_shown():
    rows = [row("numpy", 293e-6, default_malloc=malloc(1.6)), row("torch", 400e-6, default_malloc=malloc(1.01))]
    assert table_of("pirl", rows)[2] == "| 8 | 293 us (469 us) | **400 us** | torch |"


@pytest.mark.parametrize(("ratio", "shown"), [(1.09, "10 us"), (0.91, "10 us"), (1.11, "10 us (11.1 us)")])
def test_both_times_are_shown_beyond_ten_per_cent(ratio, shown):
    one = row(default_malloc=malloc(ratio))
    assert call_words(one, 8) == shown
    assert ("default malloc: 11.1 us" in notes(one)) is ("(" in shown)


def test_a_difference_with_default_malloc_that_may_be_none_changes_nothing():
    rows = [row("numpy", 293e-6, default_malloc=malloc(1.6, 0.9, 2.0)), row("torch", 400e-6)]
    assert table_of("pirl", rows)[2] == "| 8 | **293 us** | 400 us | numpy |"


def test_how_sure_default_malloc_is_counts_beside_the_passes_too():
    passes = [1e-5] * 6
    rows = [
        row("numpy", 1e-5, passes=passes, default_malloc=malloc(1.5, 1.05, 3.0)),
        row("torch", 1.2e-5, passes=passes),
    ]
    assert table_of("pirl", rows)[2].endswith("| torch or numpy |")


def test_a_gain_is_per_item_against_both_baselines_with_its_interval():
    rows = [loop("naive", 64e-3, 0.01), loop("plain", 32e-3, 0.01), loop("full", 250e-3, 0.01, count=1000)]
    table = table_of("snake", rows)
    assert cells(table[2]) == ["**naive**", "1 ms", "1", "0.50 (0.49-0.51)"]
    assert cells(table[4]) == ["**full**", "250 us", "4.00 (3.92-4.08)", "2.00 (1.96-2.04)"]


def test_a_gain_whose_interval_includes_1_is_not_told_apart():
    rows = [loop("naive", 1.02e-3), loop("only_relu", 1e-3)]
    assert cells(table_of("snake", rows)[3]) == [
        "naive but for `relu`",
        "15.6 us",
        "1.02 (0.98-1.06): not told apart",
        "",
    ]


def test_float32_is_compared_with_float32_and_compiled_torch_counts():
    rows = [
        hunt("train_step", "naive", "torch", 40e-3), hunt("train_step", "full", "torch", 30e-3),
        hunt("train_step", "full", "torch-compile", 24e-3), hunt("train_step", "full", "jax", 12e-3),
        hunt("train_step", "bfloat16", "torch", 10e-3, precision="bfloat16"),
        hunt("train_step", "bfloat16", "jax", 20e-3, precision="bfloat16"),
        hunt("train_step", "full", "numpy", 1e-9), hunt("act", "full", "torch", 1e-9, axes={"agents": 1}),
    ]  # fmt: skip
    rows = [one | {"axes": {"agents": one["axes"]["agents"]}} for one in rows]
    head, _, single, _, half_head, _, half = table_of("treasurehunt", rows)
    assert cells(head)[3] == "torch-compile"
    assert cells(single) == ["`train_step`", "40 ms", "30 ms", "24 ms", "", "12 ms", "", "2.00 (1.92-2.08)"]
    assert cells(half_head) == ["five agents, bfloat16", "torch", "jax", "torch / JAX"]
    assert cells(half) == ["`train_step`", "10 ms", "20 ms", "0.50 (0.48-0.52): JAX is not faster"]


def test_columns_of_the_agents_hold_one_precision_each():
    of_agents = [variant for variant in variants().values() if variant.case.workload == "treasurehunt"]
    for table, precision in zip(front_of("treasurehunt").tables, ("float32", "bfloat16"), strict=True):
        held = [variant for variant in of_agents if table.holds(as_row(variant))]
        assert {variant.knobs().precision for variant in held} == {precision}
        assert {table.column(as_row(variant)) for variant in held} == table.columns.keys()


def as_row(variant):
    """Return what a row has in common with its variant."""
    return {"op": variant.case.op, "form": variant.form, "backend": variant.backend, "axes": variant.axes}


def test_cells_that_are_numpy_say_so():
    rows = [hunt("stack", "full", "numpy", 2e-6, 16), hunt("stack", "full", "jax", 8e-6, 16)]
    line = cells(table_of("treasurehunt", rows)[-1])
    assert line[0] == "`stack`, worlds 16"
    assert line[2] == "2 us (NumPy)"
    assert line[-1] == "0.25 (0.24-0.26): JAX is not faster (NumPy)"


def test_where_torch_and_jax_overlap_the_ratio_says_so():
    rows = [hunt("act", "full", "torch", 2e-6), hunt("act", "full", "jax", 2.02e-6)]
    assert cells(table_of("treasurehunt", rows)[-1])[-1].endswith(": not told apart")


def test_cells_of_calls_with_more_items_are_of_as_many_items_as_the_others():
    rows = [hunt("turn", "full", "torch", 2e-3), hunt("turn", "compiled", "jax", 8e-3, count=64)]
    assert cells(table_of("treasurehunt", rows)[-1])[2:7] == ["2 ms", "", "", "", "1 ms"]


def test_a_workload_that_says_nothing_gets_its_fastest_forms_by_backend(monkeypatch):
    monkeypatch.delattr(pirl, "FRONT")
    rows = [
        row("torch", 2e-5, form="naive"), row("torch", 1e-5), row("jax", 3e-5), row("onnx", 1.01e-5, count=4),
        row("torch", 5e-6, form="half", precision="bfloat16"),
    ]  # fmt: skip
    name = "pirl.forward batch {}, io host, hidden 32"
    assert table_of("pirl", rows)[0] == "| op | torch | jax | onnx | use |"
    assert list(map(cells, table_of("pirl", rows)[2:])) == [
        [f"`{name.format(8)}`", "**10 us**", "30 us", "", "torch"],
        [f"`{name.format(4)}`", "", "", "**10.1 us**", "onnx"],
        [f"`{name.format(8)} in bfloat16`", "**5 us**", "", "", "torch"],
    ]
    assert front_table("pirl", rows)[0].startswith("**pirl**, the fastest form of each op on each backend; ")


def test_what_is_no_front_is_refused_and_a_workload_that_is_gone_has_none(monkeypatch):
    monkeypatch.setattr(pirl, "FRONT", "a table")
    with pytest.raises(CasesError, match=r"cases/pirl\.py: FRONT: got 'a table', wanted a Front"):
        front_of("pirl")
    assert front_of("gone") is None


def table_of(workload, rows):
    """Return the lines of a workload's first tables, without the caption."""
    caption, empty, *lines, end = front_table(workload, rows)
    assert (caption != "", empty, end) == (True, "", "")
    return lines


def test_a_cell_is_of_fresh_rows_in_the_order_of_the_axis():
    old = row("torch", 1e-6, form="compiled", stale=True)
    assert table_of("pirl", [old, row("torch", 2e-5), row("jax", 3e-5)])[2] == "| 8 | **20 us** | 30 us | torch |"
    rows = [row("torch", 1e-4, count=64), row("torch", 3e-5)]
    assert [line.split(" | ")[0] for line in table_of("pirl", rows)[2:]] == ["| 8", "| 64"]


def test_a_cell_is_of_as_many_items_as_the_others_whoever_makes_more_at_once(monkeypatch):
    monkeypatch.delattr(pirl, "FRONT")
    rows = [row("torch", 1e-6, form="naive", stale=True), row("torch", 2e-5), row("jax", 3e-5)]
    assert cells(table_of("pirl", rows)[2])[1:] == ["**20 us**", "30 us", "torch"]
    for one, other in (("torch", "jax"), ("jax", "torch")):
        few, many = row(one, 2e-3, count=8), row(other, 8e-3, count=64)
        *found, best = cells(table_of("pirl", [many | {"axes": few["axes"]}, few])[2])[1:]
        assert (sorted(found), best) == (["**1 ms**", "2 ms"], other)


def results(*rows, **changed):
    """Make kept results."""
    return {"date": "2020-01-02", "machine": MACHINE, "rows": list(rows)} | changed


class OfOps(dict):
    """Versions of whole ops, asked for by the ids of benchmarks."""

    def get(self, identity, default=None):
        return super().get(identity.partition("[")[0], default)


PRESENT = OfOps({"pirl.forward": 1, "snake.collect_and_learn": 1, "treasurehunt.act": 1})


@pytest.mark.parametrize("version", [1, 3])
def test_a_row_of_another_version_is_stale_and_its_figure_is_not_shown(version):
    old = row("onnx", 123e-6, version=version)
    text = page(results(old, row("torch", 456e-6, version=2)), versions=OfOps({"pirl.forward": 2}))
    assert "| 8 | stale | **456 us** | torch |" in text
    assert "|  |  | full | onnx | stale |  |  |  |  |" in text
    assert "123" not in text
    assert "1 of 2 benchmarks changed since what they measure" in text


def test_a_row_of_a_case_that_is_gone_is_stale():
    assert [one["stale"] for one in judged(results(row()), {})] == [True]


def test_no_stale_row_goes_into_a_ratio():
    old = {"stale": True}
    rows = [loop("naive", 1e-2) | old, loop("plain", 2e-3), loop("full", 1e-3)]
    assert cells(table_of("snake", rows)[3]) == ["**full**", "15.6 us", "stale", "2.00 (1.92-2.08)"]
    assert cells(table_of("snake", rows)[4]) == ["**naive**", "stale", "stale", "stale"]
    hunts = [
        hunt("act", "naive", "torch", 1e-9) | old,
        hunt("act", "full", "torch", 2e-6),
        hunt("act", "full", "jax", 1e-6),
    ]
    assert cells(table_of("treasurehunt", hunts)[-1])[-1] == "2.00 (1.92-2.08)"
    assert cells(table_of("treasurehunt", hunts[:1] + hunts[2:])[-1])[-1] == "stale"


def test_the_present_code_decides_what_is_stale(monkeypatch):
    real = "pirl.forward[full-torch-batch8-iohost-hidden32]"
    kept = results(row(seconds=123e-6, version=present_versions()[real], id=real))
    assert "**123 us**" in page(kept)
    monkeypatch.setattr("perf_tests.report.page.present_versions", lambda: {real: 10_000})
    assert "123" not in page(kept)


def test_default_malloc_of_another_version_does_not_count():
    one = row()
    found = {"id": one["id"], "version": 1} | malloc(2.0)
    kept = results(one, default_malloc=[found])
    assert judged(kept, PRESENT)[0]["default_malloc"] == found
    assert judged(results(one, default_malloc=[found | {"version": 2}]), PRESENT)[0]["default_malloc"] is None
    assert "10 us (20 us)" in page(kept, versions=PRESENT)


def test_uncommitted_changes_disturbances_and_rows_above_the_peak_are_said_first():
    loud = MACHINE | {"git": "abc+dirty", "loudness": {"text": "3 % of the samples were disturbed."}}
    fast = row(limit_share=1.4)
    lines = page(results(fast, machine=loud), versions=PRESENT).splitlines()[4:]
    assert lines[2] == "**The working tree had uncommitted changes: abc+dirty.**"
    assert lines[4] == "**3 % of the samples were disturbed.**"
    assert lines[6].startswith(f"**Above the machine's measured peak: {fast['id']} (140 %).")
    assert "uncommitted" not in page(results(row()), versions=PRESENT)


def test_the_head_names_the_limits_that_shares_are_of():
    assert "Limits: float32 463GFLOP/s, bfloat16 800GFLOP/s, copy 20GB/s." in page(results(row()), versions=PRESENT)


def test_forms_name_their_sources_where_the_workload_says_so(monkeypatch):
    import rl_impls.snake.knobs as knobs

    monkeypatch.setattr(knobs, "SOURCES", {"naive": "It stands for a source."}, raising=False)
    assert "\n- `naive`: It stands for a source.\n" in page(results(loop("naive", 1.0)), versions=PRESENT)


PEER = {
    "peer": "Some DQN", "version": "2.9", "case": "snake.collect_and_learn[full-torch-envs1-every4-batch32]",
    "ratio": 1.55, "low": 1.5, "high": 1.6, "n": 7, "threads": 2,
    "steps_per_second": {"ours": 3100.0, "theirs": 2000.0}, "left_out": "draws outside the clock",
}  # fmt: skip


def test_a_peer_gets_a_line_with_what_its_comparison_leaves_out():
    (kept,) = readme.renewed([], [PEER], PRESENT)
    text = page(results(loop("full", 1.0)), [kept], PRESENT)
    assert "beside Some DQN 2.9: 1.55x as fast (95 % interval 1.50 to 1.60, n = 7 processes, 2 threads" in text
    assert "ours 3.1k, theirs 2k). Left out: draws outside the clock." in text
    for others in ({"snake.collect_and_learn": 2}, {"snake.collect_and_learn": 0}, {}):
        assert "beside Some DQN 2.9: stale" in page(results(loop("full", 1.0)), [kept], OfOps(others))


def test_a_peer_that_was_not_measured_again_is_kept():
    kept = readme.renewed([], [PEER, PEER | {"peer": "Another"}], PRESENT)
    found = readme.renewed(kept, [PEER | {"ratio": 1.7}], PRESENT)
    assert [(one["peer"], one["ratio"]) for one in found] == [("Some DQN", 1.7), ("Another", 1.55)]
    with pytest.raises(ValueError, match=r"^case: got 'mario', wanted an id"):
        readme.renewed([], [PEER | {"case": "mario"}], PRESENT)


def test_notes_show_phases_lag_latencies_and_what_stayed_disturbed():
    one = loop("threaded", 1e-3, phases={"learning": 0.25, "environment": 0.75, "waiting": 0.0}, policy_lag_steps=64.0,
               latency_p50_s=1e-5, latency_p99_s=2e-5, disturbed=0.4)  # fmt: skip
    wanted = "disturbed 40 %; p50 10 us, p99 20 us; environment 75 %, learning 25 %, policy lag 64 steps"
    assert cells(op_table([one])[2])[-1] == wanted
    assert call_words(one, 64) == "1 ms, disturbed 40 %"


def test_text_table_shows_time_spread_rate_and_share_in_the_order_of_timing():
    text = text_tables([row("torch", 3e-5), row("onnx", 1e-5)])
    heading, first, second, *_ = text.splitlines()[2:]
    assert heading == "pirl.forward batch 8, io host, hidden 32 (samples/s)"
    assert first.split() == ["full", "torch", "30", "us", "2", "%", "267k/s", "50", "%"]
    assert second.split() == ["full", "onnx", "10", "us", "2", "%", "800k/s", "50", "%"]


def test_text_table_of_a_full_run_fits_80_columns_and_cuts_no_figure():
    rows = json.loads(RESULTS.read_text())["rows"]
    text = text_tables(rows)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for one in rows:
        figures = duration(one["seconds_per_call"]), f"{quantity(one['items_per_second'])}/s"
        names, share = (one["form"], one["backend"]), share_words(one["limit_share"], one["bound"])
        time, rate, share = map(re.escape, (*figures, share))
        assert re.search(rf"^  {' +'.join(names)} +{time} .* {rate} +{share}$", text, re.MULTILINE), one["id"]


def test_text_table_breaks_headings_and_notes_between_entries_alone():
    axes = {f"an_axis_of_many_letters_{number}": number for number in range(4)}
    one = row(axes=axes, form="a_form_of_many_letters", backend="a-backend-of-many-letters",
              phases={f"phase{number}": 1.0 for number in range(12)}, disturbed=0.4)  # fmt: skip
    lines = text_tables([one]).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2:5] == [
        "pirl.forward an_axis_of_many_letters_0 0, an_axis_of_many_letters_1 1,",
        "    an_axis_of_many_letters_2 2, an_axis_of_many_letters_3 3 (samples/s)",
        "  a_form_of_many_letters a-backend-of-many-letters",
    ]
    assert lines[5].split() == ["10", "us", "2", "%", "800k/s", "50", "%"]
    assert lines[6].startswith("        disturbed 40 %; phase0 8 %, ")
    assert all(line.startswith("        phase") for line in lines[7:9])
    assert all(line.endswith(("%", "%,")) for line in lines[6:9])


def test_only_what_is_shown_is_kept():
    kept = row("numpy", 1e-5)
    result = {
        "machine_info": {"system": "Linux", "rlgauge": {"cores": 2}},
        "rlgauge": {"git": "x"},
        "datetime": "2020-01-02T00:00:00",
        "benchmarks": [{"extra_info": {**kept, "counters": {}, "device": "cpu"}, "stats": {"rounds": 3}}],
    }
    assert reduce(result) == {"date": "2020-01-02", "machine": {"cores": 2, "git": "x"}, "rows": [kept]}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A README and results of its own."""
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    monkeypatch.setattr(readme, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(readme, "PEERS", tmp_path / "peers.json")
    monkeypatch.setattr(readme, "PAGES", tmp_path / "results")
    readme.PAGES.mkdir()
    readme.README.write_text(f"# A\n{START}\n{END}\n")
    real = "pirl.forward[full-torch-batch8-iohost-hidden32]"
    one = row(seconds=123e-6, version=present_versions()[real], id=real)
    readme.RESULTS.write_text(readme.as_json(results(one)))
    readme.PEERS.write_text("[]")
    return tmp_path


def test_a_new_comparison_renews_the_readme_and_keeps_the_rest(kept):
    (one,) = json.loads(readme.RESULTS.read_text())["rows"]
    (kept / "malloc.json").write_text(json.dumps([{"id": one["id"], "version": one["version"]} | malloc(2.0)]))
    (kept / "peer.json").write_text(json.dumps(PEER))
    readme.main(["--default-malloc", str(kept / "malloc.json"), "--peers", str(kept / "peer.json")])
    text = (kept / "results/a-cpu-2-cores.md").read_text()
    assert "123 us (246 us)" in text
    assert "beside Some DQN 2.9: 1.55x" in text
    assert "All 1 benchmarks: [results/a-cpu-2-cores.md](results/a-cpu-2-cores.md)." in readme.README.read_text()
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    readme.main([])
    assert before == {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}


RUN = {"datetime": "2020-01-02T00:00:00", "machine_info": {"rlgauge": MACHINE}, "benchmarks": [{"extra_info": row()}]}


def test_a_run_takes_the_place_of_the_kept_results_but_for_default_malloc(kept):
    old = json.loads(readme.RESULTS.read_text()) | {"default_malloc": []}
    readme.RESULTS.write_text(json.dumps(old))
    (kept / "run.json").write_text(json.dumps(RUN))
    readme.main([str(kept / "run.json")])
    assert json.loads(readme.RESULTS.read_text()) == reduce(RUN) | {"default_malloc": []}


@pytest.fixture
def unchanged(kept):
    """What is kept may not change."""
    before = {path: path.is_file() and path.read_text() for path in kept.rglob("*")}
    yield kept
    (kept / "bad.json").unlink(missing_ok=True)
    assert {path: path.is_file() and path.read_text() for path in kept.rglob("*")} == before


WANTED = {
    "": "the JSON of a pytest-benchmark run of this suite",
    "--default-malloc": "what perf_tests.default_malloc writes",
    "--peers": "what a peer's --json writes",
}


@pytest.mark.parametrize("option", WANTED)
@pytest.mark.parametrize(
    "content", ["", "7", '[{"id": "x"}]', "{}", json.dumps(RUN)[:-20], json.dumps(RUN | {"benchmarks": []})]
)
def test_a_file_that_is_no_result_is_refused_and_nothing_is_written(unchanged, option, content):
    (unchanged / "bad.json").write_text(content)
    with pytest.raises(SystemExit, match=rf"bad\.json: wanted {WANTED[option]}: "):
        readme.main([*filter(None, [option]), str(unchanged / "bad.json")])


@pytest.mark.parametrize("name", ["RESULTS", "PEERS", "README"])
def test_what_is_kept_and_cut_short_is_said(kept, name):
    path = getattr(readme, name)
    path.write_text(path.read_text()[:-3])
    with pytest.raises(SystemExit, match=path.name):
        readme.main([])


def test_on_a_full_disk_nothing_is_written(unchanged, monkeypatch):
    asked = []

    def allocate(handle, start, room):
        asked.append(room)
        if len(asked) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    with pytest.raises(SystemExit, match=rf"^{readme.README}: cannot be written: No space left on device$"):
        readme.main([])
    assert asked[0] == readme.RESULTS.stat().st_size


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quantity(1234), "1.23k"),
        (quantity(12.3e6), "12.3M"),
        (quantity(2.5), "2.5"),
        (duration(2e-6), "2 us"),
        (duration(0.0123), "12.3 ms"),
        (duration(2), "2 s"),
        (factor(1.5), "1.50"),
        (factor(0.0223), "0.022"),
        (factor(12.34), "12.3"),
        (ratio_words(Span(1.02, 0.97, 1.08)), "1.02 (0.97-1.08): not told apart"),
    ],
)
def test_figures_have_three_digits_and_a_unit(shown, wanted):
    assert shown == wanted


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quantity(999.0), "999"), (quantity(1000.0), "1k"), (quantity(1e6), "1M"), (quantity(2.34e9), "2.34G"),
        (duration(1.0), "1 s"), (duration(0.9994), "999 ms"), (duration(1e-3), "1 ms"), (duration(9.99e-4), "999 us"),
        (percent(0.1), "10 %"), (percent(0.0994), "9.9 %"), (percent(0.00013), "0.013 %"), (percent(1.4), "140 %"),
        (factor(0.1), "0.10"), (factor(0.0994), "0.099"), (factor(9.99), "9.99"), (factor(10.0), "10"),
        (factor(1234.0), "1.23e+03"), (ratio_words(Span(2.0, 1.5, 3.0)), "2.00 (1.50-3.00)"),
        (ratio_words(Span(0.9, 0.8, 1.0)), "0.90 (0.80-1.00): not told apart"),
    ],
)  # fmt: skip
def test_figures_at_the_ends_of_their_units(shown, wanted):
    assert shown == wanted


def test_a_loop_tells_its_phases_longest_first_without_those_that_are_nothing():
    one = row(phases={"a": 1.0, "b": 94.5, "c": 4.0, "d": 0.5}, latency_p50_s=1e-3, latency_p99_s=2.0)
    assert notes(one) == "p50 1 ms, p99 2 s; b 94 %, c 4 %, a 1 %"
    assert notes(row(policy_lag_steps=2.0)) == "policy lag 2 steps"
    assert notes(row()) == ""
    assert notes(row(limit_share=1.03)) == "above the measured peak"
    assert notes(row(limit_share=1.03, bound="bytes")) == ""
    assert notes(row(disturbed=0.05, default_malloc=malloc(2.0))) == "disturbed 5 %; default malloc: 20 us"


def test_a_row_of_one_sample_has_no_interval():
    assert [figures(row(samples=samples))[1] for samples in (1, 2)] == ["", "2 %"]


def test_the_name_of_an_op_stands_in_its_first_row_alone():
    rows = [row("torch", 3e-5), row("onnx", 1e-5), row("jax", 1e-6, stale=True)]
    ((first, *others),) = lines(rows)
    assert first[:4] == ["pirl.forward batch 8, io host, hidden 32", "1", "full", "onnx"]
    assert [one[:4] for one in others] == [["", "2", "full", "torch"], ["", "", "full", "jax"]]
    assert others[-1][4:] == ["stale", "", "", "", ""]


def test_times_of_other_numbers_of_items_are_as_many_times_as_long():
    one = row(count=8, seconds=1e-5, default_malloc=malloc(2.0), disturbed=0.2)
    assert call_words(one, 16) == "20 us (40 us), disturbed 20 %"


def test_all_that_pages_show_is_kept_of_a_run():
    kept = {name: f"its {name}" for name in readme.KEPT} | {"axes": {"batch": 8}}
    run = {"datetime": "2020-01-02T03:04:05", "machine_info": {"rlgauge": {}}, "benchmarks": [{"extra_info": kept}]}
    assert reduce(run)["rows"] == [kept]
    shown_too = {"passes", "phases", "policy_lag_steps", "latency_p50_s", "latency_p99_s", "limit_share", "bound"}
    assert shown_too < kept.keys()


def test_what_is_given_takes_the_place_of_its_own_part_alone():
    kept, peers, found = {"rows": [1], "default_malloc": [2]}, [3], malloc(2.0) | {"id": "x", "version": 1}
    assert readme.with_memory([found], kept, peers) == ({"rows": [1], "default_malloc": [found]}, peers)
    run = {"datetime": "2020-01-02T00", "machine_info": {"rlgauge": MACHINE}, "benchmarks": [{"extra_info": row()}]}
    results_of, peers_of = readme.with_run(run, kept, peers)
    assert (results_of["default_malloc"], results_of["rows"], peers_of) == ([2], [row()], peers)
    assert readme.with_run(run, {}, peers)[0]["default_malloc"] == []


def test_comparisons_are_given_one_or_several_at_once(monkeypatch):
    monkeypatch.setattr(readme, "present_versions", lambda: {PEER["case"]: 5})
    other = PEER | {"peer": "Another"}
    for given, names in ((PEER, ["Some DQN"]), ([PEER, other], ["Some DQN", "Another"])):
        results_of, peers_of = readme.with_peers(given, {"rows": []}, [])
        assert results_of == {"rows": []}
        assert [(one["peer"], one["case_version"]) for one in peers_of] == [(name, 5) for name in names]


def test_only_the_first_place_between_its_markers_is_renewed():
    text = f"{END} a {START} old {END} b {START} c {END}"
    assert insert(text, START, END, "new") == f"{END} a {START}\nnew\n{END} b {START} c {END}"
    for cut in (f"a {END}", f"a {START}", f"{END} {START}"):
        with pytest.raises(ValueError, match="wanted the markers"):
            insert(cut, START, END, "new")


def test_the_head_says_how_many_samples_and_how_wide_and_the_memory_how_many_blocks():
    rows = [row("torch", 1e-5, width=0.01, samples=9), row("onnx", 2e-5, width=0.03, samples=15),
            row("jax", 3e-5, width=0.02, samples=12)]  # fmt: skip
    for number, one in enumerate(rows):
        one["default_malloc"] = {"id": one["id"], "version": 1, **malloc(1.5), "n": (8, 8, 6)[number]}
    kept = results(*rows, default_malloc=[one["default_malloc"] for one in rows])
    text = page(kept, versions=PRESENT)
    assert (
        "Medians of 9-15 samples; the interval of a benchmark is 2.0 % to either side (median over 3 benchmarks)"
        in text
    )
    assert "3 of the benchmarks were timed both ways" in text
    assert "(n = 6 or 8 blocks of four); where that makes more than 10 % of difference" in text
    assert "Medians of 9 samples;" in page(results(rows[0]), versions=PRESENT)
    assert "timed both ways" not in page(results(rows[0]), versions=PRESENT)


def test_a_machine_is_named_by_its_processor_vectors_and_cores():
    assert name_of({"cpu_model": "AMD EPYC (R) 7", "vectors": "avx2", "cores": 2}) == "amd-epyc-r-7-avx2-2-cores"
    assert name_of({"cpu_model": "a CPU", "cores": 16}) == "a-cpu-16-cores"


def test_every_workload_has_its_rows_in_a_section_of_its_own():
    text = page(results(row(), loop("full", 1.0), row("onnx")), versions=PRESENT)
    heads = [line for line in text.splitlines() if line.startswith("<details>")]
    assert heads == [f"<details><summary><b>{name}, all ops</b></summary>" for name in ("pirl", "snake")]
    pirl_part, _, snake_part = text.partition("<b>snake, all ops</b>")
    assert "snake.collect_and_learn" in snake_part
    assert "pirl.forward" not in snake_part
    assert pirl_part.count("`pirl.forward batch 8, io host, hidden 32`") == 1
