"""Pages that load copies: which tags are changed and how, what is still loaded from elsewhere."""

from __future__ import annotations

import json

import pytest

from perf_tests import offline

KNOWN = {"sha256-a": "a.js", "sha256-b": "b.css"}


@pytest.mark.parametrize(
    ("tag", "packed"),
    [
        (
            '<script src="https://host/a.min.js" integrity="sha256-a" crossorigin="anonymous"></script>',
            '<script src="packed/a.js"></script>',
        ),
        (
            '<link rel="stylesheet" href="https://host/b.css" integrity="sha256-b" referrerpolicy="no-referrer"/>',
            '<link rel="stylesheet" href="packed/b.css"/>',
        ),
        (
            '<script integrity="sha256-a" src="https://host/a.js" defer></script>',
            '<script src="packed/a.js" defer></script>',
        ),
        *((same, same) for same in (
            '<script src="https://host/c.js" integrity="sha256-c" crossorigin="anonymous"></script>',
            '<script src="own.js" crossorigin="anonymous"></script>',
            '<img src="https://host/a.js" integrity="sha256-a">',
        )),
    ],
)  # fmt: skip
def test_a_tag_loads_the_copy_of_its_hash_and_says_nothing_of_the_host(tag, packed):
    assert offline.ASKING.sub(lambda found: offline.local(found, KNOWN), f"x{tag}y{tag}z") == f"x{packed}y{packed}z"


def test_copies_are_put_beside_pages_and_only_pages_are_changed(monkeypatch, tmp_path):
    copies, pages = tmp_path / "copies", tmp_path / "pages"
    (copies / "licences").mkdir(parents=True)
    (copies / "list.json").write_text(json.dumps([{"integrity": "sha256-a", "file": "a.js"}]))
    (copies / "a.js").write_text("copied")
    (copies / "licences/a.txt").write_text("MIT")
    (pages / "packed").mkdir(parents=True)
    (pages / "packed/old.js").write_text("old")
    tag = '<script src="https://host/a.js" integrity="sha256-a"></script>'
    for name in ("one.html", "two.html", "notes.txt"):
        (pages / name).write_text(tag)
    monkeypatch.setattr(offline, "COPIES", copies)
    offline.pack(pages)
    assert [(pages / name).read_text() for name in ("one.html", "two.html", "notes.txt")] == [
        '<script src="packed/a.js"></script>', '<script src="packed/a.js"></script>', tag,
    ]  # fmt: skip
    assert (pages / "packed/a.js").read_text() == "copied"
    assert sorted(path.name for path in (pages / "packed").iterdir()) == ["a.js", "licences", "list.json", "old.js"]


def test_what_is_loaded_from_elsewhere_is_found_in_pages_and_styles_and_links_are_not(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.html").write_text(
        '<a href="https://host/click">x</a><IMG src="https://host/1"><object data=//host/2 ><p src="/own"></p>'
    )
    (tmp_path / "deep/a.html").write_text('<link rel="x" href="https://host/3">')
    (tmp_path / "deep/s.css").write_text(
        "@import \"https://host/4\"; a {background: url('//host/5')} b {c: url(own.png)}"
    )
    (tmp_path / "s.js").write_text('<img src="https://host/6">')
    assert list(offline.elsewhere(tmp_path)) == [
        "https://host/1", "//host/2", "https://host/3", "https://host/4", "//host/5",
    ]  # fmt: skip


def test_all_that_lacks_a_copy_is_named(monkeypatch, tmp_path):
    (tmp_path / "a.html").write_text('<img src="https://host/1"><img src="https://host/2">')
    with pytest.raises(ValueError, match=r": loads https://host/1, https://host/2, wanted copies of all in asv_pages$"):
        offline.pack(tmp_path)
