"""Projects of the repository that are installed as copies."""

import json

import pytest

from rlgauge.benchmarks.installed import copied_projects

PYPROJECT = {"pyproject.toml": '[project]\nname = "core"\n'}
WITHOUT_NAME = {"setup.py": "import setuptools\n\nsetuptools.setup(**made())\n"}


@pytest.mark.parametrize(
    ("url", "file"),
    [
        (None, PYPROJECT),
        ("dist/core-1-py3-none-any.whl", PYPROJECT),
        ("my libs/core", PYPROJECT),
        ("my libs/core", WITHOUT_NAME),
    ],
)
def test_a_project_that_is_installed_as_a_copy_is_found_wherever_it_was_installed_from(
    tmp_path, monkeypatch, url, file
):
    project, info = tmp_path / "my libs/core", tmp_path / "site/core-1.dist-info"
    for folder in (project, info):
        folder.mkdir(parents=True)
    for name, text in file.items():
        (project / name).write_text(text)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: core\nVersion: 1\n")
    (info / "RECORD").write_text("core/__init__.py,,\n")
    if url:
        (info / "direct_url.json").write_text(json.dumps({"url": (tmp_path / url).as_uri()}))
    monkeypatch.syspath_prepend(info.parent)
    assert copied_projects(tmp_path, [project]) == ([project], {"core": project})
