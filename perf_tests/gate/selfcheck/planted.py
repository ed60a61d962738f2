"""Measures bisect: in a copy of the repository one of eight commits slows a case by a known part; does it name it?"""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perf_tests.suite.case import Variant
from rl_impls import backends
from rlgauge.bisect import bisect
from rlgauge.revisions import git
from rlgauge.rule import GateError, Rule

from ..source import case_of, everything

COMMITS = 8
CASES = (  # a different one for each try; of calls so long that reading a clock is nothing
    "snake.env_step[vectorised-numpy-envs1024]",
    "treasurehunt.sample[full-numpy-agents5]",
    "snake.train_step[full-torch-batch32]",
    "pirl.train_step[full-torch-batch256-order2]",
    "snake.sample[full-torch-batch32]",
)
AUTHOR = ("-c", "user.name=planted", "-c", "user.email=planted@localhost", "-c", "commit.gpgsign=false")
SLOWED = '''

import time


class _Slowed{number}:
    """A call that takes longer by this part of its own time."""

    def __init__(self, call):
        self.call = call

    def __getattr__(self, name):
        return getattr(self.call, name)

    def __call__(self, *inputs):
        start = time.perf_counter()
        out = self.call(*inputs)
        end = start + (1 + {part}) * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass
        return out


_build{number} = {op}


def {op}(*args, **kwargs):
    return _Slowed{number}(_build{number}(*args, **kwargs))
'''


def plant(root: Path, variant: Variant, parts: Sequence[float]) -> list[str]:
    """Commit changes to a case's source file, each of which slows it by its part; return the commits.

    Args:
        root: of a copy of the repository.
        variant: the benchmark.
        parts: of a call's own time, by which a commit slows it; where one is 0 it changes a comment.
    """
    source = root / "rl_impls" / variant.case.workload / f"_{backends.get(variant.backend).source}.py"
    made = []
    for number, part in enumerate(parts):
        slowed = SLOWED.format(op=variant.case.op, part=part, number=number) if part else ""
        with source.open("a") as file:
            file.write(f"{slowed}\n# change {number}\n")
        git(root, *AUTHOR, "commit", "--quiet", "--all", "--message", f"change {number}")
        made.append(git(root, "rev-parse", "HEAD").decode().strip())
    return made


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Return a copy of the repository's commits, in a context that removes it.

    Args:
        root: of the repository.

    Raises:
        GateError: no repository.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        try:
            git(root, "clone", "--quiet", "--local", str(root), str(copy))
        except subprocess.CalledProcessError as error:
            raise GateError(f"{root} cannot be copied: {error.stderr.decode().strip()}") from error
        yield copy


def found(root: Path, variant: Variant, part: float, rule: Rule, seed: int, log: Callable[[str], None]) -> bool:
    """Return whether bisect names the slowed one of eight commits on top of HEAD.

    Args:
        root: of the repository.
        variant: the benchmark.
        part: of a call's own time, by which it is slowed.
        rule: the numbers to decide by.
        seed: of all that is left to chance.
        log: prints a line.

    Raises:
        GateError: no repository.
    """
    place = random.Random(seed).randrange(COMMITS)
    with copied(root) as copy:
        wanted = plant(copy, variant, [part if number == place else 0.0 for number in range(COMMITS)])[place]
        log(f"{variant.id}: slowed by {100 * part:g} % in commit {place + 1} of {COMMITS}, {wanted[:12]}")
        try:
            asked = everything(), copy, f"HEAD~{COMMITS}", "HEAD", case_of(variant)
            named = bisect(*asked, rule, seed, log=lambda line: log(f"  {line}"))
        except GateError as error:
            log(f"  {error}")
            return False
        log(f"  names {named}: {'right' if named.commit == wanted else 'WRONG'}")
        return named.commit == wanted
