"""treasurehunt: worlds, nets and whole epochs of many agents that each learn alone."""

from __future__ import annotations

from rl_impls.treasurehunt import problem

from ..case import Case, Pattern, inputs_of
from ..front import ByColumn, Front

AGENTS, WORLDS = (1, 5, 16), (1, 16)
LEARNING = ("torch", "torch-compile", "jax", "torch-cuda", "jax-cuda")
OURS = ("jax", "jax-cuda")
ONE_BY_ONE: list[Pattern] = [  # where the nets of several agents are not called, or differently
    dict(form="naive", backend=("torch-compile", *OURS)),
    dict(form="one_by_one", backend=("torch-compile", "torch-cuda", "jax-cuda")),
    dict(form="one_by_one", agents=1),
]
REFERENCE: Pattern = dict(form=("naive", "one_by_one"), backend="numpy")
SHOWN: list[Pattern] = [dict(agents=5), dict(agents=1, backend=("torch", "torch-cuda", *OURS))]
SLOWER = ("naive", "one_by_one", "bfloat16", "interleaved")
LOOPS = ("naive", "one_by_one", "full", "bfloat16", "interleaved", "compiled")
NO_LOOP: list[Pattern] = [
    dict(form=SLOWER, backend=("torch-compile", "torch-cuda", "jax-cuda")),
    dict(form="compiled", backend=("torch", "torch-compile", "torch-cuda")),
]
SHOWN_LOOPS: list[Pattern] = [
    dict(agents=5, worlds=1, form=("naive", "one_by_one", "interleaved")),
    dict(agents=5, form=("full", "compiled")),
]

CASES = (
    Case(
        "treasurehunt", "observe", inputs_of(problem.observe), ("numpy", "jax", "jax-cuda"), "observations",
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: agents * worlds,
        bytes=problem.observe_bytes,
        exclude=[dict(form="naive", backend=OURS)],
        gate=[dict(form="full", backend="numpy", agents=5, worlds=1)], bench=[{}],
    ),
    Case(
        "treasurehunt", "stack", inputs_of(problem.stack), ("numpy", "jax", "jax-cuda"), "states", version=2,
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: agents * worlds,
        bytes=problem.stack_bytes,
        exclude=[dict(form="naive", backend=OURS)], bench=[dict(agents=5)],
    ),
    Case(
        "treasurehunt", "sample", inputs_of(problem.sample), ("numpy", "jax", "jax-cuda"), "transitions",
        axes={"agents": AGENTS}, items=lambda agents: agents * problem.BATCH,
        bytes=problem.sample_bytes,
        exclude=[dict(form="naive", backend=OURS)],
        gate=[dict(form="full", backend="numpy", agents=5)], bench=[{}],
    ),
    Case(
        "treasurehunt", "quantile_huber", inputs_of(problem.quantile_huber), ("numpy", *LEARNING), "losses",
        forms=("full",), axes={"batch": (64,)}, items=lambda batch: 1, bench=[{}],
    ),
    Case(
        "treasurehunt", "forward", inputs_of(problem.forward), ("numpy", *LEARNING), "states", version=3,
        forms=("naive", "one_by_one", "full"), axes={"agents": AGENTS, "batch": (64,)},
        items=lambda agents, batch: agents * batch,
        flops=lambda agents, batch: problem.forward_flops(agents, batch),
        bytes=lambda agents, batch: problem.forward_bytes(agents, batch),
        exclude=[*ONE_BY_ONE, REFERENCE], bench=[*SHOWN, dict(agents=1, backend="numpy")],
    ),
    Case(
        "treasurehunt", "act", inputs_of(problem.act), ("numpy", *LEARNING), "actions", version=3,
        forms=("naive", "one_by_one", "full"), axes={"agents": AGENTS, "worlds": WORLDS},
        items=lambda agents, worlds: agents * worlds,
        flops=lambda agents, worlds: problem.forward_flops(agents, worlds),
        exclude=[*ONE_BY_ONE, REFERENCE], bench=[*SHOWN, dict(agents=1, backend="numpy")],
        gate=[dict(form="full", backend=("torch", "jax"), agents=5, worlds=1)],
    ),
    Case(
        "treasurehunt", "train_step", inputs_of(problem.train_step), LEARNING, "updates", reference="torch",
        forms=("naive", "one_by_one", "full"), axes={"agents": AGENTS}, items=lambda agents: agents,
        flops=problem.train_flops, tolerance=1e-4, version=3,
        exclude=ONE_BY_ONE, gate=[dict(form="full", backend=("torch", "jax"), agents=5)], bench=SHOWN,
    ),
    Case(
        "treasurehunt", "train_step", inputs_of(problem.train_step), ("torch", "jax"), "updates", reference=None,
        forms=("bfloat16",), axes={"agents": AGENTS}, items=lambda agents: agents,
        flops=problem.train_flops, bench=[dict(agents=5)],
    ),
    Case(
        "treasurehunt", "first_call", inputs_of(problem.first_call), ("torch", "torch-compile", "jax"), "first calls",
        forms=("full",), axes={"agents": (5,), "batch": (64,)}, items=lambda agents, batch: 1,
        bench=[dict(backend=("torch", "jax"))],
    ),
    Case(
        "treasurehunt", "turn", inputs_of(problem.turn), LEARNING, "turns", forms=LOOPS, io="own", reference=None,
        most_calls=problem.EPISODE // problem.TURNS,
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: problem.TURNS * worlds,
        flops=lambda agents, worlds: problem.turn_flops(problem.TURNS, agents, worlds), version=3,
        gate=[
            dict(form="full", backend="torch", agents=5, worlds=1),
            dict(form="compiled", backend="jax", agents=5, worlds=1),
        ],
        exclude=NO_LOOP, bench=SHOWN_LOOPS,
    ),
    Case(
        "treasurehunt", "epoch", inputs_of(problem.epoch), LEARNING, "turns", forms=LOOPS, io="own", reference=None,
        most_calls=1, cores="all", version=2,
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: problem.EPISODE * worlds,
        flops=problem.epoch_flops,
        # torch's epoch is its turns and its update, which are gated
        gate=[dict(form="compiled", backend="jax", agents=5, worlds=1)], exclude=NO_LOOP, bench=SHOWN_LOOPS,
    ),
    Case(
        "treasurehunt", "epoch", inputs_of(problem.epoch), ("torch", "jax"), "turns", io="own", reference=None,
        most_calls=1, cores="own", forms=("processes",), axes={"agents": AGENTS, "worlds": WORLDS},
        items=lambda agents, worlds: problem.EPISODE * worlds,
        flops=problem.epoch_flops,
        bench=[dict(backend="torch", agents=5, worlds=1)],
    ),
)  # fmt: skip

FRONT = Front(
    "**treasurehunt**, five agents that each learn alone, a call of each op in torch and in JAX. What NumPy does of "
    "the torch program is marked; the last column is the best of torch over the best of JAX:",
    [
        ByColumn(
            dict(agents=5), "five agents, float32",
            {
                "torch: agent by agent": dict(form="naive", backend=("torch", "numpy")),
                "torch: at once": dict(form="full", backend=("torch", "numpy")),
                "torch-compile": dict(form="full", backend="torch-compile"),
                "jax: agent by agent": dict(form="one_by_one", backend="jax"),
                "jax: vmap": dict(form="full", backend="jax"), "jax: one program": dict(form="compiled", backend="jax"),
            },
        ),
        ByColumn(
            dict(agents=5), "five agents, bfloat16",
            {"torch": dict(form="bfloat16", backend="torch"), "jax": dict(form="bfloat16", backend="jax")},
        ),
    ],
)  # fmt: skip
