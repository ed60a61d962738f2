"""What a side compiles is kept from pair to pair, and apart from the other side's."""

from __future__ import annotations

import json

from .made import CLOCK, QUICK, SAME, Repository, flat, work

WATCHED = """
import json
import pathlib

SEEN, TREE = pathlib.Path(os.environ["SEEN"]), pathlib.Path(__file__).parents[1]
CACHES = "NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"
if "RLGAUGE_GATE_SIDE" in os.environ:
    told = {"side": os.environ["RLGAUGE_GATE_SIDE"], "caches": [os.environ[name] for name in CACHES]}
    told |= {"tree": str(TREE), "compiled": (TREE / "toy" / "__pycache__").exists()}
    (SEEN / f"{time.monotonic_ns()}-{os.getpid()}").write_text(json.dumps(told))
"""


def test_each_side_keeps_what_it_compiles_in_a_folder_of_its_own(tmp_path):
    seen, users = tmp_path / "seen", tmp_path / "users"
    seen.mkdir()
    toy = Repository(tmp_path / "toy", flat() | {"benchmarks/conftest.py": CLOCK + WATCHED})
    toy.at("start", {"toy/sorting.py": work(slow=100, kept=101)})
    names = ("NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "PYTHONPYCACHEPREFIX")
    ran = toy.gate("start", tmp_path, rule=QUICK, SEEN=str(seen), **dict.fromkeys(names, str(users)))
    assert SAME in ran.findings, ran.text
    told = [json.loads(file.read_text()) for file in sorted(seen.iterdir())]
    for side in ("base", "head"):
        own = [one for one in told if one["side"] == side and f"/sides/{side}/" in one["tree"]]
        assert len(own) >= 3
        assert len({tuple(one["caches"]) for one in own}) == 1
        assert all(path.startswith(own[0]["tree"].removesuffix("/tree")) for path in own[0]["caches"])
        assert [one["compiled"] for one in own] == [False] + [True] * (len(own) - 1)
    assert not users.exists(), "the user's own folders, which both sides would share"
    assert toy.git("status", "--porcelain") == "M toy/sorting.py"
