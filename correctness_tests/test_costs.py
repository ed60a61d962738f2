"""What a call handles and costs: worked out by hand from the shapes, and beside what torch computes."""

from __future__ import annotations

import pytest

from perf_tests.suite.case import leaves
from perf_tests.suite.cases import load, variants

# multiplications for one state: of pirl's net 16-32-32-32-25 and its layers but the last, and a wider one; of snake's
# net 100-256-256-4; of treasurehunt's, whose layer of the state is used once and the others for 12 quantiles
PIRL, STREAM, WIDE = 16 * 32 + 2 * 32 * 32 + 32 * 25, 16 * 32 + 2 * 32 * 32, 16 * 128 + 2 * 128 * 128 + 128 * 25
SNAKE = 100 * 256 + 256 * 256 + 256 * 4
HUNT = 750 * 250 + 12 * (64 * 250 + 250 * 250 + 250 * 5)
SEEN = 750 * 250 // 6 + 12 * (64 * 250 + 250 * 250 + 250 * 5)  # the state's one-hot rows looked up
# of an update: the target net, three times the online net, but nothing back to the inputs of the first layer
LEARNT = 2 * 32 * (4 * SNAKE - 100 * 256)
HUNTED = 2 * 64 * (4 * 750 * 250 + 12 * (4 * 64 * 250 + 5 * 250 * 250 + 5 * 250 * 5))  # three passes and one back
BOARD, STATE = 4 * 100, 4 * 750  # bytes
COSTS = {  # items, FLOPs and bytes of a call of one or two benchmarks of every case
    "pirl.forward[full-numpy-batch8-iohost-hidden32]": (8, 8 * 2 * PIRL, 8 * 4 * (16 + 25)),
    "pirl.forward[full-torch-batch1-iodevice-hidden128]": (1, 2 * WIDE, 4 * (16 + 25)),
    "pirl.act[full-numpy]": (1, 2 * PIRL, 0),
    "pirl.act[full-numpy-hidden128]": (1, 2 * WIDE, 0),
    "pirl.pde_loss[naive-torch-order1]": (32, 32 * 2 * (PIRL + STREAM), 0),
    "pirl.pde_loss[naive-torch-order2]": (32, 32 * 2 * (PIRL + 6 * STREAM), 0),
    "pirl.train_step[naive-torch-batch32-order1]": (
        1, 2 * (32 * PIRL + (32 + 3 * 32) * (3 * PIRL - 16 * 32) + 32 * (3 * STREAM - 16 * 32)), 0,
    ),
    "pirl.train_step[naive-torch-batch256-order2]": (
        1, 2 * (256 * PIRL + (256 + 3 * 32) * (3 * PIRL - 16 * 32) + 6 * 32 * (3 * STREAM - 16 * 32)), 0,
    ),
    "pirl.train_step[naive-torch-batch256-order1-hidden128]": (
        1, 2 * (256 * WIDE + 352 * (3 * WIDE - 16 * 128) + 32 * (3 * (WIDE - 128 * 25) - 16 * 128)), 0,
    ),
    "pirl.sync_target[full-numpy-hidden32]": (1, 0, 0),
    "pirl.sustained[full-numpy-batch512]": (16 * 512, 16 * 512 * 2 * PIRL, 16 * 512 * 4 * (16 + 25)),
    "pirl.serve[full-numpy-clients32]": (4 * 32, 0, 0),
    "pirl.hybrid[full-torch-servenumpy-every10]": (10, 0, 0),
    "snake.forward[full-numpy-envs64]": (64, 64 * 2 * SNAKE, 64 * (BOARD + 4 * 4)),
    "snake.forward[int8-onnx-envs64]": (64, 0, 0),
    "snake.act[full-torch-envs64]": (64, 64 * 2 * SNAKE, 0),
    "snake.env_step[vectorised-numpy-envs64]": (8 * 64, 0, 64 * (8 * (4 + 3 * 4 + 4 + 1) + BOARD)),
    "snake.remember[full-numpy]": (64, 0, 64 * 2 * 2 * BOARD),
    "snake.sample[full-numpy-batch32]": (32, 0, 32 * 2 * 2 * BOARD),
    "snake.train_step[naive-torch-batch32]": (1, LEARNT, 0),
    "snake.train_step[bfloat16-torch-batch32]": (1, LEARNT, 0),
    "snake.train_step[tf32-torch-cuda-batch32]": (1, LEARNT, 0),
    "snake.train_step[ddp-torch-batch64]": (1, 2 * LEARNT, 0),
    "snake.collect_and_learn[naive-torch-envs1-every1-batch32]": (64, 64 * (2 * SNAKE + LEARNT), 0),
    "snake.collect_and_learn[vectorised-torch-envs64-every4-batch32]": (256, 256 * 2 * SNAKE + 64 * LEARNT, 0),
    "snake.collect_and_learn[vectorised-torch-envs1024-every4-batch32]": (1024, 1024 * 2 * SNAKE + 256 * LEARNT, 0),
    "snake.collect_and_learn[threaded-torch-envs64-every4-batch32]": (256, 256 * 2 * SNAKE + 64 * LEARNT, 0),
    **{
        f"snake.collect_and_learn[compiled-jax-envs{envs}-every4-batch32]": (
            1024, 1024 * 2 * SNAKE + 256 * LEARNT, 0,
        ) for envs in (1, 64, 1024)
    },
    "treasurehunt.observe[full-numpy-agents5-worlds16]": (80, 0, 80 * 4 * 150),
    "treasurehunt.stack[full-numpy-agents5-worlds16]": (80, 0, 80 * 2 * STATE),
    "treasurehunt.sample[full-numpy-agents5]": (5 * 64, 0, 5 * 64 * 2 * 2 * STATE),
    "treasurehunt.quantile_huber[full-numpy-batch64]": (1, 0, 0),
    "treasurehunt.forward[naive-torch-agents5-batch64]": (
        320, 320 * 2 * HUNT, 320 * (STATE + 4 * 12 + 4 * 12 * 4) + 5 * 4 * (250 + 250 + 250 + 5),
    ),
    "treasurehunt.act[full-torch-agents5-worlds16]": (80, 80 * 2 * HUNT, 0),
    "treasurehunt.train_step[full-torch-agents5]": (5, 5 * HUNTED, 0),
    "treasurehunt.train_step[bfloat16-torch-agents5]": (5, 5 * HUNTED, 0),
    "treasurehunt.first_call[full-torch-agents5-batch64]": (1, 0, 0),
    "treasurehunt.turn[full-torch-agents5-worlds1]": (10, 5 * 10 * 2 * SEEN, 0),
    "treasurehunt.turn[full-torch-agents5-worlds16]": (160, 5 * 160 * 2 * HUNT, 0),
    "treasurehunt.epoch[full-torch-agents5-worlds1]": (50, 5 * 50 * 2 * SEEN + 5 * HUNTED, 0),
    "treasurehunt.epoch[full-torch-agents5-worlds16]": (800, 5 * 800 * 2 * HUNT + 5 * HUNTED, 0),
    "treasurehunt.epoch[processes-torch-agents5-worlds1]": (50, 5 * 50 * 2 * SEEN + 5 * HUNTED, 0),
}  # fmt: skip
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "pirl.forward[full-numpy-batch8-iohost-hidden32]", "pirl.sustained[full-numpy-batch512]",
    "snake.forward[full-numpy-envs64]", "snake.env_step[vectorised-numpy-envs64]",
    "treasurehunt.observe[full-numpy-agents5-worlds16]", "treasurehunt.stack[full-numpy-agents5-worlds16]",
    "treasurehunt.forward[naive-torch-agents5-batch64]",
]  # fmt: skip
FEW = 4  # boards whose moves are picked in NumPy
LARGEST = 3e9  # FLOPs of a call that is quick to count
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


@pytest.mark.parametrize(("identity", "wanted"), COSTS.items(), ids=COSTS)
def test_a_call_handles_and_costs_what_its_shapes_say(identity, wanted):
    case, axes = variants()[identity].case, variants()[identity].axes
    assert (case.items(**axes), case.flops(**axes), case.bytes(**axes)) == pytest.approx(wanted, rel=1e-12)


def test_every_case_is_among_them():
    worked_out = {id(variants()[identity].case) for identity in COSTS}
    assert [case.name for case in load() if id(case) not in worked_out] == []


@pytest.mark.parametrize("identity", MOVED)
def test_bytes_are_those_of_the_arrays_that_are_taken_and_returned(identity):
    variant = variants()[identity]
    with variant.prepare(0) as prepared:
        prepared.reset()
        arrays = leaves([list(variant.inputs(0).varying), prepared.backend.to_host(prepared.call())])
    assert sum(array.nbytes for array in arrays) == variant.case.bytes(**variant.axes)


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

    Left out are processes and threads, in which nothing is counted from here, and forms naive but for one knob. Of each
    op the cheapest of whose FLOPs all are charged is no slow test, or else the cheapest.
    """
    found = {}
    for variant in variants().values():
        flops = variant.case.flops(**variant.axes)
        counts = variant.backend == "torch" and not variant.case.multicore and not variant.form.startswith("only_")
        if counts and flops <= LARGEST:
            found.setdefault((variant.case.name, variant.form), {}).setdefault(flops, variant)
    by_cost = [[costs[flops] for flops in sorted(costs)] for costs in found.values()]
    chosen = [variant for several in by_cost for variant in dict.fromkeys([*several[:2], several[-1]])]
    first = {}
    for variant in sorted(chosen, key=lambda variant: (computes_more(variant), variant.case.flops(**variant.axes))):
        first.setdefault(variant.case.name, variant)
    return [
        pytest.param(variant, id=variant.id, marks=() if variant in first.values() else pytest.mark.slow)
        for variant in chosen
    ]


def in_numpy(variant):
    """Return the FLOPs of the moves that snake's form ``full`` picks in NumPy, where torch cannot count them."""
    acts = variant.case.name in ("snake.act", "snake.collect_and_learn")
    if not acts or variant.knobs().acting == "torch" or variant.axes["envs"] > FEW:
        return 0.0
    return 2 * SNAKE * variant.case.items(**variant.axes)


def computes_more(variant):
    """Return whether a variant is named as one that computes more than its op needs."""
    has = {"form": variant.form, **variant.axes}
    return any(name == variant.case.name and wanted.items() <= has.items() for name, wanted, _ in MORE)


@pytest.mark.parametrize("counted_variant", quick())
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
