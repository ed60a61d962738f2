"""Apply each mutant to a copy of HEAD, and report which ones its tests notice.

A mutant is a patch with a plausible bug, ``tools/mutants/AREA/NAME.patch``. Its first line describes the bug, and its
second names the tests that should fail, for example ``Tests: correctness_tests/pirl/test_loss.py``. The exit code is 1
if a mutant goes unnoticed, no longer applies, or is noticed by a test that fails without it too.

    python tools/mutants/run.py                      # all mutants
    python tools/mutants/run.py pirl rlgauge/first-pattern-wins
    python tools/mutants/run.py --all                # run all fast tests where the named ones notice nothing
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

from rlgauge.command import ended

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = Path(__file__).parent
NO_TESTS = 5  # pytest's exit code
LIMIT = 1200  # timeout of one test run in seconds; a mutant that hangs counts as noticed
FAST = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--threads", "1", "--hypothesis-profile", "fixed"]


def git(*words: str | Path, folder: Path = ROOT) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", *map(str, words)], cwd=folder, check=True, capture_output=True, text=True).stdout


def name_of(patch: Path) -> str:
    """Return the name of a mutant, ``AREA/NAME``."""
    return f"{patch.parent.name}/{patch.stem}"


def tests_of(patch: Path) -> list[str]:
    """Return the tests that a mutant names in its second line."""
    return patch.read_text().splitlines()[1].removeprefix("Tests: ").split()


@contextmanager
def copy_of_head() -> Iterator[tuple[Path, Path]]:
    """Check HEAD out into a temporary folder; yield it and an interpreter that imports the repository from there.

    All other packages are those of this interpreter.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree, environment = Path(folder, "tree"), Path(folder, "env")
        git("worktree", "add", "--quiet", "--detach", tree, "HEAD")
        try:
            venv.create(environment, symlinks=True)
            places = [tree, *(path for path in site.getsitepackages() if Path(path).is_dir())]
            packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
            Path(packages, "tree.pth").write_text("".join(f"{place}\n" for place in places))
            yield tree, environment / "bin" / "python"
        finally:
            git("worktree", "remove", "--force", tree)


def failure(tree: Path, python: Path, tests: Sequence[str]) -> str:
    """Return the first failing test, or another reason why pytest fails; empty if all tests pass.

    Raises LookupError if a test does not exist.
    """
    with subprocess.Popen(
        [python, "-m", "pytest", *FAST, *tests], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end within {LIMIT} s"
    if process.returncode == NO_TESTS or re.search("^ERROR: .*not found: ", text, re.MULTILINE):
        raise LookupError("its tests do not exist, or are slow")
    failed = [line.split(" - ")[0] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if process.returncode == 0 or failed:
        return failed[0] if failed else ""
    return f"pytest ends with code {process.returncode}: {text.strip()[-200:]}"


def main() -> int:
    """Test the requested mutants; return 1 if one of them is not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="AREA[/NAME]", help="mutants to try (default: all)")
    parser.add_argument("--all", action="store_true", help="run all fast tests where the named ones notice nothing")
    parser.add_argument("--jobs", type=int, default=2, help="mutants to try at a time (default: 2)")
    given = parser.parse_args()
    patches = sorted(MUTANTS.glob("*/*.patch"))
    for name in given.names:
        if not any(name in (name_of(patch), patch.parent.name) for patch in patches):
            parser.error(f"unknown mutant {name!r} (choose from the files in tools/mutants)")
    chosen = [patch for patch in patches if not given.names or {name_of(patch), patch.parent.name} & {*given.names}]
    copies: SimpleQueue[tuple[Path, Path]] = SimpleQueue()

    def noticed(patch: Path) -> bool:
        tree, python = copies.get()
        try:
            git("apply", "-C1", patch, folder=tree)  # tolerates changes of lines nearby
            found = failure(tree, python, tests_of(patch))
            if not found and given.all:
                found = failure(tree, python, ["correctness_tests"])
            word = "noticed" if found else "SURVIVED"
            git("checkout", "--quiet", ".", folder=tree)
            named = [found.removeprefix("FAILED ")] if found.startswith("FAILED ") else tests_of(patch)
            if found and failure(tree, python, named):
                word = "UNCLEAR (its test fails without the mutant too)"
        except (subprocess.CalledProcessError, LookupError) as error:
            reason = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
            found, word = "", f"OUTDATED ({reason})"
        finally:
            git("checkout", "--quiet", ".", folder=tree)
            copies.put((tree, python))
        print(f"{word:8} {name_of(patch)}  {found}", flush=True)
        return word == "noticed"

    with ExitStack() as stack:
        for _ in range(given.jobs):
            copies.put(stack.enter_context(copy_of_head()))
        with ThreadPoolExecutor(given.jobs) as threads:
            try:
                results = list(threads.map(noticed, chosen))
            finally:  # after Ctrl-C, only the mutants that have begun are finished
                threads.shutdown(cancel_futures=True)
    print(f"{sum(results)} of {len(results)} mutants noticed")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(ended(main))
