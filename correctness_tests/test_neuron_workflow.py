"""The Neuron workflow installs what its commands import, and leaves torch to the runner."""

import re
import shlex
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .commands import ROOT, hiding, python

STEPS = yaml.safe_load((ROOT / ".github/workflows/neuron.yml").read_text())["jobs"]["neuron"]["steps"]
RUNNER = {"torch"}  # installed by the runner with torch-neuronx


def script(name):
    """Return the commands of the step whose name starts with this text."""
    (found,) = (step["run"] for step in STEPS if step.get("name", "").startswith(name))
    return found


def pytest_arguments(step):
    return shlex.split(script(step).partition("-m pytest ")[2])


def with_dependencies(requirements):
    """Return these distributions and everything they require, by their installed metadata."""
    names, left = set(), list(requirements)
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if needed and name not in names:
            names.add(name)
            left += metadata.requires(name) or ()
    return names


def installed_by(commands):
    """Return the names of the distributions that commands install as dependencies of this repository's projects."""
    required = []
    for folder, extras in re.findall(r"-e '?(\.[\w/]*)(?:\[(.+)\])?", commands):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        required += project["dependencies"]
        for extra in filter(None, extras.split(",")):
            required += project["optional-dependencies"][extra]
    return with_dependencies(required)


@pytest.fixture(scope="module")
def workflow_installs():
    return installed_by(script("Install"))


@pytest.fixture
def path_of_workflow(workflow_installs, tmp_path):
    """A PYTHONPATH that hides the packages that the workflow does not install."""
    kept = with_dependencies(RUNNER) | workflow_installs | {"rlgauge", "rlgauge-workloads", "pip", "setuptools"}
    modules = metadata.packages_distributions().items()
    others = [module for module, owners in modules if not kept & {canonicalize_name(owner) for owner in owners}]
    assert "jax" in others
    return hiding(tmp_path, *others)


def test_installing_does_not_replace_the_torch_of_the_runner(workflow_installs):
    assert not RUNNER & workflow_installs


def test_benchmarks_are_collected_with_what_the_workflow_installs(path_of_workflow, tmp_path):
    arguments = [str(tmp_path / word) if word.endswith(".json") else word for word in pytest_arguments("Benchmark")]
    done = python("-m", "pytest", "-p", "no:cacheprovider", "--collect-only", *arguments, PYTHONPATH=path_of_workflow)
    assert done.returncode == 0, done.stdout
