"""Hooks of MkDocs: pages from files outside ``docs``, the command line's help, and links that work in both places."""

import os
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
OUTSIDE |= {f"results/{path.name}": f"results/{path.name}" for path in sorted(ROOT.glob("results/*.md"))}
COMMANDS = ("gate", "compare", "rank", "history", "history show", "bisect", "power", "merge", "replay", "demo")


def page_of(path):
    """Return the site's page or picture for a file of the repository, or None if it has none."""
    if path.startswith("docs/") and path.endswith((".md", ".svg")):
        return path.removeprefix("docs/")
    return OUTSIDE.get(path)


def with_links(text, source, repository):
    """Rewrite the links of `source`, a path in the repository, for its page; `repository` is its address, if known."""

    def link(found):
        words, target, anchor = found.groups()
        if re.match("[a-z]+:", target):
            return found[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))
        page = page_of(path)
        if page:
            start = os.path.dirname(page_of(source))
            return f"[{words}]({os.path.relpath(page, start or '.')}{anchor or ''})"
        return f"[{words}]({repository}/blob/main/{path})" if repository else words

    return re.sub(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)", link, text)


def options():
    """Return the page of all commands and options, from their help."""
    text = "# Command line\n\nEvery command prints its options with `--help`.\n"
    for command in COMMANDS:
        words = [sys.executable, "-m", "rlgauge", *command.split(), "--help"]
        text += f"\n## rlgauge {command}\n\n```text\n{output_of(words)}```\n"
    found = output_of(
        [
            sys.executable,
            "-m",
            "pytest",
            "--confcutdir",
            sys.prefix,
            "--rootdir",
            sys.prefix,
            "-c",
            os.devnull,
            "--help",
        ]
    )
    section = found[found.index("rlgauge gate:") :].split("\n\n")[0]
    return f"{text}\n## pytest\n\n```text\n{section}\n```\n"


def output_of(command):
    """Return the output of a command at 100 columns."""
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(command, cwd=sys.prefix, env=environment, check=True, capture_output=True, text=True).stdout


def on_files(files, config):
    """Add the pages from outside of ``docs`` and the page of options."""
    for source, page in OUTSIDE.items():
        text = re.sub(r"^\[!\[.*\n", "", (ROOT / source).read_text(), flags=re.M)  # badges: their links work on GitHub
        text = with_links(text, source, config.repo_url)
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference/options.md", content=options()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrite the links of a page that is in ``docs``."""
    if page.file.generated_by:
        return markdown
    return with_links(markdown, f"docs/{page.file.src_uri}", config.repo_url)
