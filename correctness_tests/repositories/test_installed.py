"""Projects of the repository that are installed as copies."""

from pathlib import Path

import pytest

from rlgauge.benchmarks.installed import copied_projects

from .made import dist_info

PYPROJECT = "pyproject.toml", '[project]\nname = "core"\n'


@pytest.mark.parametrize(
    ("url", "name", "text"),
    [
        (None, *PYPROJECT), ("dist/core-1-py3-none-any.whl", *PYPROJECT), ("my libs/core", *PYPROJECT),
        ("my libs/core", "setup.py", "import setuptools\n\nsetuptools.setup(**made())\n"),  # without its name
    ],
)  # fmt: skip
def test_a_project_that_is_installed_as_a_copy_is_found_wherever_it_was_installed_from(
    tmp_path, monkeypatch, url, name, text
):
    project, site = tmp_path / "my libs/core", tmp_path / "site"
    record = {"url": (tmp_path / url).as_uri()} if url else {}
    for file, content in {str(project / name): text, **dist_info(site, "core", "core/__init__.py", **record)}.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(content)
    monkeypatch.syspath_prepend(site)
    assert copied_projects(tmp_path, [project]) == ([project], {"core": project})
