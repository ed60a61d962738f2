"""The report in a browser: offline, on a desktop and a phone, in light and dark colours."""

import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict, replace

import pytest

from correctness_tests.repositories.entries import over
from perf_tests.report.html import over_commits
from perf_tests.report.html.__main__ import main
from perf_tests.report.html.browser import BROWSERS, DRAWN, opened
from rlgauge.history import in_order

from .made_up import artifact, claims, context, foreign, foreign_result, ours, result, write

pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1400, "height": 900}}
LOOPS = {"phases": {"environment": 2e-4, "learning": 6e-4}}


def measured(threads):
    found = [
        ours(
            form=form, backend=backend, seconds=batch * factor * 1e-5 * threads, axes={"batch": batch}, threads=threads
        )
        for batch in (1, 32, 1024)
        for form, factor in (("naive", 8), ("full", 2), ("only_relu", 4))
        for backend in ("torch", "jax", "numpy")
    ]
    loops = [ours("collect", form, backend, **LOOPS) for form in ("naive", "full") for backend in ("torch", "jax")]
    return result([*found, *loops, ours("act", workload="snake")], threads)


def history():
    """Return the history of a case over this repository's last commits, slower from the fourth on."""
    anchor, *commits = in_order(over_commits.ROOT)[-7:]
    made = zip(over([0.0, 0.0, 0.0, 0.1, 0.1, 0.1]), commits, strict=True)
    name = "perf_tests/test_pirl.py::test_act[full-numpy-32]"
    entries = [replace(one, case=name, commit=commit, anchor=anchor) for one, commit in made]
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)


@pytest.fixture(scope="module", autouse=True)
def browser():
    if not any(map(shutil.which, BROWSERS)):
        pytest.fail("no browser: apt-get install chromium", pytrace=False)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Write a page with data in every chapter; return its path."""
    folder = tmp_path_factory.mktemp("report")
    runs = [write(folder, f"{threads}.json", measured(threads)) for threads in (2, 1)]
    tests = {"base": "test_forward[naive-torch-1-host-32]", "change": "test_forward[full-torch-1-host-32]"}
    ledger = claims(context(**tests), context(5.0, "holds", context="from full", **tests), workload="pirl")
    given = ["--claims", write(folder, "claims.json", ledger)]
    given += ["--gate", write(folder, "gate.json", artifact().to_json())]
    given += ["--history", write(folder, "history.jsonl", history())]
    page = folder / "page.html"
    main([*map(str, runs), *map(str, given), "--output", str(page)])
    return page


@contextmanager
def reading(path, **context):
    """Yield a page once it is drawn; afterwards check that it made no request and logged no error."""
    requests, errors = [], []
    with opened(**context) as page:
        page.route("**/*", lambda route: route.continue_() if route.request.url == path.as_uri() else route.abort())
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda mistake: errors.append(str(mistake)))
        page.on("console", lambda line: errors.append(line.text) if line.type in ("error", "warning") else None)
        page.goto(path.as_uri())
        page.wait_for_selector(DRAWN, state="attached")
        yield page
    assert requests == [path.as_uri()]
    assert errors == []


def traces(page, chapter):
    return page.eval_on_selector(f"[data-plot={chapter}]", "plot => plot.data.map(trace => trace.name)")


CHAPTERS = ("scaling", "limit", "options", "phases", "threads", "claims", "gate", "history")


def test_every_plot_is_drawn_without_a_network(page_file):
    with reading(page_file) as page:
        for chapter in CHAPTERS:
            assert traces(page, chapter), chapter
            assert page.locator(f"[data-plot={chapter}] .main-svg").count(), chapter
        assert "2 threads take" in page.inner_text("#threads")
        assert "failed" in page.inner_text("#gate")
        assert traces(page, "history") == ["commits", "steps"]
        assert page.eval_on_selector("[data-plot=history]", "plot => plot.data[1].x") == [3]


def test_a_backend_that_is_switched_off_is_drawn_nowhere(page_file):
    with reading(page_file) as page:
        before = traces(page, "scaling")
        button = page.locator("#backends button", has_text="jax")
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        assert traces(page, "scaling") == [name for name in before if "jax" not in name] != before
        assert "jax" not in traces(page, "limit")
        button.click()
        assert traces(page, "scaling") == before


def colors(page, chapter):
    """Return the colours of a plot's points and bars as rgb(...), except neutral ones."""
    return set(page.eval_on_selector(f"[data-plot={chapter}]", """plot => {
        const rgb = (color) => Object.assign(document.createElement("i"), { style: `color: ${color}` }).style.color;
        const neutral = ["--ink", "--quiet"].map((name) =>
            rgb(getComputedStyle(document.documentElement).getPropertyValue(name)));
        const found = plot.hidden ? [] : plot.data.flatMap((trace) => [trace.marker.color].flat().map(rgb));
        return found.filter((color) => !neutral.includes(color));
    }"""))  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_recommendation_is_on_the_first_screen(page_file, device, scheme):
    width, height = device["viewport"].values()
    with reading(page_file, color_scheme=scheme, **device) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        card, plot = page.locator("section").first, page.locator(".plot").first.bounding_box()
        box = card.bounding_box()
        assert card.get_attribute("id") == "recommended"
        assert "Use full torch" in card.inner_text()
        assert box["y"] + box["height"] <= height
        assert box["y"] + box["height"] <= plot["y"]
        page.evaluate("scrollTo(0, 2000)")
        assert 0 <= page.locator("#backends").bounding_box()["y"] < 120


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_backend_has_one_colour_in_all_plots(page_file, scheme):
    background = "all => all.map(one => getComputedStyle(one).backgroundColor)"
    with reading(page_file, color_scheme=scheme) as page:
        buttons, legend = page.locator("#backends button"), page.eval_on_selector_all("#backends .swatch", background)
        assert len(set(legend)) == len(legend) == 3
        for chapter in ("claims", "gate", "history"):
            assert not colors(page, chapter) & set(legend), chapter
        for k, color in enumerate(legend):
            others = [n for n in range(len(legend)) if n != k]
            for n in others:
                buttons.nth(n).click()
            for chapter in ("scaling", "limit", "options", "phases", "threads"):
                assert colors(page, chapter) <= {color}, chapter
            assert colors(page, "scaling") == {color}
            for n in others:
                buttons.nth(n).click()


def test_workloads_filter_all_plots_and_tables(page_file):
    with reading(page_file, **DESKTOP) as page:
        assert page.eval_on_selector("[data-plot=scaling]", "plot => plot.layout.xaxis.ticktext") == ["1", "32", "1024"]
        page.locator("#workloads button", has_text="snake").click()
        assert traces(page, "scaling") == ["torch"]
        assert page.inner_text("#recommended").count("snake.act") == 1
        assert "pirl" not in page.inner_text("#recommended")
        assert page.locator("#every summary:visible").all_inner_texts() == ["snake: 1 benchmark"]
        for chapter in ("options", "phases", "claims", "history"):
            card = page.locator(f"#{chapter}")
            assert " for snake here; make " in card.inner_text(), chapter
            assert card.bounding_box()["height"] < 60, chapter


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_tables_fit_a_desktop_and_only_they_scroll_sideways_on_a_phone(page_file, device):
    width = device["viewport"]["width"]
    with reading(page_file, **device) as page:
        page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
        page.locator("[data-table=history] tbody tr").first.wait_for()
        wide = page.eval_on_selector_all(".wide", "all => all.map(one => [one.scrollWidth, one.clientWidth])")
        assert any(scrolled > shown for scrolled, shown in wide) == (device is PHONE)
        plots = page.eval_on_selector_all("[data-plot]", "all => all.map(one => one.scrollWidth)")
        shown = [page.evaluate("document.documentElement.scrollWidth"), *plots, *(shown for _, shown in wide)]
        assert max(shown) <= width


def test_plots_and_page_follow_a_dark_colour_scheme(page_file):
    drawn = "plot => [plot.layout.font.color, plot.data[0].marker.color]"
    found = {}
    for scheme in ("light", "dark"):
        with reading(page_file, color_scheme=scheme) as page:
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            found[scheme] = sum(map(int, paper[4:-1].split(","))), page.eval_on_selector("[data-plot=scaling]", drawn)
    assert found["light"][0] > 3 * 200
    assert found["dark"][0] < 3 * 60
    assert all(one != other for one, other in zip(found["light"][1], found["dark"][1]))


def test_another_suites_result_is_drawn(tmp_path):
    found = [foreign("test_sort", n * 1e-5, n=n, how=how) for n in (10, 100) for how in ("heap", "quick")]
    page = tmp_path / "page.html"
    main([str(write(tmp_path, "a.json", foreign_result(found))), "--output", str(page)])
    with reading(page, **PHONE) as opened_page:
        assert traces(opened_page, "scaling") == ["heap", "quick"]
        assert opened_page.evaluate("document.documentElement.scrollWidth") == 390


def test_png_is_a_picture_of_the_top_of_the_page(tmp_path):
    picture = tmp_path / "report.png"
    given = [str(write(tmp_path, "a.json", measured(2))), "--output", str(tmp_path / "page.html")]
    main([*given, "--png", str(picture)])
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert int.from_bytes(head[16:20]) > 1500
