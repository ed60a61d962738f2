"""Documentation: every link works, every command exists, and those marked as runnable run."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .commands import ROOT, environment

PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "CODE_OF_CONDUCT", "SECURITY")]
PAGES += sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("results/*.md"), ROOT / "workloads/README.md"])
RUNNABLE = "<!-- runnable -->"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
GATE = set(re.findall(r"add_command\(\s*\"(\w+)", (ROOT / "rlgauge/__main__.py").read_text()))


def blocks(page, mark=""):
    """Return the commands in a page's code blocks without a language; with a mark, only in those below it."""
    found, fence, last = [], None, ""
    for line in page.read_text().splitlines():
        if line.strip().startswith("```"):
            fence = None if fence is not None else (line.strip() == "```" and last.startswith(mark))
        elif fence:
            found.append(line.partition(" #")[0].strip())
        last = line.strip()
    return found


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


def is_command(words):
    if words[0] == "make":
        return words[1] in TARGETS
    if words[:2] == ["python", "-m"]:
        return find_spec(words[2]) is not None
    if words[0] == "rlgauge":
        return words[1] in GATE
    return words[0] == "pytest"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        assert not name.startswith(("http", "/")), target
        name = re.sub(r"^\.\./\.\./actions/(.*\.yml)(/badge\.svg.*)?$", r".github/\1", name)  # a badge on GitHub
        file = (page.parent / name).resolve() if name else page
        assert file.is_file(), target
        assert not anchor or anchor in anchors(file), target


def test_every_page_can_be_reached_from_the_readme():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        names = re.findall(r"\]\(([^)#]+\.md)", page.read_text())
        left += [file for name in names if (file := (page.parent / name).resolve()) not in reached]
    assert reached == set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page):
    for command in blocks(page):
        words = shlex.split(command)
        if words and words[0] in ("make", "python", "pytest", "rlgauge"):
            assert is_command(words), command


MARKED = [command for page in PAGES for command in blocks(page, RUNNABLE)]


@pytest.mark.parametrize("command", MARKED)
def test_runnable_commands_run(command):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        shlex.split(command), cwd=ROOT, env=environment(PATH=path), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
