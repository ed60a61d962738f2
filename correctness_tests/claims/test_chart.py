"""The chart of verdicts: complete, and readable at its width in both colour schemes."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from perf_tests.claims.chart import BAR, svg

from .toy import row

LETTER = 7.5  # px: more than a letter of 13 px takes on average
WORDS = [*["holds"] * 12, "partly", "not met", "unclear", "refuted", "error", "needs a GPU"]
ROWS = [
    *(row(verdict=word) for word in WORDS),
    row(verdict="partly") | {"workload": "treasurehunt"},
    row(verdict="measured") | {"workload": "mario", "least": None},
]


def shapes(name, rows=ROWS):
    return list(ElementTree.fromstring(svg(rows)).iter(f"{{http://www.w3.org/2000/svg}}{name}"))


def test_each_verdict_on_a_published_figure_is_counted_once_beside_its_workload():
    lines = {}
    for text in shapes("text"):
        lines.setdefault(text.get("y"), []).append(text.text)
    counted = {words[0]: words[1:] for words in lines.values() if words[0] in ("snake", "treasurehunt", "mario")}
    assert counted == {"snake": ["12", "1", "1", "1", "1", "1"], "treasurehunt": ["1"]}


def test_the_legend_has_only_verdicts_that_occur():
    texts = [text.text for text in shapes("text", [row(verdict="holds"), row(verdict="refuted")])]
    assert texts[-2:] == ["holds", "refuted"]
    assert not {"unclear", "not met", "holds partly", "failed"} & set(texts)


def test_everything_fits_in_400_px():
    (picture,) = shapes("svg")
    assert picture.get("width") == "400"
    for text in shapes("text"):
        half = 2 if text.get("text-anchor") == "middle" else 1
        assert float(text.get("x")) + LETTER * len(text.text) / half <= 400, text.text
    for bar in shapes("rect"):
        assert float(bar.get("x", 0)) + float(bar.get("width")) <= 400
        assert float(bar.get("y", 0)) + float(bar.get("height")) <= float(picture.get("height"))


def test_a_bar_begins_where_the_one_before_it_ends_however_narrow_that_is():
    many = shapes("rect", [row(verdict=word) for word in [*["holds"] * 60, "partly", "refuted"]])
    bars = [(float(bar.get("x")), float(bar.get("width"))) for bar in many if bar.get("height") == str(BAR)]
    starts = [bars[0][0]] + [x + width + 1 for x, width in bars]  # with a gap of 1 px
    assert [x for x, _ in bars] == pytest.approx(starts[:3], abs=0.2)


def test_a_dark_scheme_changes_every_colour():
    (style,) = (each.text for each in shapes("style"))
    light, dark = (dict(re.findall(r"([\w.]+)\{fill:(#\w+)\}", part)) for part in style.split("@media"))
    assert light.keys() == dark.keys()
    assert {"text", ".paper", ".bar0", ".ink0"} <= light.keys()
    assert all(light[name] != dark[name] for name in light)
