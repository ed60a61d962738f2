"""Repository layouts: where the gate finds the code under test, and when it is unchanged."""

import os
import subprocess
import sys

import pytest

from .made import CLOCK, QUICK, Repository, dist_info, environment, work
from .test_locked import BARE, WHEEL, wheel

PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
version = "1"
name = "{}"
"""
COLLECT = "--collect-only"  # the gate only finds what to time, and checks what each side imports
USES = """from {module} import slow


def test_slow(benchmark):
    benchmark(slow, [0.0] * 50)
"""
USES_LATE = """def test_slow(benchmark):
    from {module} import slow

    benchmark(slow, [0.0] * 50)
"""
CHANGED = work(slow=100) + "# changed\n"


def files_timing(*modules, folder="tests", uses=USES):
    """Return the files of a repository with a benchmark of each module."""
    files = {".gitignore": "__pycache__/\n*.egg-info/\n.rlgauge/\nbuild/\n", f"{folder}/conftest.py": CLOCK}
    return files | {f"{folder}/test_{name.partition('.')[0]}.py": uses.format(module=name) for name in modules}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Create an environment in which projects can be installed; return its interpreter."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    places = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "outer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in places))
    return folder / "bin/python"


def install(python, *projects):
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    for project in projects:
        command += ["--editable", project]
    subprocess.run(command, check=True, env=environment())


def gated(repository, tmp_path, *options, python=sys.executable, at="", against="start", code=0, **variables):
    """Run the gate in a directory of a repository; return its output."""
    words = repository.command(against, tmp_path, *options, rule=QUICK)
    done = subprocess.run(
        [python, "-m", *map(str, words)],
        cwd=repository.root / at, env=environment(**variables), capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory, python):
    """Repositories by name, whose projects are all installed editable by one call of pip."""
    siblings = {  # two libraries and a service that uses one of them
        "apps/svc/pyproject.toml": PROJECT.format("svc") + '\n[tool.setuptools]\npackages = ["svc"]\n',
        "apps/svc/svc/__init__.py": "from core import slow\n",
        **files_timing("svc", folder="apps/svc/tests"),
    }
    for name in ("core", "other"):
        siblings[f"libs/{name}/pyproject.toml"] = PROJECT.format(name)
        siblings[f"libs/{name}/src/{name}/__init__.py"] = work(slow=100)
    grown = {"pyproject.toml": PROJECT.format("grown"), "src/grown/__init__.py": work(slow=100)} | files_timing("grown")
    spaced = {
        "pyproject.toml": PROJECT.format("spaced") + '\n[tool.setuptools.packages.find]\ninclude = ["space*"]\n',
        "space/old/__init__.py": work(slow=100),
        **files_timing("space.old"),
    }
    rooted = {  # the root is the package, and has its name
        "pyproject.toml": PROJECT.format("rooted")
        + '\n[tool.setuptools]\npackages = ["rooted"]\npackage-dir = { rooted = "." }\n',
        "__init__.py": "",
        "core.py": work(slow=100),
        **files_timing("rooted.core"),
    }
    made = {
        name: Repository(tmp_path_factory.mktemp(name) / name, files)
        for name, files in (("siblings", siblings), ("grown", grown), ("spaced", spaced), ("rooted", rooted))
    }
    folders = [made["siblings"].root / place for place in ("libs/core", "libs/other", "apps/svc")]
    install(python, *folders, *(made[name].root for name in ("grown", "spaced", "rooted")))
    return made


def test_a_slowdown_in_a_sibling_project_that_is_used_is_found(installed, python, tmp_path):
    installed["siblings"].at("start", {"libs/core/src/core/__init__.py": work(slow=200)})
    text = gated(installed["siblings"], tmp_path, python=python, at="apps/svc", code=1)
    assert "tests/test_svc.py::test_slow: slower" in text


def test_a_slowdown_in_a_package_that_is_the_root_of_the_repository_is_found(installed, python, tmp_path):
    installed["rooted"].at("start", {"core.py": work(slow=200)})
    assert "1 slower" in gated(installed["rooted"], tmp_path, python=python, code=1)


@pytest.mark.parametrize(("opened", "state"), [(False, "1 unchanged"), (True, "1 to time")])
def test_a_sibling_project_that_is_not_imported_counts_if_a_test_opens_it(installed, python, tmp_path, opened, state):
    reads = "(Path(__file__).parents[3] / 'libs/other/pyproject.toml').read_text()\n    benchmark("
    test = "from pathlib import Path\n\n" + USES.format(module="svc").replace("benchmark(slow", f"{reads}slow")
    changed = {"libs/other/src/other/__init__.py": work(slow=200)}
    installed["siblings"].at("start", changed | ({"apps/svc/tests/test_svc.py": test} if opened else {}))
    assert state in gated(installed["siblings"], tmp_path, COLLECT, python=python, at="apps/svc")


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
    installed[project].at("start", {old: CHANGED, new: CHANGED, "tests/test_new.py": USES.format(module=module)})
    text = gated(installed[project], tmp_path, python=python)
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
    }
    made = Repository(tmp_path / "repository", files | files_timing("locked"))
    install(python, made.root)
    made.write({"lock.txt": f"./{BARE}\n", BARE: wheel("bare")})
    assert "passed: 1 ok" in gated(made, tmp_path, python=python)


def copied(site, name, *compiled, url=None):
    """Return the files of a project that is installed as a copy in a directory on the path, by absolute path."""
    record = {"url": url.as_uri(), "dir_info": {"editable": bool(compiled)}} if url else {}  # as maturin calls a copy
    info = dist_info(site, name, f"{name}/__init__.py", *compiled, **record)
    return info | {str(site / name / "__init__.py"): work(slow=100)}


LIBRARY = "fast/_fast.cpython-311-x86_64-linux-gnu.so"
SERVICE = {"apps/svc/pyproject.toml": PROJECT.format("svc"), "apps/svc/svc/__init__.py": "from core import slow\n"}


def test_sibling_projects_that_are_installed_as_copies_are_run_from_each_sides_tree(tmp_path):
    core, sub = "libs/core/src/core/__init__.py", "apps/sub/python/sub/__init__.py"
    files = SERVICE | files_timing("svc", "sub", "fast", folder="apps/svc/tests")
    files |= {"libs/core/pyproject.toml": PROJECT.format("core"), core: work(slow=100)}
    files |= {"apps/sub/pyproject.toml": PROJECT.format("Sub"), sub: work(slow=100)}
    files |= {"libs/fast/pyproject.toml": PROJECT.format("fast"), "libs/fast/lib.rs": ""}  # compiled, and unchanged
    made, site = Repository(tmp_path / "repository", files), tmp_path / "site"
    made.at("start", {core: CHANGED, sub: CHANGED, **copied(site, "sub")})
    for name, compiled in (("core", []), ("fast", [LIBRARY])):
        made.write(copied(site, name, *compiled, url=made.root / "libs" / name))
    assert "3 benchmarks, 3 to time" in gated(made, tmp_path, COLLECT, at="apps/svc", PYTHONPATH=str(site))


@pytest.mark.parametrize(
    ("source", "compiled", "uses"),
    [("lib.rs", [LIBRARY], USES_LATE), ("a/b/fast/__init__.py", [], USES)],
    ids=["compiled", "in a folder that is not on the path"],
)
def test_a_changed_sibling_project_that_is_only_found_where_it_is_installed_asks_for_a_build(
    tmp_path, source, compiled, uses
):
    files = {"libs/fast/pyproject.toml": PROJECT.format("fast"), f"libs/fast/{source}": work(slow=100)}
    made = Repository(
        tmp_path / "repository", SERVICE | files | files_timing("fast", folder="apps/svc/tests", uses=uses)
    )
    url = made.root / "libs/fast" if compiled else None
    made.at("start", {f"libs/fast/{source}": CHANGED, **copied(tmp_path / "site", "fast", *compiled, url=url)})
    made.write({"apps/svc/svc/__init__.py": ""})
    text = gated(made, tmp_path, COLLECT, at="apps/svc", PYTHONPATH=str(tmp_path / "site"), code=2)
    assert f"base imports fast from {tmp_path / 'site/fast/__init__.py'} instead of its own tree" in text
    assert "--gate-build" in text


def test_a_test_is_not_unchanged_if_it_imports_a_changed_sibling_project_from_where_it_is_installed(tmp_path):
    late = "def slow(numbers):\n    from fast import slow\n\n    return slow(numbers)\n"
    files = SERVICE | files_timing("svc", folder="apps/svc/tests") | {"apps/svc/svc/__init__.py": late}
    files |= {"libs/fast/pyproject.toml": PROJECT.format("fast"), "libs/fast/lib.rs": ""}
    made, site = Repository(tmp_path / "repository", files), tmp_path / "site"
    copy = copied(site, "fast", LIBRARY, url=made.root / "libs/fast")
    made.at("start", {"libs/fast/lib.rs": "// changed\n", **copy})
    text = gated(made, tmp_path, COLLECT, at="apps/svc", PYTHONPATH=str(site), code=2)
    assert f"base imports fast from {site / 'fast/__init__.py'} instead" in text


def test_each_side_has_its_source_although_a_build_is_on_the_path_and_metadata_beside_it_unless_installed(tmp_path):
    versions = "\n\nfrom importlib.metadata import version\n\nassert version('legacy') + version('both') == '21'\n"
    made = Repository(tmp_path / "repository", {"src/legacy.py": work(slow=100) + versions, **files_timing("legacy")})
    info = "Metadata-Version: 2.1\nName: {}\nVersion: 2\n"  # as by setup.py develop
    info = {f"src/{name}.egg-info/PKG-INFO": info.format(name) for name in ("legacy", "both")}
    # such as build/__editable__.legacy-1, which a strict editable install of setuptools adds to the path
    slower = dict.fromkeys(("src/legacy.py", "build/lib/legacy.py"), work(slow=200) + versions)
    made.at("start", {**slower, **info, **copied(tmp_path / "site", "both")})
    text = gated(made, tmp_path, PYTHONPATH=f"{made.root}/build/lib:{tmp_path}/site:{made.root}/src", code=1)
    assert "1 slower" in text


def test_the_root_of_pytest_may_lie_below_the_package(tmp_path):
    files = {"valid/__init__.py": work(slow=100), "tests/benchmarks.ini": "[pytest]\n"}
    made = Repository(tmp_path / "repository", files | files_timing("valid", folder="tests/unit/benchmarks"))
    made.at("start", {"valid/__init__.py": work(slow=200)})
    text = gated(made, tmp_path, COLLECT, "-c", "tests/benchmarks.ini", "tests/unit/benchmarks")
    assert "1 benchmark, 1 to time" in text
    assert "unit/benchmarks/test_valid.py::test_slow" in text


def test_an_import_from_the_working_tree_is_refused_although_a_link_leads_to_it(tmp_path):
    made = Repository(tmp_path / "real/repository", {"pkg/__init__.py": "", "hidden/deep.py": work(slow=100)})
    (tmp_path / "link").symlink_to("real")
    hidden = tmp_path / "link/repository/hidden"
    front = f"import sys\n\nsys.path.insert(0, {str(hidden)!r})\n"
    made.commit("tests", files_timing("deep") | {"tests/conftest.py": front + CLOCK})
    text = gated(made, tmp_path, against="tests", code=2)
    assert f"base imports {hidden / 'deep.py'} from the repository instead of its own tree" in text


def test_an_import_from_a_sides_own_tree_through_a_link_is_allowed(tmp_path):
    made = Repository(tmp_path / "real/repository", {"pkg/__init__.py": "", "hidden/deep.py": work(slow=100)})
    (tmp_path / "link").symlink_to("real")
    front = f"import os\nimport sys\n\nown = os.path.relpath(os.path.dirname(__file__), {str(tmp_path / 'real')!r})\n"
    front += f"sys.path.insert(0, os.path.join({str(tmp_path / 'link')!r}, own, '../hidden'))\n"
    made.commit("tests", files_timing("deep") | {"tests/conftest.py": front + CLOCK})
    assert "1 unchanged" in gated(made, tmp_path, COLLECT, against="tests")


def test_folders_may_be_links_or_named_like_other_modules_and_names_of_files_need_not_be_utf_8(tmp_path):
    files = {
        "src/queue.py": "",
        "platform/tool.py": "",
        "pluggy/release.py": "VERSION = 1\n",
        "shared/release.py": "VERSION = 1\n",
        "pkg/__init__.py": work(slow=100),
        os.fsdecode(b"pkg/\xe9.txt"): "",
        **files_timing("pkg", folder="python/tests"),
        "python/tests/conftest.py": f"{CLOCK}\nfrom platform import system\nfrom queue import Queue\nimport shared\n",
    }
    made = Repository(tmp_path / "repository", files)
    (made.root / "tests").symlink_to("python/tests")
    made.commit("linked", {})
    site = tmp_path / "dist-packages"  # as on Debian
    made.write({"pkg/__init__.py": CHANGED, str(site / "shared/__init__.py"): ""})
    assert "1 benchmark, 1 to time" in gated(made, tmp_path, COLLECT, "tests", against="linked", PYTHONPATH=str(site))


DEPENDING = {
    "pyproject.toml": '[tool.rlgauge.depends]\n"tests/test_one*" = ["pkg/__init__.py", "pkg/o*.py"]\n',
    "pkg/__init__.py": "",
    "pkg/one.py": f"import contextlib\n\nwith contextlib.suppress(OSError):\n    open('absent')\n\n{work(slow=100)}",
    "pkg/two.py": work(slow=100),
    **files_timing(),
    "tests/test_one.py": USES.format(module="pkg.one"),
    "tests/test_two.py": USES.format(module="pkg.two"),
}
LATE = """from contextlib import suppress

import pkg

NUMBERS = [0.0] * 50


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


def test_depends_narrows_what_a_test_depends_on_and_a_helper_installed_in_its_folder_is_that_of_its_side(tmp_path):
    helper = {"tests/tools/src/helper/__init__.py": "from pkg.one import slow\n\n__all__ = ['slow']\n"}
    helper["tests/test_one.py"] = uses = USES.format(module="helper")
    helper["tests/test_one_spawning.py"] = f"import subprocess\n\nsubprocess.run(['true'])\n{uses}"
    made = Repository(tmp_path / "repository", DEPENDING | helper)
    starts = f"import sys\n\nsys.path.append({str(made.root / 'tests/tools/src')!r})\n"  # in place of a .pth file
    made.at("start", {"pkg/two.py": work(slow=200), str(tmp_path / "site/sitecustomize.py"): starts})
    # both sides run test_one.py once to find that it is unchanged; the process of the other may have opened any file
    assert "1 unchanged, 2 to time" in gated(made, tmp_path, COLLECT, PYTHONPATH=str(tmp_path / "site"))


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
        **files_timing(),
        "tests/test_late.py": LATE,
        "tests/data/__init__.py": "",
        "tests/data/conftest.py": "import pkg.table\n",
        "tests/data/test_rows.py": USES.format(module="pkg"),
    }
    made = Repository(tmp_path / "repository", files)
    made.at("start", {"pkg/two.py": work(slow=200), "pkg/extra.py": None, "pkg/rows.json": "[2]\n"})
    text = gated(made, tmp_path, code=2)
    for test, file in (
        ("tests/test_late.py::test_lazy", "pkg/two.py"),
        ("tests/test_late.py::test_again", "pkg/two.py"),  # imported by an earlier test
        ("tests/test_late.py::test_optional", "pkg/extra.py"),  # which base alone has
        ("tests/data/test_rows.py::test_slow", "pkg/rows.json"),  # read by a module that a conftest.py imports
    ):
        assert f"{test}: error, it loads {file}: add the file to its depends in [tool.rlgauge]" in text, text


BY_NAME = """import sys
from pathlib import Path

tools = next(folder for folder in {start}.parents if folder.name == "toy") / "tools"


def test_slow(benchmark):
    sys.path.insert(0, str(tools))
    import helper

    benchmark(helper.slow, [0.0] * 50)


test_again = test_slow
"""


def test_code_that_a_test_finds_by_the_name_of_the_repository_is_that_of_its_side(tmp_path):
    wrong = BY_NAME.format(start=f"Path({str(tmp_path / 'toy/tests')!r})").replace("helper", "other")
    tests = files_timing() | {"tests/test_own.py": BY_NAME.format(start="Path(__file__)"), "tests/test_wrong.py": wrong}
    script = {"profile.py": "raise SystemExit('a script')\n"} if sys.version_info >= (3, 11) else {}
    tools = {f"tools/{name}.py": work(slow=100) for name in ("helper", "other")}
    toy = Repository(tmp_path / "toy", tests | tools | {"pkg.py": "", **script})
    toy.write({"tools/helper.py": work(slow=120), "tools/other.py": work(slow=120)})
    ran = toy.gate("HEAD", tmp_path, rule=QUICK, PYTHONSAFEPATH="1")  # from Python 3.11, as with the command pytest
    assert ran.ratios["tests/test_own.py::test_slow"] == pytest.approx(1.2, abs=0.02), ran.text
    for name in ("test_slow", "test_again"):
        verdict, why = ran.findings[f"tests/test_wrong.py::{name}"]
        assert (verdict, f"it imports {toy.root / 'tools/other.py'} from the repository" in why) == ("error", True)
