"""Run the gate on benchmarks of PyPI packages: on identical code, and with one function slowed by 8%.

Each package is unpacked from its sdist and committed to a temporary repository. The run ``aa`` adds a comment to a file
of the package. The run ``slowdown`` adds a loop to a function that was chosen before any run, in the list
below. The length of the loop is calibrated: pairs of the gate, with another seed, time one named benchmark with a trial
loop. Every start is recorded in the results, whatever its outcome, and a repetition adds new rows.

    python tools/on_public_packages.py                        # both runs of all packages; hours
    python tools/on_public_packages.py attrs --only slowdown
    python tools/on_public_packages.py --table
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlgauge import artifact
from rlgauge.allowed import matches
from rlgauge.interrupts import by_sigterm
from rlgauge.rule import GateError, is_canary
from rlgauge.statistics import log_ratio, rate_interval

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "public-packages.jsonl"
RUNS = "aa", "slowdown"
SLOWDOWN, ENOUGH, TRIES = 0.08, 3, 8  # target slowdown; calibration: wanted trials near it, maximum trials
TRIAL_RULE = "screen=5,confirm=1,looks=1,blocks=6,level=0.9"  # for calibration, ignoring the verdict
TRIAL_SEED = 1_000_000
TIMED = ("ok", "faster", "slower", "inconclusive")
COMMON = ("pytest==9.2.0", "pytest-benchmark==5.3.1", "pytest-codspeed==5.0.4", "numpy==2.4.6", "setuptools==84.2.1")
BUILD = "python -m pip install --no-deps --no-build-isolation ."


@dataclass(frozen=True)
class Package:
    """A package, its benchmarks, and the function to slow.

    Attributes:
        arguments: pytest arguments that select the benchmarks.
        beside: further packages to install.
        build: command for ``--gate-build``; empty for a package that is imported from its tree.
        function: qualified name in a Python file, else the text after which the loop is inserted.
        named: id of the benchmark that becomes 8% slower.
        slower: patterns of all ids that call the function.
    """

    name: str
    version: str
    kind: str
    arguments: tuple[str, ...]
    file: str
    function: str
    named: str
    slower: tuple[str, ...]
    beside: tuple[str, ...] = ()
    build: str = ""


# fmt: off
PACKAGES = (
    Package(
        "attrs", "26.1.0", "pure Python, src",
        ("bench/test_benchmarks.py", "-k", "not create and not first_access"),  # their calls take 100 s
        "src/attr/_funcs.py", "asdict",
        "bench/test_benchmarks.py::test_asdict_complicated", ("*::test_asdict_*",),
    ),
    Package(
        "cattrs", "26.2.1", "pure Python, src", ("bench/test_attrs_primitives.py", "bench/test_primitives.py"),
        "src/cattrs/converters.py", "BaseConverter.unstructure_attrs_asdict",
        "bench/test_attrs_primitives.py::test_unstructure_attrs_primitives[UnstructureStrategy.AS_DICT-BaseConverter]",
        ("*::test_unstructure_attrs_primitives[UnstructureStrategy.AS_DICT-BaseConverter]",),
        ("attrs==26.1.0", "typing_extensions==4.16.0"),
    ),
    Package(
        "pint", "0.25.3", "pure Python, flat",
        ("pint/testsuite/benchmarks/test_20_quantity.py", "-k", "test_build_by_mul or test_op1"),
        "pint/facets/plain/quantity.py", "PlainQuantity.__neg__",
        "pint/testsuite/benchmarks/test_20_quantity.py::test_op1[neg-float_meter]", ("*::test_op1[neg-*",),
        ("flexcache==0.3", "flexparser==0.4", "platformdirs==4.14.8", "typing_extensions==4.16.0"),
    ),
    Package(
        "multidict", "7.2.1", "C",
        ("tests/test_multidict_benchmarks.py", "-m", "c_extension", "-k", "getall or get_hit or setitem"),
        "multidict/_multidict.c", "multidict_getall(MultiDictObject* self, PyObject* const* args,\n"
        "                 Py_ssize_t nargs, PyObject* kwnames)\n{\n",
        "tests/test_multidict_benchmarks.py::test_multidict_getall_str_hit[cs-c]", ("*getall*",),
        ("pytest-cov==7.1.0",), BUILD,
    ),
    Package(
        "xxhash", "4.1.0", "C", ("tests/test_benchmark.py", "-k", "intdigest"),
        "src/_xxhash.c", '"xxh64_intdigest", 1, &buf, &raw_seed) < 0)\n        return NULL;\n',
        "tests/test_benchmark.py::test_xxh64_intdigest_10kb", ("*::test_xxh64_intdigest_*",), (), BUILD,
    ),
    Package(
        "python-rapidjson", "1.25", "C++", ("benchmarks/test_benchmark.py", "-k", "rapidjson_f and not sample"),
        "rapidjson.cpp", "\nloads(PyObject* self, PyObject* args, PyObject* kwargs)\n{\n",
        "benchmarks/test_benchmark.py::test_loads[rapidjson_f-256 Trues array]", ("*::test_loads[rapidjson_f-*",),
        (), BUILD,
    ),
    Package(
        "yarl", "1.25.1", "Cython", ("tests/test_quoting_benchmarks.py", "-n", "0"),
        "yarl/_quoting_c.pyx", "    cdef str _do_unquote(self, str val):\n",
        "tests/test_quoting_benchmarks.py::test_unquoter_long_pct",
        ("*::test_unquoter_*", "*::test_qs_unquoter_*", "*::test_path_safe_unquoter_*"),
        ("Cython==3.3.1", "covdefaults==2.3.0", "expandvars==1.1.2", "idna==3.20", "multidict==7.2.1",
         "propcache==0.5.4", "pytest-cov==7.1.0", "pytest-xdist==3.8.0"), BUILD,
    ),
    Package(
        "galois", "0.4.11", "numba, src",
        ("benchmarks/test_field_arithmetic.py", "-k", "Test_GF2_8_lookup or Test_GF257_lookup"),
        "src/galois/_domains/_ufunc.py", "divide_ufunc.__call__",
        "benchmarks/test_field_arithmetic.py::Test_GF2_8_lookup::test_divide", ("*::test_divide",),
        ("numba==0.68.1", "typing_extensions==4.16.0"),
    ),
    Package(
        "numbagg", "0.9.6", "numba, flat",
        ("numbagg/test/test_benchmark.py", "-k", "shape0-numbagg and move_ and not exp and not matrix"),
        "numbagg/decorators.py", "ndmove.__call__",
        "numbagg/test/test_benchmark.py::test_benchmark_main[move_sum-shape0-numbagg]", ("*move_*",),
        ("numba==0.68.1", "bottleneck==1.6.0", "pandas==3.1.1", "tabulate==0.10.0"),
    ),
)
# fmt: on


class Failed(Exception):
    """A run that produced no verdicts; the message says why."""


def run(words: Sequence[str | Path], folder: Path, fails: Callable[[int], bool] = bool) -> tuple[int, str]:
    """Return the exit code and output of a command; raise Failed if ``fails(code)``."""
    mine = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*map(str, words)], cwd=folder, env=mine, start_new_session=True, **how) as process:
        try:
            said, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
            raise
    if fails(process.returncode):
        last = [line.strip() for line in said.splitlines() if line.strip()][-3:]
        raise Failed(f"{' '.join(map(str, words[:6]))} ends with code {process.returncode}: {' | '.join(last)}")
    return process.returncode, said


def unpacked(package: Package, folder: Path) -> tuple[Path, Path]:
    """Create a virtual environment and a repository of the package; return the interpreter and the repository."""
    python, tree, gauge = folder / "env" / "bin" / "python", folder / "tree", folder / "rlgauge"
    venv.create(folder / "env", with_pip=True)
    shutil.copytree(ROOT / "rlgauge", gauge / "rlgauge", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "VERSION"):
        shutil.copy(ROOT / name, gauge)
    pip: list[str | Path] = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
    run([*pip, "install", *COMMON, *package.beside], folder)
    run([*pip, "install", "--no-deps", gauge], folder)
    wanted = f"{package.name}=={package.version}"
    run([*pip, "download", "--no-deps", "--no-binary", package.name, "-d", folder / "sdist", wanted], folder)
    (sdist,) = (folder / "sdist").iterdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (top,) = (folder / "unpacked").iterdir()
    top.rename(tree)
    # Install it, as its conftest may import it; from the sdist, as a build would leave object files in the tree.
    run([*pip, "install", "--no-deps", *([sdist] if package.build else ["-e", tree])], folder)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "sdist"]):
        run([*git, *words], tree)
    return python, tree


def commented(text: str, file: str) -> str:
    """Return the source with a comment appended."""
    return text + ("\n# same\n" if Path(file).suffix in (".py", ".pyx") else "\n/* same */\n")


def slowed(text: str, file: str, function: str, turns: int) -> str:
    """Return the source with a loop of ``turns`` iterations at the start of a function."""
    if Path(file).suffix == ".py":
        nodes: list[Any] = [ast.parse(text)]
        for name in function.split("."):
            nodes = [node for one in nodes for node in one.body if getattr(node, "name", None) == name]
        found = len(nodes)
    else:
        found = text.count(function)
    if found != 1:
        raise Failed(f"{file}: {function.strip()!r} occurs {found} times instead of once")
    if Path(file).suffix == ".py":
        body = nodes[0].body
        first = body[1] if ast.get_docstring(nodes[0]) is not None and len(body) > 1 else body[0]
        lines = text.splitlines(keepends=True)
        at, indent = sum(map(len, lines[: first.lineno - 1])), first.col_offset
    else:
        at = text.index(function) + len(function)
        indent = len(text[at:]) - len(text[at:].lstrip(" "))
    # Looking up a name keeps Cython from removing the loop; the volatile counter does the same in C.
    loop = f"for spin in range({turns}): __name__"
    if Path(file).suffix not in (".py", ".pyx"):
        loop = f"for (volatile long spin = 0; spin < {turns}; spin = spin + 1) {{}}"
    return f"{text[:at]}{' ' * indent}{loop}\n{text[at:]}"


@dataclass
class Trial:
    """A prepared package: its interpreter, its repository ``tree``, and the gate's rule (empty: the default)."""

    package: Package
    python: Path
    tree: Path
    rule: str

    def gate(self, arguments: Sequence[str], rule: str, seed: int) -> tuple[int, artifact.Artifact]:
        """Run the gate; return the exit code and the artifact, or raise Failed if there is none."""
        out = self.tree.parent / "gate.json"
        out.unlink(missing_ok=True)
        options = ["--gate-against", "HEAD", f"--gate-seed={seed}", f"--gate-json={out}"]
        options += [f"--gate-rule={rule}"] if rule else []
        options += [f"--gate-build={self.package.build}"] if self.package.build else []
        code, said = run([self.python, "-m", "pytest", *arguments, *options], self.tree, lambda code: False)
        try:
            return code, artifact.read(out)
        except GateError:
            last = [line.strip() for line in said.splitlines() if line.strip()][-3:]
            raise Failed(f"pytest ends with code {code}: {' | '.join(last)}") from None

    def changed(self, make: Callable[[str], str]) -> None:
        """Apply ``make`` to the original source of the file with the slowed function."""
        run(["git", "checkout", "-q", "."], self.tree)
        path = self.tree / self.package.file
        path.write_text(make(path.read_text()))

    def slow(self, turns: int) -> None:
        """Insert a loop of ``turns`` iterations into the function."""
        self.changed(lambda text: slowed(text, self.package.file, self.package.function, turns))

    def calibrated(self) -> tuple[int, list[tuple[int, float]]]:
        """Return the iterations that slow the named benchmark by 8%, and (iterations, slowdown) of each trial."""
        turns, trials = 100, list[tuple[int, float]]()
        near: list[float] = []  # slowdown per iteration, in trials near the target
        plain = [word for word in self.package.arguments if "/" not in word]
        plain = plain[:-2] if plain[-2:-1] == ["-k"] else plain
        for number in range(TRIES):
            self.slow(turns)
            _, trial = self.gate([self.package.named, *plain], TRIAL_RULE, TRIAL_SEED + number)
            pairs = trial.records[self.package.named].screen
            if not pairs:
                raise Failed(f"{self.package.named}: not timed: {trial.records[self.package.named]}"[:300])
            slowdown = math.expm1(median(map(log_ratio, pairs)))
            trials.append((turns, round(slowdown, 4)))
            if SLOWDOWN / 2 <= slowdown <= 2 * SLOWDOWN:
                near.append(slowdown / turns)
                if len(near) == ENOUGH:
                    return max(1, round(SLOWDOWN / median(near))), trials
            turns = max(1, round(turns * (SLOWDOWN / slowdown if slowdown > 0.02 else 10)))
        raise Failed(f"no loop slows {self.package.named} by {SLOWDOWN:.0%}; iterations and slowdowns: {trials}")

    def measure(self, what: str, seed: int) -> dict[str, Any]:
        """Run ``aa`` or ``slowdown``; return its findings as part of a row."""
        row: dict[str, Any] = {}
        if what == "aa":
            self.changed(lambda text: commented(text, self.package.file))
        else:
            row["turns"], row["trials"] = self.calibrated()
            self.slow(row["turns"])
        start = time.monotonic()
        row["code"], run = self.gate(self.package.arguments, self.rule, seed)
        outcome = run.decide()
        findings = {name: found for name, found in outcome.findings.items() if not is_canary(name)}
        row |= {
            "minutes": round((time.monotonic() - start) / 60, 1),
            "invalid": list(outcome.wrong),
            "verdicts": dict(Counter(found.verdict for found in findings.values())),
            "slower": [name for name, found in findings.items() if found.verdict == "slower"],
            "notes": {name: list(found.notes) for name, found in findings.items() if found.notes},
        }
        if what == "slowdown":
            hit = {name for name in findings if any(matches(name, one) for one in self.package.slower)}
            named = findings.get(self.package.named)
            row["expected"] = sorted(hit)
            row["unaffected"] = sum(found.verdict in TIMED for name, found in findings.items() if name not in hit)
            row["named"] = named and {key: getattr(named, key) for key in ("verdict", "ratio", "low", "high")}
        return row


def start(package: Package, what: str, results: Path, rule: str) -> None:
    """Run one package once; append a row at the start and one at the end."""
    number = 1 + len({row["start"] for row in rows(results)})
    head = {"start": number, "package": f"{package.name} {package.version}", "kind": package.kind, "run": what}
    head |= {"seed": number, "rule": rule}
    add(results, head | {"began": datetime.now().isoformat(timespec="seconds")})
    row: dict[str, Any] = {"error": "interrupted"}
    try:
        with tempfile.TemporaryDirectory(prefix="public-") as folder:
            row = Trial(package, *unpacked(package, Path(folder)), rule).measure(what, number)
    except Failed as error:
        row = {"error": str(error)}
    except Exception as error:
        row = {"error": f"{type(error).__name__}: {error}"}
        raise
    finally:
        add(results, head | {"ended": datetime.now().isoformat(timespec="seconds")} | row)
        print(json.dumps(head | row), flush=True)


def add(results: Path, row: dict[str, Any]) -> None:
    """Append a row to the results."""
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")


def rows(results: Path) -> list[dict[str, Any]]:
    """Return all rows in order."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(results: Path) -> str:
    """Return the table of all runs, and totals over those with exit code 0 or 1."""
    starts: dict[int, dict[str, Any]] = {}
    for row in rows(results):
        starts.setdefault(row["start"], {}).update(row)
    lines = ["| start | package | kind | run | exit code | verdicts | called slower | named benchmark | minutes |"]
    lines.append("|" + " --- |" * (lines[0].count("|") - 1))
    alarms, judged, found = Counter[str](), Counter[str](), {}
    for number, row in starts.items():
        slower, hit, named, run = row.get("slower", []), row.get("expected", []), row.get("named"), row["run"]
        wrong = [name for name in slower if name not in hit]
        if row.get("code") in (0, 1):
            alarms[run] += len(wrong)
            judged[run] += row.get("unaffected", sum(row["verdicts"].get(name, 0) for name in TIMED))
            if run == "slowdown":
                found.setdefault(row["package"], named is not None and named["verdict"] == "slower" and not wrong)
        verdicts = ", ".join(f"{count} {name}" for name, count in sorted(row.get("verdicts", {}).items()))
        affected = f"{len(slower) - len(wrong)} of {len(hit)} affected, " if run == "slowdown" and hit else ""
        about = named["verdict"] if named else ""
        if named and named["low"] is not None:
            about += f" {named['ratio']:.3f} [{named['low']:.3f}, {named['high']:.3f}]"
        cells = [number, row["package"], row["kind"], run, row.get("code", "none"), verdicts or failure(row)]
        cells += [f"{affected}{len(wrong)} others" if verdicts else "", about, row.get("minutes", "")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    asked = {row["package"] for row in starts.values() if row["run"] == "slowdown"}
    share = f"{sum(found.values())} of {len(asked)} packages"
    lines += ["", f"In {share}, the first valid `slowdown` found the named benchmark slower, and no unaffected one."]
    for run, where in (("aa", "identical code"), ("slowdown", "benchmarks that the slowdown does not affect")):
        if judged[run]:
            most = rate_interval(alarms[run], judged[run])[1]
            lines.append(f"False alarms on {where}: {alarms[run]} of {judged[run]}, at most {most:.1%} (95% interval).")
    return "\n".join(lines)


def failure(row: dict[str, Any]) -> str:
    """Return why a run has no verdicts, shortened and without temporary paths."""
    words = re.sub(r"/tmp/\S*/", "", row.get("error", "not ended")).replace("|", "/")
    return words if len(words) < 120 else f"{words[:120]}..."


def main() -> None:
    """Parse the command line; run the packages unless ``--table`` is given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(one.name for one in PACKAGES)}")
    parser.add_argument("--only", choices=RUNS, help="do only this run")
    parser.add_argument("--table", action="store_true", help="only print the table of the runs so far")
    parser.add_argument("--results", type=Path, default=RESULTS, help="add rows to this file (default: %(default)s)")
    parser.add_argument("--rule", default="", help="pass this to --gate-rule; for quick trials, not for results")
    given = parser.parse_args()
    known = {one.name: one for one in PACKAGES}
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"unknown package {unknown[0]!r} (choose from {', '.join(known)})")
    if not given.table:
        with by_sigterm():
            for package in [known[name] for name in given.names] or PACKAGES:
                for what in [given.only] if given.only else RUNS:
                    start(package, what, given.results, given.rule)
    print(table(given.results))


if __name__ == "__main__":
    main()
