"""Sides whose lock files need other packages run in environments of their own, which are created once."""

import base64
import hashlib
import io
import sysconfig
import zipfile

import pytest

from .made import FIND, FLAT_TESTS, Repository, flat

WHEEL, BARE = "units-1.0-py3-none-any.whl", "bare-1.0-py3-none-any.whl"
BY_LIBRARY = '''"""Sorts as many times as a library defines."""

import heapq

try:
    from library_of_units import SLOW
except ImportError:
    SLOW = 110


def slow(numbers, units=SLOW):
    for _ in range(units):
        out = heapq.nsmallest(len(numbers), numbers)
    return out


def kept(numbers):
    return slow(numbers, 100)
'''


def wheel(name="units"):
    """Return a wheel that makes this environment's packages importable; ``units`` also defines the units of work."""
    info, tag = f"{name}-1.0.dist-info", "Root-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        "here.pth": sysconfig.get_paths()["purelib"] + "\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\n{tag}",
        **({"library_of_units.py": "SLOW = 100\n"} if name == "units" else {}),
    }
    record = "".join(
        f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text)}\n"
        for file, text in files.items()
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, text)
    return packed.getvalue()


@pytest.mark.slow
def test_sides_with_other_dependencies_get_environments_of_their_own_once(tmp_path):
    locked = {
        "lock.txt": f"./{WHEEL}\n",
        WHEEL: wheel(),
        "toy/sorting.py": BY_LIBRARY,
        "pyproject.toml": '[tool.rlgauge]\nlock = "lock.txt"\n',
    }
    more = f"{FLAT_TESTS}\n\ndef test_gone(benchmark):\n    benchmark(sorting.kept, NUMBERS)\n"
    toy = Repository(tmp_path / "toy", flat() | locked | {"benchmarks/test_sorting.py": more})
    upgraded = {"lock.txt": f"./{BARE}\n", BARE: wheel("bare"), WHEEL: None}
    toy.commit("upgraded", upgraded | {"benchmarks/test_sorting.py": FLAT_TESTS})
    ran = toy.gate("HEAD~1", tmp_path, rule=FIND, code=1)
    assert ran.findings["benchmarks/test_sorting.py::test_slow"] == ("slower",)  # only the installed packages differ
    assert ran.findings["benchmarks/test_sorting.py::test_kept[50]"] == ("ok",)
    assert ran.findings["benchmarks/test_sorting.py::test_gone"] == ("gone",)
    made = {path: path.stat().st_mtime_ns for path in toy.root.glob(".git/rlgauge/env-*/pyvenv.cfg")}
    assert len({path.parent for path in made}) == 2
    toy.output(0, *toy.command("HEAD~1", tmp_path), "--collect-only")
    assert {path: path.stat().st_mtime_ns for path in toy.root.glob(".git/rlgauge/env-*/pyvenv.cfg")} == made
    assert toy.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("include", ["", 'include = ["toy"]\n'])
def test_the_lock_file_is_that_of_the_settings_in_a_project_below_the_top(tmp_path, include):
    files = {f"part/{name}": text for name, text in flat().items() if name != ".gitignore"}
    files |= {"part/lock.txt": "./absent.whl\n", "part/pyproject.toml": f'[tool.rlgauge]\nlock = "lock.txt"\n{include}'}
    toy = Repository(tmp_path / "toy", files)
    text = toy.output(2, *toy.command("HEAD", tmp_path, "--collect-only", "--rootdir=part", "part"), PYTHONPATH="part")
    assert "environment cannot be created from its lock file: ERROR: " in text
    assert "absent.whl" in text
