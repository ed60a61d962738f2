"""Plugins and hooks of a repository with many kinds of benchmarks."""

CODSPEED = {
    "pytest_codspeed/__init__.py": '"""Stands in for the package."""\n',
    "pytest_codspeed/plugin.py": '''"""The plugin's mark and fixture when it does not measure."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--codspeed", action="store_true")


def pytest_configure(config):
    assert not config.option.codspeed, "it would measure by itself"
    config.addinivalue_line("markers", "codspeed_benchmark: mark a whole test")


@pytest.fixture
def codspeed_benchmark():
    return lambda function, *args, **kwargs: function(*args, **kwargs)
''',
}
HOOKS = '''

import asyncio
import inspect
import sys

import pytest

assert "pytest" in sys.argv[0]
sys.modules["ops"] = type(sys)("ops")
sys.modules["ops"].__file__ = "_ops.py"  # as torch does: the file is not in the working directory
assert os.environ.setdefault("IMPORTED_IN", str(os.getpid())) == str(os.getpid())


def pytest_configure(config):
    if not config.option.benchmark_enable:
        config.option.benchmark_disable = True


def pytest_collection_modifyitems(config, items):
    """Skip all benchmarks without the plugins and their options, deselect tests, one by an option, and change ids."""
    needed = config.pluginmanager.hasplugin("benchmark"), config.getoption("--benchmark-only"), config.option.codspeed
    for item in items:
        changed = item.nodeid.replace("[50]", "[fifty]")
        if hasattr(item, "_id"):  # pytest 9.2
            item._id = type(item._id).parse(changed)
        else:
            item._nodeid = changed
        if not all(needed):
            item.add_marker(pytest.mark.skip(reason="no plugin or option"))
    deselected = [item for item in items if item.name == "test_neither"]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]
    if config.option.codspeed:
        items[:] = [item for item in items if item.name != "test_codspeed_mark"]


def pytest_ignore_collect(config):
    return None if config.getoption("--benchmark-only") else True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Await a test that has the mark."""
    if inspect.iscoroutinefunction(pyfuncitem.obj) and pyfuncitem.get_closest_marker("awaited"):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        asyncio.run(pyfuncitem.obj(**arguments))
        return True
'''
ROOT_HOOKS = """import os

assert os.environ.setdefault("STARTED_IN", str(os.getpid())) == str(os.getpid())


def pytest_configure(config):
    if not config.getoption("--benchmark-only"):
        config.option.markexpr = "not benchmark"


def pytest_runtest_setup(item):
    assert all(hasattr(item, name) for name in ("module", "cls", "instance", "obj", "originalname"))
"""
