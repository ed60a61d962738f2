"""Builds: each side is built from its own tree, once, and its workers import that build."""

import subprocess
import sys

import pytest

from rlgauge.benchmarks import builds
from rlgauge.rule import GateError

from .made import CLOCK, FLAT_TESTS, QUICK, Repository, dist_info, flat, tidy, work

SLOW, KEPT = (f"benchmarks/test_sum.py::test_{name}" for name in ("slow", "kept"))
BUILD = "python -m pip install --no-deps --no-build-isolation --quiet --disable-pip-version-check ."
IN_PLACE = "python setup.py --quiet build_ext --inplace"
INSTALL = (  # a package, and an empty one that would shadow a package of benchmarks
    "import os, pathlib, shutil, sysconfig; site = pathlib.Path(sysconfig.get_path('purelib')); "
    "assert pathlib.Path(os.environ['PWD']).samefile('.'); "
    "shutil.copytree('toy', site / 'toy'); (site / 'benchmarks').mkdir(); (site / 'benchmarks/__init__.py').touch(); "
    "(site / 'toy/sorting.py').write_text(pathlib.Path('sorting.in').read_text())"
)
UNBUILT = {
    **flat(),
    "toy/sorting.py": "raise ImportError('it is not built')\n",
    "sorting.in": work(slow=100, kept=100),
}
USES_COMMAND = """import shutil
import sys

from toy import sorting


def test_command(benchmark):
    assert shutil.which("python") == sys.executable
    benchmark(sorting.kept, [0.0] * 50)
"""
INSIDE = {
    "toy/tests/__init__.py": "",
    "toy/tests/conftest.py": CLOCK,
    "toy/tests/test_sorting.py": FLAT_TESTS,
    "toy/tests/test_command.py": USES_COMMAND,
}
EDITABLE = """import sys
from importlib.util import spec_from_file_location


class Finder:  # like meson-python's
    _top_level_modules = {"toy"}

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] == "toy":
            file = "toy/__init__.py" if fullname == "toy" else f"{fullname.replace('.', '/')}.py"
            return spec_from_file_location(fullname, f"FOLDER/{file}")


sys.meta_path.insert(0, Finder())
"""
IN_C_TESTS = """import fastsum


def test_slow(benchmark):
    assert benchmark(fastsum.slow) > 0


def test_kept(benchmark):
    assert benchmark(fastsum.kept) > 0
"""
IN_C = """#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *turned(long turns) {
    volatile double sum = 0.0;
    for (long i = 0; i < turns * 10000; i++) sum += i;
    return PyFloat_FromDouble(sum);
}
static PyObject *slow(PyObject *self, PyObject *none) { Py_DECREF(turned(TURNS)); return PyFloat_FromDouble(1.0); }
static PyObject *kept(PyObject *self, PyObject *none) { Py_DECREF(turned(100)); return PyFloat_FromDouble(1.0); }
static PyMethodDef methods[] = {
    {"slow", slow, METH_NOARGS, ""}, {"kept", kept, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sum", "", -1, methods};
PyMODINIT_FUNC PyInit__sum(void) { return PyModule_Create(&module); }
"""


def compiled(turns=100):
    """Return the files of a repository whose package has a C extension that must be built."""
    return {
        "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
        '[project]\nname = "fastsum"\nversion = "1.0"\n\n[tool.setuptools]\npackages = ["fastsum"]\n',
        "setup.py": 'from setuptools import Extension, setup\n\nsetup(ext_modules=[Extension("fastsum._sum", '
        '["fastsum/_sum.c"], extra_compile_args=["-O1"])])\n',
        "fastsum/__init__.py": '"""Sums."""\n\nfrom ._sum import kept, slow\n\n__all__ = ["kept", "slow"]\n',
        "fastsum/_sum.c": IN_C.replace("TURNS", str(turns)),
        "benchmarks/test_sum.py": IN_C_TESTS,
        ".gitignore": "__pycache__/\nbuild/\n*.egg-info/\n",
    }


toy = tidy(compiled())


def test_a_build_is_kept_for_its_command_its_flags_and_the_files_of_its_tree(tmp_path, capfd, monkeypatch):
    cache, *trees = [tmp_path / name for name in ("cache", "base", "head")]
    for folder in (cache, *trees):
        folder.mkdir()
        (folder / "fast.c").write_text("int fast;")
        (folder / "part").mkdir()

    def built(command, *trees, folder="part"):
        with builds.builds(cache, command, lambda code: [code / "fast.c"], folder) as python_for:
            for tree in trees:
                python_for(tree.name, tree)
        return capfd.readouterr().err.splitlines()

    assert built("true", *trees) == ["gate: building base: true"]
    (trees[1] / "fast.c").write_text("int fast, slow;")
    assert built("true", *trees) == ["gate: building head: true"]
    assert len(built("true -j", trees[0])) == 1
    assert len(built("true -j", trees[0], folder=".")) == 1
    (trees[0] / "part" / "setup.py").write_text("SLOW = os.environ.get('SKIP_FAST')")
    compiler = tmp_path / "other-cc"
    compiler.write_text("#!/bin/sh\necho 2.0")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert len(built("true -j", trees[0])) == 1
    compiler.write_text("#!/bin/sh\necho 2.1")
    for name, value in (("CXX", str(compiler)), ("CFLAGS", "-O3"), ("MYPYC_OPT_LEVEL", "0"), ("SKIP_FAST", "1")):
        monkeypatch.setenv(name, value)
        assert len(built("true -j", trees[0])) == 1
    expected = r"^build command \"make 'all\" cannot be parsed: No closing quotation; correct its quotes$"
    with pytest.raises(GateError, match=expected):
        built("make 'all")


def test_a_build_runs_in_a_copy_of_its_tree_with_its_own_environment(tmp_path, monkeypatch):
    elsewhere = {"PIP_TARGET": str(tmp_path), "PIP_USER": "1", "UV_PYTHON": sys.executable, "UV_SYSTEM_PYTHON": "1"}
    for name, value in elsewhere.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "fast.c").write_text("int fast;")
    words = "python -c 'import sys; print(sys.prefix)' > seen; git ls-files >> seen; pip config debug > settings"
    builds.build(tmp_path / "made", tmp_path / "tree", ["sh", "-c", f"{words}; env > variables"], "base")
    tree, environment = builds.tree_of(builds.interpreter(tmp_path / "made")), tmp_path / "made" / "env"
    assert (tree / "seen").read_text() == f"{environment}\nfast.c\n"
    assert not (tree / ".git").exists()
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["fast.c"]
    assert f"{environment / 'pip.conf'}, exists: False" in (tree / "settings").read_text()
    variables = (tree / "variables").read_text().splitlines()
    assert not elsewhere.keys() & {line.partition("=")[0] for line in variables}
    versions = {"SETUPTOOLS_SCM_PRETEND_VERSION=0", "POETRY_DYNAMIC_VERSIONING_BYPASS=0"}
    assert versions | {f"VIRTUAL_ENV={environment}"} < set(variables)


def test_an_isolated_build_does_not_see_the_packages_here(tmp_path):
    (tmp_path / "tree").mkdir()
    backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (tmp_path / "tree" / "pyproject.toml").write_text(backend)
    seen = 'import importlib.util\n\nopen("seen", "w").write(str(importlib.util.find_spec("pytest")))\n'
    (tmp_path / "tree" / "backend.py").write_text(seen)
    # The backend cannot build a wheel, so the installation fails.
    words = ["sh", "-c", "python -m pip install --no-deps . || python -c 'import pytest'"]
    builds.build(tmp_path / "made", tmp_path / "tree", words, "base")
    assert (builds.tree_of(builds.interpreter(tmp_path / "made")) / "seen").read_text() == "None"


def test_the_reason_of_a_failed_build_is_its_first_error():
    compiler = "fast.c:3:1: error: expected ';'"
    later = ["error: command failed", "ERROR: Failed building", "hint: see above"]
    assert builds.cause("\n".join(["  error: subprocess-exited-with-error", compiler, *later])) == compiler
    assert builds.cause("Collecting a\nno compiler\n[notice] To update, run: pip install\n") == "no compiler"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["no-such-program"], ".*no-such-program"),
        (["sh", "-c", "exit 3"], "exit code 3; "),
        (["sh", "-c", r"printf 'a.c:1: error: f\374r\n'; exit 1"], "a.c:1: error: f\N{REPLACEMENT CHARACTER}r; "),
        (["python", "-c", "print(1); raise SystemExit('no')"], r"no; its output is in .*/made.log$"),
    ],
)
def test_a_failed_build_is_one_line_and_leaves_nothing_but_its_output(tmp_path, monkeypatch, words, reason):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (tmp_path / "tree").mkdir()
    with pytest.raises(GateError, match=f"^head: the build failed: {reason}"):
        builds.build(tmp_path / "made", tmp_path / "tree", words, "head")
    assert not (tmp_path / "made").exists()
    assert words[0] != "python" or (tmp_path / "made.log").read_text().splitlines() == ["1", "no"]


def test_a_process_that_a_test_starts_imports_the_build_too(tmp_path, monkeypatch):
    site = tmp_path / "site"
    for folder in (site, tmp_path / "tree", tmp_path / "tree" / "toy"):
        folder.mkdir()
    (tmp_path / "tree" / "toy" / "__init__.py").touch()
    (site / "_toy_editable_loader.py").write_text(EDITABLE.replace("FOLDER", str(tmp_path / "tree")))
    (site / "toy-editable.pth").write_text("import _toy_editable_loader\n")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(site)])
    install = "import pathlib, shutil, sysconfig; shutil.copytree('toy', sysconfig.get_path('purelib') + '/toy')"
    builds.build(tmp_path / "made", tmp_path / "tree", ["python", "-c", install], "base")
    python = builds.interpreter(tmp_path / "made")
    found = subprocess.check_output([python, "-c", "import toy; print(toy.__file__)"], text=True, cwd=site)
    assert found.strip() == str(builds.packages_of(python) / "toy" / "__init__.py")


def test_the_built_package_is_imported_before_the_tree_although_tests_are_inside_the_package(tmp_path):
    made = Repository(tmp_path / "toy", {**UNBUILT, "benchmarks/__init__.py": "", **INSIDE})
    made.write({"sorting.in": work(slow=101, kept=100)})
    paths = "benchmarks/test_sorting.py", "toy/tests"  # the conftest.py of the second is loaded first
    ran = made.gate("HEAD", tmp_path, "--gate-build", f'python -c "{INSTALL}"', *paths, rule=QUICK, limit=400)
    assert ran.artifact["records"], ran.text
    package = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/toy/__init__.py of its build"
    assert f"\ntoy: base {package}, head {package}\n" in ran.text
    assert not [name for name, found in ran.findings.items() if found[0] == "error"], ran.text


def test_a_build_is_imported_before_an_editable_install_of_the_working_tree(tmp_path):
    made = Repository(tmp_path / "toy", {**UNBUILT, "pyproject.toml": '[project]\nname = "toy"\nversion = "1"\n'})
    site = tmp_path / "site"
    made.write({
        "sorting.in": work(slow=101, kept=100),
        "benchmarks/test_sorting.py": FLAT_TESTS.replace("[10, 50]", "[50]"),
        str(site / "sitecustomize.py"): "import _toy_editable_loader\n",  # in place of a .pth file
        **dist_info(site, "toy", "_toy_editable_loader.py"),
        str(site / "_toy_editable_loader.py"): EDITABLE.replace("FOLDER", str(made.root)),
    })  # fmt: skip
    options = "--gate-build", f'python -c "{INSTALL}"', "--collect-only"
    ran = made.gate("HEAD", tmp_path, *options, rule=QUICK, code=0, PYTHONPATH=str(site))
    assert "2 to time, 1 gone" in ran.text


def test_a_benchmark_is_gone_although_base_needs_its_build_in_place_to_be_imported(tmp_path):
    made = Repository(tmp_path / "toy", UNBUILT)
    made.write({
        "sorting.in": work(slow=101, kept=100),
        "benchmarks/test_sorting.py": FLAT_TESTS.replace("[10, 50]", "[50]"),
    })  # fmt: skip
    ran = made.gate("HEAD", tmp_path, "--gate-build", "cp sorting.in toy/sorting.py", "--collect-only", code=0)
    assert "2 to time, 1 gone" in ran.text


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("command", [BUILD, IN_PLACE])
def test_each_side_runs_the_build_of_its_own_tree(toy, tmp_path, command):
    toy.at("start", compiled(turns=115))
    whole = "screen=4,confirm=16,blocks=8"  # the default rule, to measure real time
    ran = toy.gate("HEAD", tmp_path, "--gate-build", command, rule=whole, limit=400, code=1)
    assert ran.findings[SLOW] == ("slower",)
    assert ran.findings[KEPT][0] != "slower"
    assert ran.text.count("gate: building ") == 2
    again = toy.run(*toy.command("HEAD", tmp_path, "--gate-build", command, "--collect-only"))
    assert "gate: building " not in again[1], again[1]
    assert toy.git("status", "--porcelain", "--", "fastsum/_sum.c").endswith("fastsum/_sum.c")
