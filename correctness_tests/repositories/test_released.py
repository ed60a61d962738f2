"""A real package: two of its releases compared by benchmarks that are ours, each imported from its own side."""

from __future__ import annotations

import subprocess
import sys
import tarfile

import pytest

from .made import WHOLE, Repository, environment

PACKAGE, OLD, NEW = "gymnasium", "1.1.1", "1.2.3"
TESTS = '''"""What the wrappers of an environment cost, around one that does nothing."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

STEPS = 200


class Idle(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(4, np.float32), 0.0, False, False, {}


WRAPPED = {
    "bare": lambda env: env,
    "limited": lambda env: wrappers.TimeLimit(env, 10 * STEPS),
    "recorded": wrappers.RecordEpisodeStatistics,
    "scaled": lambda env: wrappers.TransformReward(env, lambda reward: 0.5 * reward),
    "stacked": lambda env: wrappers.FrameStackObservation(env, 4),
    "flat": wrappers.FlattenObservation,
}


@pytest.mark.parametrize("wrapper", WRAPPED)
def test_steps(benchmark, wrapper):
    env = WRAPPED[wrapper](Idle())
    env.reset(seed=0)

    def steps():
        for _ in range(STEPS):
            out = env.step(1)
        return out

    assert benchmark(steps)[2] is False


def test_sample(benchmark):
    space = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (8,)), "b": spaces.Discrete(5)})

    def drawn():
        space.seed(0)
        return [space.sample() for _ in range(20)]

    assert len(benchmark(drawn)) == 20
'''


def released(folder, version):
    """Return the files of a release, unpacked from its source distribution; skip where it cannot be had here."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-binary", PACKAGE, "--dest", str(folder), f"{PACKAGE}=={version}"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"{PACKAGE} {version} cannot be had here: {done.stderr.strip().splitlines()[-1:]}")
    (packed,) = folder.glob(f"{PACKAGE}-{version}*")
    with tarfile.open(packed) as archive:
        archive.extractall(folder / version, filter="data")
    (root,) = (folder / version).iterdir()
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] == PACKAGE
    }


@pytest.mark.slow
@pytest.mark.alone
def test_two_releases_are_compared_each_from_its_own_tree(tmp_path):
    old, new = (released(tmp_path, version) for version in (OLD, NEW))
    repository = Repository(tmp_path / "repository", old)
    lost = {name: None for name in old if name not in new}
    repository.write({**lost, **new, "benchmarks/test_wrappers.py": TESTS})
    ran = repository.gate("HEAD", tmp_path, limit=900, rule=WHOLE)
    assert ran.code in (0, 1), ran.text
    (line,) = [line for line in ran.text.splitlines() if line.startswith(f"{PACKAGE}: base ")]
    assert line.count(f"/tree/{PACKAGE}/__init__.py") == 2
    verdicts = {name: verdict for name, (verdict, *_) in ran.findings.items() if "::" in name}
    assert len(verdicts) == 7
    assert set(verdicts.values()) <= {"ok", "faster", "slower", "inconclusive"}, ran.text
    assert repository.leftovers() == []
