"""The pages that ASV publishes, as a reader without a network sees them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
import shutil
import subprocess
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import asv
import pytest
from asv import util
from asv.results import Results
from asv.runner import BENCHMARK_RUN_SCRIPT, BenchmarkResult

from perf_tests.asv import existing
from perf_tests.asv_demo import NAME, demonstrate
from perf_tests.offline import COPIES, FOLDER, pack
from perf_tests.suite import asv_cases

from .commands import ROOT, environment, python
from .waiting import limit

COPIED = json.loads((COPIES / "list.json").read_text())
WHO = ("-c", "user.name=A User", "-c", "user.email=user@localhost", "-c", "commit.gpgsign=false")
BROWSERS = ("chromium", "google-chrome")
SECONDS = 1e-3  # what the first combination of an op takes; each further one takes as much more
limited = limit("a browser")


@pytest.mark.parametrize("copy", COPIED, ids=lambda copy: copy["file"])
def test_a_copy_is_what_its_line_says(copy):
    content = (COPIES / copy["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == copy["sha256"]
    kind, _, digest = copy["integrity"].partition("-")
    asked_for = base64.b64encode(hashlib.new(kind, content).digest()).decode() == digest
    assert asked_for == ("instead_of" not in copy)
    assert copy["name"]
    assert copy["version"]
    assert copy["licence"] == "MIT"
    assert "Permission is hereby granted" in (COPIES / copy["licence_text"]).read_text()


def test_the_list_names_every_copy():
    listed = {"list.json", *(copy["file"] for copy in COPIED), *(copy["licence_text"] for copy in COPIED)}
    assert {str(path.relative_to(COPIES)) for path in COPIES.rglob("*") if path.is_file()} == listed


@pytest.fixture
def own(tmp_path):
    """The pages of the ASV that is installed, as it copies them before it adds results."""
    return shutil.copytree(f"{asv.__path__[0]}/www", tmp_path / "www")


def test_pages_are_packed_with_all_that_they_load(own):
    pack(own)
    page = (own / "index.html").read_text()
    loaded = set(re.findall(r'<(?:script|link)[^>]*\s(?:src|href)="([^"]*)"', page))
    assert {name for name in loaded if "/" in name} == {f"{FOLDER}/{copy['file']}" for copy in COPIED}
    assert all((own / name).is_file() for name in loaded - {"regressions.xml"})  # which publishing writes
    assert "integrity" not in page
    pack(own)
    assert (own / "index.html").read_text() == page


@pytest.mark.parametrize(
    ("file", "text", "address"),
    [
        ("index.html", '<script src="https://host/new.js" integrity="sha256-x"></script>', "https://host/new.js"),
        ("index.html", "<link rel=stylesheet href='//host/a.css'>", "//host/a.css"),
        ("index.html", '<img alt="" src=http://host/a.png>', "http://host/a.png"),
        ("more.css", "@import 'https://host/b.css';", "https://host/b.css"),
        ("more.css", "a {background: url(https://host/c.png)}", "https://host/c.png"),
        ("graphs/deep.css", "a {background: url(https://host/d.png)}", "https://host/d.png"),
    ],
)
def test_a_page_that_loads_what_has_no_copy_is_an_error(own, file, text, address):
    (own / file).parent.mkdir(exist_ok=True)
    with (own / file).open("a") as page:
        page.write(text)
    with pytest.raises(ValueError, match=re.escape(f"www: loads {address}, wanted copies of all in asv_pages")):
        pack(own)


def results_of(folder, benchmarks, commits):
    """Write what a machine named box would have measured of some commits."""
    util.write_json(str(folder / "benchmarks.json"), benchmarks, 2)
    util.write_json(str(folder / "box" / "machine.json"), {"machine": "box"}, 1)
    exists = re.compile(existing())
    for count, commit in enumerate(commits, start=1):
        results = Results({"machine": "box"}, {}, commit, 1_600_000_000_000 + count * 10**9, "3.11", "env", {})
        for name, benchmark in benchmarks.items():
            calls = [f"{name}({', '.join(values)})" for values in itertools.product(*benchmark["params"])]
            taken = [count * (1 + i) * SECONDS if exists.search(call) else math.nan for i, call in enumerate(calls)]
            nothing = [None] * len(taken)
            results.add_result(benchmark, BenchmarkResult(taken, nothing, nothing, 0, "", None))
        results.save(str(folder))


def git(folder, *arguments):
    """Return what a git command prints."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The packed pages of two commits of a tiny repository, of this one's benchmarks; and their names."""
    folder = tmp_path_factory.mktemp("asv")
    discover = [BENCHMARK_RUN_SCRIPT, "discover", "perf_tests/suite", folder / "found.json"]
    assert python(*discover).returncode == 0
    benchmarks = {found["name"]: found for found in json.loads((folder / "found.json").read_text())}
    git(folder, "init", "--quiet")
    for name in "ab":
        git(folder, *WHO, "commit", "--quiet", "--allow-empty", "-m", name)
    results_of(folder / ".asv" / "results", benchmarks, git(folder, "log", "--reverse", "--format=%H").split())
    shutil.copy(ROOT / "asv.conf.json", folder)
    done = python("-m", "asv", "publish", "--no-pull", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = folder / ".asv" / "html"
    pack(pages)
    return pages, sorted(benchmarks)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@contextmanager
def served(folder):
    """Yield the address of a server of a folder, for this machine only."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for which no host but this machine has a name, and which writes nowhere but here."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.fail("no browser: apt-get install chromium", pytrace=False)
    with sync_playwright() as driver:
        alone = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        home = environment(HOME=str(tmp_path_factory.mktemp("home")))
        with closing(driver.chromium.launch(executable_path=path, args=alone, env=home)) as browser:
            yield browser


@pytest.fixture
def page(browser):
    """A page that asks nobody else for anything, and makes no mistake."""
    asked, mistakes = [], []
    with closing(browser.new_page()) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda mistake: mistakes.append(mistake))
        yield page
        ended = page.url
    assert {urlsplit(address).hostname for address in asked} <= {"127.0.0.1"}
    assert mistakes == [] or ended.endswith("/error.html")  # without one script, those after it fail


def texts(page, selector):
    """Return what the elements say, in the order of the page."""
    return [element.inner_text() for element in page.query_selector_all(selector)]


@pytest.mark.slow
def test_the_grid_lists_every_benchmark(published, page):
    pages, names = published
    with served(pages) as site:
        page.goto(site)
        page.wait_for_selector(".benchmark-plot canvas")
        shown = page.eval_on_selector_all("#summarygrid-display a", "links => links.map(link => link.hash.slice(1))")
        styled = page.eval_on_selector("#nav", "nav => getComputedStyle(nav).position")
    assert sorted(shown) == names
    assert styled == "fixed"


@pytest.mark.slow
def test_a_graph_draws_what_was_measured_by_form_and_backend(published, page):
    curves = (
        "$('#main-graph').data('plot').getData().filter(curve => curve.data.some(point => point[1] !== null)).length"
    )
    with served(published[0]) as site:
        page.goto(f"{site}/#pirl.train_step.time_sample")
        page.wait_for_selector("#main-graph canvas")
        panels = "#graphdisplay-navigation-params .panel"
        assert texts(page, f"{panels}-heading") == ["x-axis", "form", "backend", "batch", "order"]
        assert texts(page, f"{panels}:nth-child(2) a") == ["naive", "full"]
        assert texts(page, f"{panels}:nth-child(3) a") == ["torch", "torch-compile", "jax"]
        gated = list(asv_cases.PirlTrainStep.ids)
        assert page.evaluate(curves) == len(gated)
        drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
        assert page.eval_on_selector("#main-graph canvas.flot-base", drawn)
        page.click(f"{panels}:nth-child(3) a:has-text('jax')")
        page.wait_for_function(f"{curves} == {sum(backend != 'jax' for _, backend, *_ in gated)}")


@pytest.mark.slow
def test_the_list_is_sorted_by_its_head(published, page):
    with served(published[0]) as site:
        page.goto(f"{site}/#/summarylist")
        page.wait_for_selector("#summarylist-body tbody tr")
        before = texts(page, "#summarylist-body tbody tr")
        page.click("#summarylist-body th >> nth=0")
        first = "wanted => document.querySelector('#summarylist-body tbody tr').innerText.trim() === wanted"
        page.wait_for_function(first, arg=before[-1].strip())
        assert texts(page, "#summarylist-body tbody tr") == before[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("missing", [copy["file"] for copy in COPIED if copy["file"].endswith(".js")])
def test_pages_that_lack_a_script_do_not_open(published, page, tmp_path, missing):
    pages = shutil.copytree(published[0], tmp_path / "html")
    (pages / FOLDER / missing).unlink()
    with served(pages) as site:
        page.goto(site)
        page.wait_for_url(f"{site}/error.html")


@pytest.mark.alone
@pytest.mark.parametrize("flat", [False, True], ids=["slowed", "flat"])
def test_the_regression_page_names_the_commit_that_was_slowed(page, tmp_path, flat):
    demo = demonstrate(tmp_path, flat)
    with served(demo.pages) as site:
        page.goto(f"{site}/#/regressions")
        page.wait_for_selector("#regressions-body table")
        shown = texts(page, "#regressions-body table tbody tr")
    if flat:
        assert shown == []
    else:
        (row,) = shown
        assert NAME in row
        assert demo.planted[:8] in row
