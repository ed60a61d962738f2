"""What the cases say a call costs, beside what torch computes."""

from __future__ import annotations

import pytest

from perf_tests.suite.cases import variants
from perf_tests.suite.cases.snake import forward_flops

FEW = 4  # boards whose moves are picked in NumPy
LARGEST = 1.5e9  # FLOPs of a call that is quick to count
MORE = (  # op, form and axes that compute more than the op needs, which alone is charged; and what
    ("pirl.pde_loss", {"form": "naive"}, "differentiates backward what the generator carries forward"),
    ("pirl.pde_loss", {"form": "full", "order": 1}, "streams go through all of the last layer, not the greedy row"),
    ("pirl.train_step", {"form": "naive"}, "differentiates backward what the generator carries forward"),
    ("treasurehunt.turn", {"worlds": 1}, "multiplies a one-hot state, whose rows of the weights can be looked up"),
    ("treasurehunt.epoch", {"worlds": 1}, "multiplies a one-hot state, whose rows of the weights can be looked up"),
)
UNSTATED = {  # op that multiplies and has no limit, and why
    "pirl.hybrid": "most of it is copying weights, and waiting",
    "treasurehunt.first_call": "most of it is compiling",
}


def make_counter():
    """Return a context that adds up, in ``flops``, what the matrix products that torch dispatches cost.

    Work element by element it does not know. As ``FlopCounterMode``, whose record of modules fails on nested
    differentiation.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):
        flops = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            cost = flop_registry.get(func._overloadpacket)
            if cost is None:
                with self:  # a composite operation, as ``linear`` in inference mode, is made of others
                    out = func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
            if cost:
                self.flops += cost(*args, **kwargs, out_val=out)
            return out

    return Counter()


def counted(function, counts):
    """Return the function, which also appends the FLOPs of each call to ``counts``; a counter sees its thread alone."""

    def call(*args):
        with make_counter() as counter:
            out = function(*args)
        counts.append(counter.flops)
        return out

    return call


def dispatched(variant):
    """Count the FLOPs of one call."""
    counts = []
    with variant.prepare(0) as prepared:
        prepared.reset()
        counted(prepared.call, counts)()
    return sum(counts)


def quick():
    """Torch's variants that are quick to count: the two cheapest and the dearest of each op and form.

    Left out are processes and threads, in which nothing is counted from here, and forms naive but for one knob.
    """
    found = {}
    for variant in variants().values():
        flops = variant.case.flops(**variant.axes)
        counts = variant.backend == "torch" and not variant.case.multicore and not variant.form.startswith("only_")
        if counts and flops <= LARGEST:
            found.setdefault((variant.case.name, variant.form), {}).setdefault(flops, variant)
    by_cost = [[costs[flops] for flops in sorted(costs)] for costs in found.values()]
    return [variant for several in by_cost for variant in dict.fromkeys([*several[:2], several[-1]])]


def in_numpy(variant):
    """Return the FLOPs of the moves that snake's form ``full`` picks in NumPy, where torch cannot count them."""
    acts = variant.case.name in ("snake.act", "snake.collect_and_learn")
    if not acts or variant.knobs().acting == "torch" or variant.axes["envs"] > FEW:
        return 0.0
    return forward_flops(1) * variant.case.items(**variant.axes)


def computes_more(variant):
    """Return whether a variant is named as one that computes more than its op needs."""
    has = {"form": variant.form, **variant.axes}
    return any(name == variant.case.name and wanted.items() <= has.items() for name, wanted, _ in MORE)


@pytest.mark.parametrize("counted_variant", quick(), ids=lambda variant: variant.id)
def test_flops_are_those_that_torch_dispatches(counted_variant, one_thread):
    stated, count = counted_variant.case.flops(**counted_variant.axes), dispatched(counted_variant)
    count += in_numpy(counted_variant)
    if counted_variant.case.name in UNSTATED:
        assert stated == 0 < count
    elif computes_more(counted_variant):
        assert stated < count
    else:
        assert 0.98 * count <= stated <= 1.02 * count


def test_looking_up_a_state_takes_a_sixth_of_the_product():
    import jax
    import numpy as np

    from perf_tests.suite.cases.treasurehunt import FORWARD, HIDDEN, LOOKED_UP, STATE
    from rl_impls.treasurehunt._jax import looked_up

    state, weights = np.zeros((1, STATE), np.float32), np.zeros((STATE, HIDDEN), np.float32)
    counted = jax.jit(looked_up).lower(state, weights).cost_analysis()["flops"]
    stated = 2 * STATE * HIDDEN * LOOKED_UP["state"]
    assert FORWARD["state"] == 1
    assert stated <= counted <= 1.1 * stated
