"""Repository layouts: where the gate finds the code under test, and when it is unchanged."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from .made import CLOCK, QUICK, Repository, environment, work
from .test_locked import BARE, WHEEL, wheel

IGNORED = "__pycache__/\n*.egg-info/\n.rlgauge/\n"
PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
version = "1"
name = "{}"
"""
COLLECT = "--collect-only"  # the gate only finds what to time, and checks what each side imports
USES = """import numpy as np

from {module} import slow


def test_slow(benchmark):
    benchmark(slow, np.zeros(50))
"""
USES_LATE = """import numpy as np


def test_slow(benchmark):
    from {module} import slow

    benchmark(slow, np.zeros(50))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Create an environment in which projects can be installed; return its interpreter."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    here = subprocess.run(
        [folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    Path(here.stdout.strip(), "outer.pth").write_text(outer())
    return folder / "bin/python"


def outer():
    """Return the text of a .pth file that makes this environment's packages importable."""
    places = [path for path in sys.path if path.endswith("site-packages")]
    return "".join(f"import site; site.addsitedir({path!r})\n" for path in places)


def install(python, *projects):
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    for project in projects:
        command += ["--editable", project]
    subprocess.run(command, check=True, env=environment())


def gated(repository, tmp_path, *options, python=sys.executable, at="", against="start", **variables):
    """Run the gate in a directory of a repository; return its exit code and output."""
    words = repository.command(against, tmp_path, *options, rule=QUICK)
    done = subprocess.run(
        [python, "-m", *map(str, words)],
        cwd=repository.root / at, env=environment(**variables), capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory, python):
    """Repositories by name, whose projects are all installed editable by one call of pip."""
    siblings = {
        "apps/svc/pyproject.toml": PROJECT.format("svc") + '\n[tool.setuptools]\npackages = ["svc"]\n',
        "apps/svc/svc/__init__.py": "from core import slow\n",
        "apps/svc/tests/conftest.py": CLOCK,
        "apps/svc/tests/test_svc.py": USES.format(module="svc"),
    }
    for name in ("core", "other"):
        siblings[f"libs/{name}/pyproject.toml"] = PROJECT.format(name)
        siblings[f"libs/{name}/src/{name}/__init__.py"] = work(slow=100)
    grown = {
        "pyproject.toml": PROJECT.format("grown"),
        "src/grown/__init__.py": work(slow=100),
        "tests/conftest.py": CLOCK,
        "tests/test_old.py": USES.format(module="grown"),
    }
    spaced = {
        "pyproject.toml": PROJECT.format("spaced") + '\n[tool.setuptools.packages.find]\ninclude = ["space*"]\n',
        "space/old/__init__.py": work(slow=100),
        "tests/conftest.py": CLOCK,
        "tests/test_old.py": USES.format(module="space.old"),
    }
    made = {
        name: Repository(tmp_path_factory.mktemp(name), {**files, ".gitignore": IGNORED})
        for name, files in (("siblings", siblings), ("grown", grown), ("spaced", spaced))
    }
    folders = [made["siblings"].root / place for place in ("libs/core", "libs/other", "apps/svc")]
    install(python, *folders, made["grown"].root, made["spaced"].root)
    return made


@pytest.fixture
def siblings(installed):
    """Two libraries and a service that uses one of them, in one repository."""
    return installed["siblings"]


def test_a_slowdown_in_a_sibling_project_that_is_used_is_found(siblings, python, tmp_path):
    siblings.at("start", {"libs/core/src/core/__init__.py": work(slow=200)})
    code, text = gated(siblings, tmp_path, python=python, at="apps/svc")
    assert code == 1, text
    assert "tests/test_svc.py::test_slow" in text
    assert "slower" in text


def test_a_sibling_project_that_nothing_loads_does_not_count(siblings, python, tmp_path):
    siblings.at("start", {"libs/other/src/other/__init__.py": work(slow=200)})
    code, text = gated(siblings, tmp_path, COLLECT, python=python, at="apps/svc")
    assert (code, "1 unchanged" in text) == (0, True), text


def test_a_sibling_project_that_is_opened_as_data_counts(siblings, python, tmp_path):
    opened = USES.format(module="svc").replace(
        "def test_slow(benchmark):",
        "from pathlib import Path\n\n\ndef test_slow(benchmark):\n"
        '    assert (Path(__file__).parents[3] / "libs/other/pyproject.toml").read_text()',
    )
    changed = {"libs/other/src/other/__init__.py": work(slow=200), "apps/svc/tests/test_svc.py": opened}
    siblings.at("start", changed)
    _, text = gated(siblings, tmp_path, COLLECT, python=python, at="apps/svc")
    assert "1 to time" in text, text


def test_a_sibling_project_that_is_installed_as_a_copy_is_run_from_each_sides_tree(tmp_path):
    files = {
        "libs/core/pyproject.toml": PROJECT.format("core"),
        "libs/core/src/core/__init__.py": work(slow=100),
        "apps/svc/pyproject.toml": PROJECT.format("svc"),
        "apps/svc/svc/__init__.py": "from core import slow\n",
        "apps/svc/tests/conftest.py": CLOCK,
        "apps/svc/tests/test_svc.py": USES.format(module="svc"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    info = tmp_path / "site/core-1.dist-info"
    made.at("start", {
        "libs/core/src/core/__init__.py": work(slow=200),
        str(info / "METADATA"): "Metadata-Version: 2.1\nName: core\nVersion: 1\n",
        str(info / "RECORD"): "core/__init__.py,,\n",
        str(info / "direct_url.json"): json.dumps({"url": (made.root / "libs/core").as_uri(), "dir_info": {}}),
        str(info.parent / "core/__init__.py"): work(slow=200),
    })  # fmt: skip
    code, text = gated(made, tmp_path, COLLECT, at="apps/svc", PYTHONPATH=str(info.parent))
    assert (code, "1 to time" in text) == (0, True), text


@pytest.mark.parametrize(("changed", "uses"), [(True, USES), (True, USES_LATE), (False, USES)])
def test_a_changed_compiled_sibling_project_that_is_installed_as_a_copy_asks_for_a_build(tmp_path, changed, uses):
    files = {
        "libs/fast/pyproject.toml": PROJECT.format("fast"),
        "libs/fast/lib.rs": "// first\n",
        "apps/svc/pyproject.toml": PROJECT.format("svc"),
        "apps/svc/svc/__init__.py": "from fast import slow\n",
        "apps/svc/tests/conftest.py": CLOCK,
        "apps/svc/tests/test_svc.py": uses.format(module="svc"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    info = tmp_path / "site/fast-1.dist-info"
    made.at("start", {
        "libs/fast/lib.rs": "// second\n" if changed else "// first\n",
        "apps/svc/svc/__init__.py": "from fast import slow\n" + "\n" * (not changed),
        str(info / "METADATA"): "Metadata-Version: 2.1\nName: fast\nVersion: 1\n",
        str(info / "RECORD"): f"fast/__init__.py,,\n{COMPILED},,\n",
        str(info / "direct_url.json"): json.dumps({
            "url": (made.root / "libs/fast").as_uri(),
            "dir_info": {"editable": changed},  # maturin says so of a copy
        }),
        str(info.parent / "fast/__init__.py"): work(slow=100),
    })  # fmt: skip
    code, text = gated(made, tmp_path, COLLECT, at="apps/svc", PYTHONPATH=str(info.parent))
    if not changed:
        assert (code, "1 to time" in text) == (0, True), text
        return
    assert code == 2, text
    assert f"base imports fast from {info.parent / 'fast/__init__.py'} instead of its own tree" in text
    assert "--gate-build" in text


def test_the_root_of_pytest_may_lie_below_the_package(tmp_path):
    files = {
        "valid/__init__.py": work(slow=100),
        "tests/benchmarks.ini": "[pytest]\n",
        "tests/unit/benchmarks/conftest.py": CLOCK,
        "tests/unit/benchmarks/test_valid.py": USES.format(module="valid"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    made.at("start", {"valid/__init__.py": work(slow=200)})
    code, text = gated(made, tmp_path, COLLECT, "-c", "tests/benchmarks.ini", "tests/unit/benchmarks")
    assert (code, "1 benchmark, 1 to time" in text) == (0, True), text
    assert "unit/benchmarks/test_valid.py::test_slow" in text


def test_another_target_of_a_linked_package_is_a_change(tmp_path):
    files = {f"versions/{name}/__init__.py": work(slow=units) for name, units in (("one", 100), ("two", 200))}
    files |= {"tests/conftest.py": CLOCK, "tests/test_pkg.py": USES.format(module="pkg"), ".gitignore": IGNORED}
    made = Repository(tmp_path / "repository", files)
    (made.root / "pkg").symlink_to("versions/one")
    made.commit("linked", {})
    (made.root / "pkg").unlink()
    (made.root / "pkg").symlink_to("versions/two")
    code, text = gated(made, tmp_path, COLLECT, against="linked")
    assert (code, "1 to time" in text) == (0, True), text


def test_settings_of_the_folder_where_pytest_is_started_count_below_its_root(tmp_path):
    files = {
        "pytest.ini": "[pytest]\n",
        "part/pyproject.toml": '[tool.rlgauge]\nignore = ["*.txt"]\n',
        "part/pkg/__init__.py": work(slow=100),
        "part/data.txt": "1",
        "part/tests/conftest.py": CLOCK,
        "part/tests/test_part.py": USES.format(module="pkg"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    made.at("start", {"part/data.txt": "2"})
    code, text = gated(made, tmp_path, COLLECT, at="part")
    assert (code, "1 unchanged" in text) == (0, True), text


@pytest.mark.parametrize(
    ("project", "old", "new", "module"),
    [
        ("grown", "src/grown/__init__.py", "src/more/__init__.py", "more"),
        ("spaced", "space/old/__init__.py", "space/new/__init__.py", "space.new"),  # a namespace package
    ],
)
def test_a_test_of_a_module_that_base_lacks_is_new_in_an_installed_project(
    installed, python, tmp_path, project, old, new, module
):
    made = installed[project]
    changed = {old: work(slow=100) + "# changed\n", new: work(slow=100)}
    made.at("start", {**changed, "tests/test_new.py": USES.format(module=module)})
    _, text = gated(made, tmp_path, python=python)
    assert "1 new" in text, text
    assert "test_new.py::test_slow" in text


@pytest.mark.slow
def test_a_project_has_its_installed_version_in_the_environment_of_a_lock_file(tmp_path, python):
    settings = '\n[tool.setuptools]\npackages = ["locked"]\n\n[tool.rlgauge]\nlock = "lock.txt"\n'
    version = "\n\nfrom importlib.metadata import version\n\nVERSION = version('locked')\n"
    files = {
        "pyproject.toml": PROJECT.format("locked") + settings,
        "lock.txt": f"./{WHEEL}\n",
        WHEEL: wheel(),
        "locked/__init__.py": work(slow=100) + version,
        "tests/conftest.py": CLOCK,
        "tests/test_locked.py": USES.format(module="locked"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    install(python, made.root)
    made.write({"lock.txt": f"./{BARE}\n", BARE: wheel("bare")})
    code, text = gated(made, tmp_path, python=python)
    assert (code, "passed: 1 ok" in text) == (0, True), text


def test_an_import_from_the_working_tree_is_refused(tmp_path):
    made = Repository(tmp_path / "repository", {"pkg/__init__.py": "", "hidden/deep.py": work(slow=100)})
    front = f"import sys\n\nsys.path.insert(0, {str(made.root / 'hidden')!r})\n"
    made.commit("tests", {"tests/conftest.py": front + CLOCK, "tests/test_deep.py": USES.format(module="deep")})
    code, text = gated(made, tmp_path, against="tests")
    assert code == 2, text
    assert f"base imports {made.root / 'hidden/deep.py'} from the repository instead of its own tree" in text


def test_each_side_imports_its_source_although_a_build_in_an_ignored_folder_is_on_the_path(tmp_path):
    files = {"src/pkg/__init__.py": work(slow=100), "tests/conftest.py": CLOCK, ".gitignore": f"{IGNORED}build/\n"}
    made = Repository(tmp_path / "repository", files | {"tests/test_pkg.py": USES.format(module="pkg")})
    # such as build/__editable__.pkg-1, which a strict editable install of setuptools adds to the path
    made.at("start", dict.fromkeys(("src/pkg/__init__.py", "build/lib/pkg/__init__.py"), work(slow=200)))
    code, text = gated(made, tmp_path, PYTHONPATH=str(made.root / "build/lib"))
    assert (code, "1 slower" in text) == (1, True), text


def test_folders_may_be_links_or_named_like_other_modules_and_names_of_files_need_not_be_utf_8(tmp_path):
    files = {
        "src/queue.py": "",
        "platform/tool.py": "",
        "pluggy/release.py": "VERSION = 1\n",
        "pkg/__init__.py": work(slow=100),
        os.fsdecode(b"pkg/\xe9.txt"): "",
        "python/tests/conftest.py": f"{CLOCK}\nfrom platform import system\nfrom queue import Queue\n",
        "python/tests/test_pkg.py": USES.format(module="pkg"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    (made.root / "tests").symlink_to("python/tests")
    made.commit("linked", {})
    made.write({"pkg/__init__.py": work(slow=100) + "# changed\n"})
    code, text = gated(made, tmp_path, COLLECT, "tests", against="linked")
    assert (code, "1 benchmark, 1 to time" in text) == (0, True), text


def test_base_runs_without_a_conftest_that_head_has_moved(tmp_path):
    option = '\n\ndef pytest_addoption(parser):\n    parser.addoption("--toys")  # pytest rejects a second one\n'
    files = {"pkg/__init__.py": work(slow=100), "conftest.py": CLOCK + option, ".gitignore": IGNORED}
    made = Repository(tmp_path / "repository", files | {"tests/test_pkg.py": USES.format(module="pkg")})
    moved = {"conftest.py": None, "tests/conftest.py": CLOCK + option}
    made.at("start", moved)
    code, text = gated(made, tmp_path, COLLECT)
    assert (code, "1 unchanged" in text) == (0, True), text
    made.at("start", moved | {"pkg/__init__.py": work(slow=200)})
    code, text = gated(made, tmp_path, COLLECT)
    assert (code, "1 to time" in text) == (0, True), text


def test_an_environment_of_conda_in_the_repository_is_no_code_under_test(tmp_path):
    files = {"pkg/__init__.py": work(slow=100), "tests/conftest.py": CLOCK, ".gitignore": f"{IGNORED}.pixi/\n"}
    made = Repository(tmp_path / "repository", files | {"tests/test_pkg.py": USES.format(module="pkg")})
    made.write({"pkg/__init__.py": work(slow=100) + "# changed\n"})
    library, prefix = Path(sysconfig.get_path("stdlib")), made.root / ".pixi/envs/default"
    inside = prefix / library.relative_to(sys.base_prefix)
    made.write({str(prefix / "conda-meta/history"): "", str(inside / "site-packages/outer.pth"): outer()})
    for path in library.iterdir():
        if path.name != "site-packages":
            (inside / path.name).symlink_to(path)
    python = Path(sys.executable).resolve()
    code, text = gated(made, tmp_path, COLLECT, python=python, PYTHONHOME=str(prefix))
    assert (code, "1 to time" in text) == (0, True), text


FAST = {
    "fast/__init__.py": "try:\n    from ._fast import slow\nexcept ImportError:\n    from .plain import slow\n",
    "fast/plain.py": work(slow=100),
    "tests/conftest.py": CLOCK,
    "tests/test_fast.py": USES.format(module="fast"),
    ".gitignore": IGNORED + "*.so\n",
}
COMPILED = "fast/_fast.cpython-311-x86_64-linux-gnu.so"


def test_a_compiled_file_that_git_ignores_asks_for_a_build(tmp_path):
    made = Repository(tmp_path / "repository", FAST)
    made.at("start", {COMPILED: "", "fast/plain.py": work(slow=101)})
    code, text = gated(made, tmp_path)
    assert code == 2, text
    assert f"{COMPILED} is compiled and not in git" in text
    assert "--gate-build" in text


DEPENDING = {
    "pyproject.toml": '[tool.rlgauge.depends]\n"tests/test_one.py*" = ["pkg/__init__.py", "pkg/o*.py"]\n',
    "pkg/__init__.py": "",
    "pkg/one.py": f"import contextlib\n\nwith contextlib.suppress(OSError):\n    open('absent')\n\n{work(slow=100)}",
    "pkg/two.py": work(slow=100),
    "tests/conftest.py": CLOCK,
    "tests/test_one.py": USES.format(module="pkg.one"),
    "tests/test_two.py": USES.format(module="pkg.two"),
    ".gitignore": IGNORED,
}
LATE = """from contextlib import suppress

import numpy as np

import pkg

NUMBERS = np.zeros(50)


def test_lazy(benchmark):
    benchmark(pkg.slow, NUMBERS)


def test_again(benchmark):
    from pkg.two import slow

    benchmark(slow, NUMBERS)


def test_optional(benchmark):
    with suppress(ImportError):
        from pkg import extra
    benchmark(pkg.slow, NUMBERS)
"""


def test_depends_narrows_what_a_test_depends_on(tmp_path):
    made = Repository(tmp_path / "repository", DEPENDING)
    made.at("start", {"pkg/two.py": work(slow=200)})
    code, text = gated(made, tmp_path, COLLECT)
    assert (code, "1 unchanged, 1 to time" in text) == (0, True), text
    made.write({"tests/conftest.py": f"{CLOCK}\nimport subprocess\n\nsubprocess.run(['true'])\n"})
    code, text = gated(made, tmp_path, COLLECT)
    assert (code, "2 to time" in text) == (0, True), text  # the process may have opened any file


READS_ROWS = """import os

here = os.getcwd()
os.chdir(os.path.dirname(__file__))
with open("rows.json") as file:
    ROWS = file.read()
os.chdir(here)
"""


def test_a_file_that_is_loaded_and_not_depended_on_is_an_error_that_names_it(tmp_path):
    files = {
        "pyproject.toml": '[tool.rlgauge.depends]\n"*" = ["pkg/__init__.py"]\n',
        "pkg/__init__.py": "def slow(numbers):\n    from pkg import two\n\n    return two.slow(numbers)\n",
        "pkg/two.py": work(slow=100),
        "pkg/extra.py": "",
        "pkg/table.py": READS_ROWS,
        "pkg/rows.json": "[1]\n",
        "tests/conftest.py": CLOCK,
        "tests/test_late.py": LATE,
        "tests/data/__init__.py": "",
        "tests/data/conftest.py": "import pkg.table\n",
        "tests/data/test_rows.py": USES.format(module="pkg"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    made.at("start", {"pkg/two.py": work(slow=200), "pkg/extra.py": None, "pkg/rows.json": "[2]\n"})
    code, text = gated(made, tmp_path)
    assert code == 2, text
    for test, file in (
        ("tests/test_late.py::test_lazy", "pkg/two.py"),
        ("tests/test_late.py::test_again", "pkg/two.py"),  # imported by an earlier test
        ("tests/test_late.py::test_optional", "pkg/extra.py"),  # which base alone has
        ("tests/data/test_rows.py::test_slow", "pkg/rows.json"),  # read by a module that a conftest.py imports
    ):
        assert f"{test}: error, it loads {file}: add the file to its depends in [tool.rlgauge]" in text, text


def test_lock_files_always_count_and_a_base_whose_benchmarks_cannot_be_listed_is_reported(tmp_path):
    files = {"uv.lock": "a==1\n", "tests/conftest.py": "import no_such_module\n"}
    made = Repository(tmp_path / "repository", DEPENDING | files)
    made.at("start", {"uv.lock": "a==2\n", "tests/requirements.txt": "b==1\n", "tests/conftest.py": CLOCK})
    code, text = gated(made, tmp_path)
    assert (code, "2 to time" in text) == (0, True), text
    assert "base and head differ in tests/requirements.txt, uv.lock, but both run with the packages that are " in text
    assert "base's own benchmarks cannot be listed, so none is reported as gone: " in text


def test_a_test_that_base_lacks_too_is_not_gone_against_an_anchor(tmp_path):
    made = Repository(tmp_path / "repository", DEPENDING)
    made.commit("removed", {"tests/test_two.py": None})
    made.at("removed", {"pkg/one.py": work(slow=101)})
    _, text = gated(made, tmp_path, "--gate-anchor=start", COLLECT, against="removed")
    assert (text.count("1 benchmark, 1 to time"), "gone" in text) == (2, False), text


def test_a_helper_installed_editable_inside_the_benchmarks_has_a_copy_on_each_side(tmp_path):
    helper = {"tests/tools/src/helper/__init__.py": "from pkg.one import slow\n\n__all__ = ['slow']\n"}
    made = Repository(tmp_path / "repository", DEPENDING | helper | {"tests/test_one.py": USES.format(module="helper")})
    starts = f"import sys\n\nsys.path.append({str(made.root / 'tests/tools/src')!r})\n"  # in place of a .pth file
    made.at("start", {"pkg/two.py": work(slow=200), str(tmp_path / "site/sitecustomize.py"): starts})
    code, text = gated(made, tmp_path, COLLECT, PYTHONPATH=str(tmp_path / "site"))
    # both sides run test_one.py once to find that it is unchanged
    assert (code, "1 unchanged, 1 to time" in text) == (0, True), text


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [("python", 0, "1 to time"), ("a/b", 2, "base imports sub from")],
)
def test_a_project_of_the_repository_is_not_imported_from_where_it_is_installed(tmp_path, source, code, words):
    file = f"apps/sub/{source}/sub/__init__.py"
    files = {file: work(slow=100), "apps/sub/pyproject.toml": PROJECT.format("Sub"), ".gitignore": IGNORED}
    files |= {"tests/conftest.py": CLOCK, "tests/test_sub.py": USES.format(module="sub")}
    made = Repository(tmp_path / "repository", files)
    site = tmp_path / "site"
    made.at("start", {
        file: work(slow=100) + "# changed\n",
        str(site / "sub/__init__.py"): work(slow=100),
        str(site / "sub-1.dist-info/METADATA"): "Metadata-Version: 2.1\nName: sub\nVersion: 1\n",
        str(site / "sub-1.dist-info/RECORD"): "sub/__init__.py,,\n",
    })  # fmt: skip
    found, text = gated(made, tmp_path, COLLECT, PYTHONPATH=str(site))
    assert (found, words in text) == (code, True), text


@pytest.fixture
def with_submodule(tmp_path):
    inner = Repository(tmp_path / "inner", {"inside/__init__.py": work(slow=100)})
    inner.commit("slower", {"inside/__init__.py": work(slow=200)})
    inner.git("checkout", "--quiet", "start")
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["vendor"]\n',
        "pkg/__init__.py": "from inside import slow\n",
        "tests/conftest.py": CLOCK,
        "tests/test_pkg.py": USES.format(module="pkg"),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "outer", files)
    made.git("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(inner.root), "vendor")
    made.commit("vendored", {})
    return made


@pytest.mark.parametrize("committed", [False, True])
def test_a_moved_commit_of_a_submodule_is_a_change(with_submodule, tmp_path, committed):
    with_submodule.git("-C", "vendor", "checkout", "--quiet", "slower")
    if committed:
        with_submodule.commit("moved", {})
    code, text = gated(with_submodule, tmp_path, COLLECT, against="vendored")
    assert (code, "1 to time" in text) == (0, True), text


def test_a_submodule_that_is_absent_is_named_with_the_command_that_gets_it(with_submodule, tmp_path):
    with_submodule.git("submodule", "deinit", "--quiet", "--force", "vendor")
    with_submodule.write({"pkg/__init__.py": work(slow=100)})
    code, text = gated(with_submodule, tmp_path, against="vendored")
    assert code == 2, text
    assert "git submodule update --init vendor" in text


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 4\n"


def test_missing_lfs_objects_are_named_and_present_ones_used(tmp_path):
    there = "a" * 64
    files = {
        "pkg/__init__.py": work(slow=100),
        "pkg/table.bin": POINTER.format(there),
        "tests/conftest.py": CLOCK,
        "tests/test_pkg.py": USES.format(module="pkg").replace(
            "def test_slow(benchmark):",
            "from pathlib import Path\n\nimport pkg\n\n\ndef test_slow(benchmark):\n"
            '    assert Path(pkg.__file__).with_name("table.bin").read_text() == "here"',
        ),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    made.commit("tracked", {".gitattributes": "*.bin filter=lfs -text\n"})
    made.at("tracked", {"pkg/__init__.py": work(slow=100) + "# changed\n"})
    code, text = gated(made, tmp_path, against="tracked")
    assert code == 2, text
    assert "LFS objects are not in this clone: pkg/table.bin" in text
    stored = made.root / ".git/lfs/objects" / there[:2] / there[2:4] / there
    stored.parent.mkdir(parents=True)
    stored.write_text("here")
    (made.root / "pkg/table.bin").write_text("here")
    _, text = gated(made, tmp_path, against="tracked")
    assert "1 to time" in text
    assert "error" not in text


def test_a_file_that_git_ignores_is_named_when_a_test_reads_it(tmp_path):
    files = {
        "pkg/__init__.py": work(slow=100),
        "tests/conftest.py": CLOCK,
        "tests/test_pkg.py": USES.format(module="pkg").replace(
            "def test_slow(benchmark):",
            'from pathlib import Path\n\n\ndef test_slow(benchmark):\n    Path("data/numbers.txt").read_text()',
        ),
        ".gitignore": f"{IGNORED}data/\n",
    }
    made = Repository(tmp_path / "repository", files)
    made.write({"pkg/__init__.py": work(slow=100) + "# changed\n", "data/numbers.txt": "1"})
    code, text = gated(made, tmp_path)
    assert code == 2, text
    assert "; the working tree has data/numbers.txt, but git ignores it" in text, text


def test_only_what_is_included_is_laid_out(tmp_path):
    files = {
        "pyproject.toml": '[tool.rlgauge]\ninclude = ["pkg"]\n',
        "pkg/__init__.py": work(slow=100),
        "large/data.bin": "0" * 100,
        "tests/conftest.py": CLOCK,
        "tests/test_pkg.py": USES.format(module="pkg").replace(
            "def test_slow(benchmark):",
            "from pathlib import Path\n\n\ndef test_slow(benchmark):\n"
            '    assert not (Path(__file__).parents[1] / "large").exists()',
        ),
        ".gitignore": IGNORED,
    }
    made = Repository(tmp_path / "repository", files)
    made.at("start", {"pkg/__init__.py": work(slow=200)})
    code, text = gated(made, tmp_path)
    assert code == 1, text


BY_NAME = """import sys
from pathlib import Path

import numpy as np

tools = next(folder for folder in {start}.parents if folder.name == "toy") / "tools"


def test_slow(benchmark):
    sys.path.insert(0, str(tools))
    import helper

    benchmark(helper.slow, np.zeros(50))
"""


def test_code_that_a_test_finds_by_the_name_of_the_repository_is_that_of_its_side(tmp_path):
    wrong = BY_NAME.format(start=f"Path({str(tmp_path / 'toy/tests')!r})").replace("helper", "other")
    tests = {
        "tests/test_own.py": BY_NAME.format(start="Path(__file__)") + "\n\ntest_again = test_slow\n",
        "tests/test_wrong.py": f"{wrong}\n\ntest_again = test_slow\n",
        "tests/conftest.py": CLOCK,
    }
    script = {"profile.py": "raise SystemExit('a script')\n"} if sys.version_info >= (3, 11) else {}
    tools = {f"tools/{name}.py": work(slow=100) for name in ("helper", "other")}
    toy = Repository(tmp_path / "toy", tests | tools | {"pkg.py": "", **script})
    toy.write({"tools/helper.py": work(slow=120), "tools/other.py": work(slow=120)})
    ran = toy.gate("HEAD", tmp_path, PYTHONSAFEPATH="1")  # from Python 3.11, as with the command pytest
    assert ran.findings["tests/test_own.py::test_slow"] == ("slower",), ran.text
    for name in ("test_slow", "test_again"):
        verdict, why = ran.findings[f"tests/test_wrong.py::{name}"]
        assert (verdict, f"it imports {toy.root / 'tools/other.py'} from the repository" in why) == ("error", True)
