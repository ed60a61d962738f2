"""Projects of the repository that are installed as copies."""

import json

import pytest

from rlgauge.benchmarks.installed import copied_projects


@pytest.mark.parametrize("url", [None, "dist/core-1-py3-none-any.whl", "libs/core"])
def test_a_project_that_is_installed_as_a_copy_is_found_wherever_it_was_installed_from(tmp_path, monkeypatch, url):
    project, info = tmp_path / "libs/core", tmp_path / "site/core-1.dist-info"
    for folder in (project, info):
        folder.mkdir(parents=True)
    (project / "pyproject.toml").write_text('[project]\nname = "core"\n')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: core\nVersion: 1\n")
    (info / "RECORD").write_text("core/__init__.py,,\n")
    if url:
        (info / "direct_url.json").write_text(json.dumps({"url": (tmp_path / url).as_uri()}))
    monkeypatch.syspath_prepend(info.parent)
    assert copied_projects(tmp_path, [project]) == ([project], {"core": project})
