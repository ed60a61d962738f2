"""Claims about nothing, and what processes say of them."""

from __future__ import annotations

from perf_tests.suite.claim import Claim, between
from perf_tests.suite.claims import claims_of, workloads

ACT, NUMPY = "snake.act[naive-torch-envs1]", "treasurehunt.observe[{}-numpy-agents5-worlds1]"
OBSERVE = between(NUMPY.format("naive"), NUMPY.format("full"))
ACTING = between(ACT, "snake.act[full-torch-envs1]")
EVERY = [(workload, claim) for workload in workloads() for claim in claims_of(workload)]


def claim(least=2.0, same=None, **more):
    """Return a claim of one context, unless others are given."""
    fields = {"contexts": {"alone": OBSERVE}, **more}
    return Claim("toy", "words", "source.md", "2 x", least, same=same, **fields)


def said(*ratios, same=None, name="toy", context="alone"):
    """Return what processes say, of which each measured one of the ratios."""
    return [{"claims": {name: {context: {"ratio": ratio, "same": same}}}, "sides": {}} for ratio in ratios]


def row(name="snake-overall", verdict="partly", ratio=1.5):
    """Return a row of the ledger."""
    context = {
        "context": "alone", "base": "a", "change": "b", "measure": "seconds", "ratio": ratio, "low": 1.4, "high": 1.7,
        "n": 6, "wide": True, "same_holds": None, "verdict": verdict,
    }  # fmt: skip
    return {
        "id": name, "workload": "snake", "words": "it is faster", "source": "s.md", "promised": "2 x", "least": 2.0,
        "same": None, "note": "", "contexts": [context], "figures": [],
    }  # fmt: skip
