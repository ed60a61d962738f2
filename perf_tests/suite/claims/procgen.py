"""What was published of PPO and IMPALA on Procgen, in one process and in many."""

from __future__ import annotations

from ..claim import Comparison, Figure, Side, between, stated_in

on = stated_in("rl-cluster-benchmark.md")
PPO, IMPALA, A2C = (
    "ppo[{}-torch-envs32-unroll16-epochs1]",
    "impala[{}-torch-envs32-unroll16]",
    "a2c[{}-torch-envs32-unroll16]",
)
CREWS = {
    "ppo": "parallel_ppo[full-torch-envs32-unroll16-epochs1-actors2-lag{}]",
    "impala": "parallel_impala[full-torch-envs32-unroll16-actors2-lag{}]",
}


def loop(pattern: str, form: str = "full") -> str:
    """Return the id of a loop of 32 environments and rollouts of 16 steps.

    Args:
        pattern: of the id.
        form: its name.
    """
    return "procgen." + pattern.format(form)


def parallel(algorithm: str, pattern: str) -> dict[str, Comparison]:
    """Return the loops in one process beside those with two actors, of lag 0 and of lag 1.

    Args:
        algorithm: key of CREWS.
        pattern: of the id of the loop in one process.
    """
    return {f"lag {lag}": between(loop(pattern), loop(CREWS[algorithm].format(lag))) for lag in (0, 1)}


THREADS = "Theirs is of 28 threads of an Intel i7-14700K."

CLAIMS = (
    on(
        "procgen-ppo-fps",
        "PPO in one process plays 4,000 to 6,000 frames a second on 28 threads",
        "expected performance",
        promised="4K to 6K frames/s on 28 threads",
        note=f"{THREADS} It plays 112 environments.",
        figures=[
            Figure("PPO, one epoch", Side(loop(PPO)), "4K to 6K frames/s"),
            Figure("PPO, four epochs", Side(loop(PPO).replace("epochs1", "epochs4")), "epochs not stated"),
        ],
    ),
    on(
        "procgen-impala-fps",
        "IMPALA in one process plays 3,000 to 5,000 frames a second on 28 threads",
        "expected performance",
        promised="3K to 5K frames/s on 28 threads",
        note=THREADS,
        figures=[Figure("IMPALA", Side(loop(IMPALA)), "3K to 5K frames/s")],
    ),
    on(
        "procgen-parallel-ppo",
        "parallel PPO, once mended, is three times as fast as sequential PPO",
        "parallel PPO",
        promised="3 x (12K to 18K frames/s); slower as it was",
        least=3.0,
        contexts=parallel("ppo", PPO),
        note="Two actors on the cores that are here; the source expects it of 28 threads.",
    ),
    on(
        "procgen-parallel-impala",
        "parallel IMPALA is faster than sequential IMPALA",
        "parallel IMPALA",
        promised="faster",
        least=1.02,
        contexts=parallel("impala", IMPALA),
    ),
    on(
        "procgen-impala-vs-ppo",
        "sequential IMPALA plays 0.75 to 0.83 times as many frames a second as PPO",
        "expected performance",
        promised="PPO 1.2 to 1.33 x IMPALA",
        least=1.2,
        contexts={
            "one epoch": between(loop(IMPALA), loop(PPO)),
            "four epochs": between(loop(IMPALA), loop(PPO).replace("epochs1", "epochs4")),
            "one epoch, naive": between(loop(IMPALA, "naive"), loop(PPO, "naive")),
        },
        note="Turned round, so that what is judged is that PPO is the faster.",
    ),
    on(
        "procgen-memory",
        "a training in one process needs 2 to 3 GB",
        "expected performance",
        promised="2 to 3 GB",
        figures=[
            Figure("PPO", Side(loop(PPO).replace("unroll16", "unroll128")), "2 to 3 GB", "peak"),
            Figure("IMPALA", Side(loop(IMPALA).replace("unroll16", "unroll128")), "2 to 3 GB", "peak"),
        ],
        note="The most memory that a process with torch and this loop had; rollouts of 32 environments x 128 steps.",
    ),
    on(
        "procgen-threads",
        "all threads in place of one",
        "thread configuration",
        contexts={
            "PPO": Comparison(Side(loop(PPO), threads=1), Side(loop(PPO))),
            "IMPALA": Comparison(Side(loop(IMPALA), threads=1), Side(loop(IMPALA))),
        },
    ),
    on(
        "procgen-a3c-a2c",
        "A3C with two actors in place of A2C in one process",
        "algorithms",
        contexts={"from full": between(loop(A2C), loop("a3c[{}-torch-envs32-unroll16-actors2]"))},
    ),
)
