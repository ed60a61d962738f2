"""Apply each mutant to a copy of the repository, and report which ones the fast tests notice.

A mutant is a patch with a plausible bug, ``tools/mutants/AREA/NAME.patch``. The tests of its area run first, then the
tests shared by all areas, each up to the first failure. Results are appended to a file, so an interrupted run can be
resumed.

    python tools/mutants/run.py                      # all mutants that have no result yet
    python tools/mutants/run.py pirl rlgauge/first-pattern-wins
    python tools/mutants/run.py --table
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import site
import subprocess
import sysconfig
import tempfile
import time
import venv
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = Path(__file__).parent
RESULTS = ROOT / "results" / "mutants.jsonl"
LIMIT = 1200  # timeout of one test run in seconds; a mutant that hangs counts as noticed
TESTS = "correctness_tests"
AREAS = {  # folders with the area's own tests
    **{name: [name] for name in ("pirl", "snake", "treasurehunt", "mario", "procgen")},
    "common": ["mario", "procgen", "pirl", "snake", "treasurehunt"],
    "rlgauge": ["gate", "repositories", "claims", "report"],
}


def git(*words: str | Path, folder: Path = ROOT) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", *map(str, words)], cwd=folder, check=True, capture_output=True, text=True).stdout


def interpreter(folder: Path, tree: Path) -> Path:
    """Create an environment that imports the repository from ``tree`` and all else from this interpreter's packages."""
    venv.create(folder, symlinks=True)
    places = [tree, *(path for path in site.getsitepackages() if Path(path).is_dir())]
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    Path(packages, "tree.pth").write_text("".join(f"{place}\n" for place in places))
    return folder / "bin" / "python"


def failure(python: Path, tree: Path, paths: list[str], jobs: int) -> str | None:
    """Return the first failing test, or another reason for the failure; None if all tests pass."""
    command = [python, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *paths]
    command += ["--numprocesses", str(jobs), "--dist", "loadfile", "--threads", "1", "--hypothesis-profile", "fixed"]
    with subprocess.Popen(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end within {LIMIT} s"
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode == 0:
        return None
    failed = [line.split(" - ")[0] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else f"pytest ends with code {process.returncode}: {text.strip()[-200:]}"


def tried(patch: Path, jobs: int) -> dict[str, object]:
    """Test one mutant; return its result."""
    name, start = mutant(patch), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", tree, "HEAD")
        try:
            git("apply", patch, folder=tree)  # fails if the patch no longer matches the code
            own = [f"{TESTS}/{part}" for part in AREAS[patch.parent.name]]
            shared = sorted(str(path.relative_to(ROOT)) for path in (ROOT / TESTS).glob("test_*.py"))
            python = interpreter(Path(folder) / "env", tree)
            found = failure(python, tree, own, jobs) or failure(python, tree, shared, jobs)
        finally:
            git("worktree", "remove", "--force", tree)
    bug = patch.read_text().splitlines()[0]
    return {
        "mutant": name, "bug": bug, "commit": git("rev-parse", "--short", "HEAD").strip(), "noticed": found is not None,
        "by": found, "seconds": round(time.monotonic() - start),
    }  # fmt: skip


def mutant(patch: Path) -> str:
    """Return the name of a mutant, ``AREA/NAME``."""
    return f"{patch.parent.name}/{patch.stem}"


def read() -> list[dict[str, object]]:
    """Return all results, oldest first."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table() -> str:
    """Return a Markdown table of the latest results by area, and a list of the unnoticed mutants."""
    latest = {str(row["mutant"]): row for row in read()}
    areas = Counter(name.partition("/")[0] for name in latest)
    noticed = Counter(name.partition("/")[0] for name, row in latest.items() if row["noticed"])
    lines = ["| area | mutants | noticed by the fast tests |", "|---|---:|---:|"]
    lines += [f"| {area} | {count} | {noticed[area]} |" for area, count in sorted(areas.items())]
    lines += [f"| all | {areas.total()} | {noticed.total()} |", ""]
    lines += [f"- `{name}`: {row['bug']}" for name, row in sorted(latest.items()) if not row["noticed"]]
    return "\n".join(lines)


def main() -> None:
    """Test the requested mutants, or print the results so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="AREA[/NAME]", help="mutants to try (default: those without a result)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest-xdist (default: 2)")
    parser.add_argument("--table", action="store_true", help="print the results so far")
    given = parser.parse_args()
    if given.table:
        print(table())
        return
    known = {row["mutant"] for row in read()}
    patches = sorted(MUTANTS.glob("*/*.patch"))
    for name in given.names:
        if not any(name in (mutant(patch), patch.parent.name) for patch in patches):
            parser.error(f"unknown mutant {name!r} (choose from the files in tools/mutants)")
    for patch in patches:
        asked = {mutant(patch), patch.parent.name} & {*given.names}
        if asked or (not given.names and mutant(patch) not in known):
            row = tried(patch, given.jobs)
            with RESULTS.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(f"{'noticed' if row['noticed'] else 'SURVIVED':8} {row['mutant']}  {row['by'] or ''}", flush=True)


if __name__ == "__main__":
    main()
