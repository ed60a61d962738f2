"""Stated costs of benchmarks: FLOPs equal those that torch dispatches, and bytes equal those of the arrays."""

import pytest

from perf_tests.bench import leaves
from perf_tests.recorded import benchmarks, problem_of, record

from .quick import quick

LARGEST = 3e9  # most FLOPs of a call that is quick to count
MORE = [  # op and parameters of benchmarks that compute more than the stated FLOPs that the op needs
    # nested differentiation instead of one forward pass of the generator
    ("pirl.pde_loss", {"form": "naive"}),
    ("pirl.train_step", {"form": "naive"}),
    ("pirl.loss_and_backward", {"form": "naive"}),
    ("pirl.pde_loss", {"form": "full", "order": 1}),  # all of the last layer, not only the greedy action
    # backpropagate through the last observations too, which have no loss
    ("procgen.impala_update", {}),
    ("procgen.impala", {}),
    # the first layer computes a last row and column that the second does not use
    *((f"procgen.{op}", {"form": "naive"}) for op in ("forward", "ppo_update", "a2c_update", "ppo", "a2c")),
    # multiply by a one-hot state instead of looking up rows of the weights
    ("treasurehunt.turn", {"num_worlds": 1}),
    ("treasurehunt.epoch", {"num_worlds": 1}),
]
UNSTATED = {"pirl.hybrid", "treasurehunt.first_call"}  # mostly copies weights, or compiles
ITEMS = {  # items of a call, from which rates are computed
    "mario.transport[full-numpy-2-84-1]": 2000,
    "pirl.serve[full-numpy-32]": 4 * 32,
    "procgen.gae[full-numpy-16]": 128 * 16,
    "procgen.env_step[full-numpy-64-coinrun]": 8 * 64,
    "procgen.parallel_ppo[full-torch-8-8-1-2-1]": 4 * 8 * 8,
    "snake.env_step[vectorised-numpy-64]": 8 * 64,
    "treasurehunt.turn[full-torch-5-16]": 160,
    "snake.collect_and_learn[vectorised-torch-64-4-32]": 256,
}
MOVED = [  # benchmarks whose stated bytes are those of all arguments and outputs
    "mario.preprocess[full-numpy-1-84]",
    "pirl.forward[full-numpy-8-host-32]",
    "pirl.sustained[full-numpy-512]",
    "procgen.forward[full-numpy-64-nature]",
    "procgen.gae[full-numpy-16]",
    "procgen.vtrace[full-numpy-16]",
    "snake.forward[full-numpy-64]",
    "snake.env_step[vectorised-numpy-64]",
    "treasurehunt.observe[full-numpy-5-16]",
    "treasurehunt.stack[full-numpy-5-16]",
    "treasurehunt.forward[full-torch-1-64]",
]
BENCHMARKS = {one.id: one for one in benchmarks()}
SNAKE = 100 * 256 + 256 * 256 + 256 * 4  # multiplications for one board


def flops_outside_torch(op):
    """Return the FLOPs outside torch: snake's form ``full`` acts with NumPy on few boards."""
    problem = op.problem
    if problem.workload != "snake" or problem.op not in ("act", "collect_and_learn"):
        return 0.0
    if op.options.acting == "torch" or problem.args[1].shape[-1] > 4:
        return 0.0
    return 2 * SNAKE * problem.items


@pytest.mark.parametrize(("identity", "items"), ITEMS.items())
def test_items_of_a_call(identity, items):
    assert problem_of(BENCHMARKS[identity], 0).items == items


@pytest.mark.parametrize("identity", MOVED)
def test_stated_bytes_are_those_of_arguments_and_outputs(identity):
    op = record(BENCHMARKS[identity], 0).op
    arrays = leaves([list(op.problem.args), op.backend.to_host(op.call(*op.args))])
    assert sum(array.nbytes for array in arrays) == op.problem.bytes


def test_costs_of_procgen_that_are_not_those_of_arrays_or_of_torch():
    first = 14 * 14 * (8 * 8 * 3 * 32)  # multiplications of each layer for one picture
    others = 6 * 6 * (4 * 4 * 32 * 64) + 4 * 4 * (3 * 3 * 64 * 64) + 2 * 1024 * 512 + 512 * 15 + 512
    update = 2 * 256 * (2 * first + 3 * others)  # no gradient of the pictures
    last = 2 * 16 * (first + others)  # the pictures after the rollout are only evaluated
    assert problem_of(BENCHMARKS["procgen.impala_update[full-torch-256]"], 0).flops == update + last
    steps = problem_of(BENCHMARKS["procgen.env_step[full-numpy-64-coinrun]"], 0)
    assert steps.bytes == 8 * 64 * (4 + 64 * 64 * 3 + 4 + 1)  # action, frame, reward and end of each
    parallel = problem_of(BENCHMARKS["procgen.parallel_ppo[full-torch-8-8-1-2-1]"], 0)
    acting, learning = 64 + 8, 64  # pictures of a rollout: those acted on and the last ones; those in an epoch
    rollout = 2 * acting * (first + others) + 2 * learning * (2 * first + 3 * others)
    assert parallel.flops == 4 * rollout
    stages = (64, 3, 16), (32, 16, 32), (16, 32, 32)  # side of the input, input and output channels
    residual = sum(9 * out * (side**2 * channels + 4 * (side // 2) ** 2 * out) for side, channels, out in stages)
    acting = problem_of(BENCHMARKS["procgen.forward[full-numpy-16-residual]"], 0)
    assert acting.flops == 2 * 16 * (residual + 2048 * 256 + 256 * 16)


def test_bytes_of_mario_are_those_of_frames_and_weights():
    frame, weights = 84 * 84, 4 * (8224 + 32832 + 36928 + (7 * 7 * 64 + 1) * 512 + 513 * 15)
    moved = {
        "transport[full-numpy-2-84-1]": 2_000 * 4 * frame,  # read and written twice
        "push[full-numpy-1000-84]": 1_000 * 2 * frame,
        "sample[full-numpy-256-10000-84]": 256 * 2 * 5 * frame,  # two observations share three frames
        "per_sample[full-numpy-256-10000-84]": 256 * 2 * 5 * frame,
        "publish[full-numpy-2-84]": 2 * 3 * weights,  # by the learner and two collectors
    }
    for name, wanted in moved.items():
        assert problem_of(BENCHMARKS[f"mario.{name}"], 0).bytes == wanted


def make_counter():
    """Return a context whose ``flops`` are those of the matrix products that torch dispatches.

    It replaces ``FlopCounterMode``, which fails on nested differentiation.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    def flops_of_linear(h, w, *_, out_val):
        return 2 * len(h) * w.numel()

    costs = {**flop_registry, torch.ops.mkldnn._linear_pointwise: flops_of_linear}

    class Counter(TorchDispatchMode):
        flops = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            cost = costs.get(func._overloadpacket)
            if cost is None:
                with self:  # a composite operation, such as ``linear`` in inference mode
                    out = func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
            if cost:
                self.flops += cost(*args, **kwargs, out_val=out)
            return out

    return Counter()


def counted(function, counts):
    """Wrap a function to append the FLOPs of each call to ``counts``; a counter sees only its own thread."""

    def call(*args):
        with make_counter() as counter:
            out = function(*args)
        counts.append(counter.flops)
        return out

    return call


def countable():
    """Return the torch benchmarks by op and form, without those with processes or threads, which cannot be counted.

    Forms with a single option cost as much as ``naive``.
    """
    found = {}
    for one in BENCHMARKS.values():
        form = one.params["form"]
        alone = not any(mark.name == "rlgauge" and mark.kwargs.get("cores") for mark in one.test.pytestmark)
        if one.params["backend"] == "torch" and alone and not form.startswith("only_"):
            found.setdefault(f"{one.workload}.{one.op}[{form}]", []).append(one)
    return found


COUNTABLE = countable()
CHECKED = {}  # one form of each op that a plain run times, if possible ``full``
for name, group in COUNTABLE.items():
    op, _, form = name.partition("[")
    if any(one.tier != "full" for one in group) and (form == "full]" or op not in CHECKED):
        CHECKED[op] = name


def chosen(group):
    """Return the cheapest benchmark of a group, and the most expensive quick one.

    It considers the first of the group, whose sizes are small, and those of the tiers gate and bench. If
    some state the same FLOPs, it considers the last of them, so that costs that ignore an axis are noticed.
    """
    costs, (first, *others) = {}, group
    for one in [first, *(other for other in others if other.tier != "full")]:
        costs[problem_of(one, 0).flops] = one
    cheapest, *more = sorted(costs)
    affordable = [flops for flops in more if flops <= LARGEST]
    return [costs[flops] for flops in [cheapest, *affordable[-1:]]]


def computes_more(name, one):
    return any(name == op and wanted.items() <= one.params.items() for op, wanted in MORE)


@pytest.mark.parametrize("group", quick(CHECKED.values(), COUNTABLE))
def test_stated_flops_are_those_that_torch_dispatches(group, one_thread):
    for one in chosen(COUNTABLE[group]):
        op, counts = record(one, 0).op, []
        name, stated = f"{op.problem.workload}.{op.problem.op}", op.problem.flops
        try:
            if op.reset:
                op.reset()
            counted(op.call, counts)(*op.args)
        finally:
            if op.close:
                op.close()
        count = sum(counts) + flops_outside_torch(op)
        if name in UNSTATED:
            assert stated == 0 < count, one.id
        elif computes_more(name, one):
            assert stated < count, one.id
        else:
            assert 0.98 * count <= stated <= 1.02 * count, one.id
