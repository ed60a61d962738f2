"""Benchmarks for ASV: tests and inputs of this checkout, ``rl_impls`` of the commit that ASV installed."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import rl_impls

ROOT = Path(__file__).parents[2]
INSTALLED = Path(rl_impls.__path__[0])

sys.path.append(str(ROOT))  # for perf_tests, which is not part of the installed package
rl_impls.__path__.append(str(ROOT / "rl_impls"))  # workloads that the commit lacks are listed and skipped
for path in sorted(ROOT.glob("rl_impls/*/problem.py")):  # sorted: common/problem.py comes first, as others import it
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    spec = spec_from_file_location(name, path)
    if spec and spec.loader and name not in sys.modules:
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
