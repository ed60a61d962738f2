"""Made-up claims about snake's ``act``, and their measurements."""

from perf_tests.claims.catalogue import Claim
from perf_tests.claims.measure import Measured

PAIR, OTHER = ("test_act[naive-torch-1]", "test_act[full-torch-1]"), ("test_act[naive-torch-1]", "test_act[full-jax-1]")
ON_GPU = ("test_act[naive-torch-1]", "test_act[full-torch-cuda-1]")


def claim(least=2.0, **more):
    """Return a claim, by default with one comparison."""
    fields = {"id": "toy", "contexts": {"alone": PAIR}, "promised": "2 x", **more}
    return Claim(workload="snake", words="it is faster", source="s.md", least=least, **fields)


def trained(least=2.0, **more):
    return claim(least, same="returns", evidence={"alone": "snake-every-4"}, **more)


def known(claims, **ratios):
    """Return the measurements of claims, given the ratios of the pairs by claim id."""
    return {each.comparison(context): Measured(list(ratios[each.id])) for each in claims for context in each.contexts}


def row(name="snake-overall", verdict="partly", ratio=1.5):
    context = {
        "context": "alone", "base": "a", "change": "b", "measure": "seconds", "ratio": ratio, "low": 1.4, "high": 1.7,
        "n": 6, "wide": True, "same_holds": None, "verdict": verdict,
    }  # fmt: skip
    return {
        "id": name, "workload": "snake", "words": "it is faster", "source": "s.md", "promised": "2 x", "least": 2.0,
        "same": None, "note": "", "contexts": [context], "figures": [],
    }  # fmt: skip
