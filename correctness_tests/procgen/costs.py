"""What a call of each case handles and costs, worked out by hand from the shapes."""

CONV0, CONV1, CONV2 = 14 * 14 * 8 * 8 * 3 * 32, 6 * 6 * 4 * 4 * 32 * 64, 4 * 4 * 3 * 3 * 64 * 64
NET = CONV0 + CONV1 + CONV2 + 2 * 1024 * 512 + 512 * (15 + 1)  # multiplications for one picture
LEARNT = 3 * NET - CONV0  # of an update: nothing goes back to the picture
STAGES = (
    3 * 16 * 64**2 + 4 * 16 * 16 * 32**2,
    16 * 32 * 32**2 + 4 * 32 * 32 * 16**2,
    32 * 32 * 16**2 + 4 * 32 * 32 * 8**2,
)
RESIDUAL = 9 * sum(STAGES) + 8 * 8 * 32 * 256 + 256 * (15 + 1)
RESIDUAL_LEARNT = 3 * RESIDUAL - 9 * 3 * 16 * 64**2
PICTURE = 64 * 64 * 3  # bytes

COSTS = {  # items, FLOPs and bytes of a call of one or two benchmarks of every case
    "procgen.forward[full-numpy-32-nature]": (32, 32 * 2 * NET, 32 * (PICTURE + 4 * 16)),
    "procgen.forward[bfloat16-torch-64-nature]": (64, 64 * 2 * NET, 64 * (PICTURE + 4 * 16)),
    "procgen.forward[full-numpy-32-residual]": (32, 32 * 2 * RESIDUAL, 32 * (PICTURE + 4 * 16)),
    "procgen.ppo_update[full-torch-64-residual]": (1, 64 * 2 * RESIDUAL_LEARNT, 0),
    "procgen.ppo_update[bfloat16-torch-64-residual]": (1, 64 * 2 * RESIDUAL_LEARNT, 0),
    "procgen.gae[full-numpy-16]": (128 * 16, 0, 128 * 16 * (3 * 4 + 2 + 2 * 4)),
    "procgen.vtrace[full-numpy-16]": (128 * 16, 0, 128 * 16 * (4 * 4 + 2 + 2 * 4)),
    "procgen.ppo_update[full-torch-64-nature]": (1, 64 * 2 * LEARNT, 0),
    "procgen.ppo_update[bfloat16-torch-256-nature]": (1, 256 * 2 * LEARNT, 0),
    "procgen.a2c_update[full-torch-64]": (1, 64 * 2 * LEARNT, 0),
    "procgen.a2c_update[bfloat16-torch-64]": (1, 64 * 2 * LEARNT, 0),
    "procgen.impala_update[full-torch-64]": (1, 2 * (64 * LEARNT + 4 * NET), 0),
    "procgen.env_step[full-numpy-64-coinrun]": (8 * 64, 0, 8 * 64 * (4 + PICTURE + 4 + 1)),
    **{
        f"procgen.{loop}": (64, 2 * (64 * (NET + LEARNT) + 8 * NET), 0)
        for loop in (
            "ppo[full-torch-8-8-1]",
            "ppo[bfloat16-torch-8-8-1]",
            "a2c[full-torch-8-8]",
            "a2c[bfloat16-torch-8-8]",
            "impala[full-torch-8-8]",
            "impala[bfloat16-torch-8-8]",
        )
    },
    **{
        f"procgen.{loop}": (4 * 64, 4 * 2 * (64 * (NET + LEARNT) + 8 * NET), 0)
        for loop in (
            "parallel_ppo[full-torch-8-8-1-2-0]",
            "parallel_ppo[full-torch-8-8-1-2-1]",
            "a3c[full-torch-8-8-2]",
            "parallel_impala[full-torch-8-8-2-0]",
            "parallel_impala[full-torch-8-8-2-1]",
        )
    },
    "procgen.ppo[full-torch-32-128-4]": (4096, 2 * (4096 * (NET + 4 * LEARNT) + 32 * NET), 0),
    "procgen.impala_update[bfloat16-torch-256]": (1, 2 * (256 * LEARNT + 16 * NET), 0),
}
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "procgen.forward[full-numpy-32-nature]",
    "procgen.gae[full-numpy-16]",
    "procgen.vtrace[full-numpy-16]",
]
LAST = "it goes back through the last pictures too, from which nothing is learned"
EDGE = "its first layer computes a last row and column too, which the second one does not see"
MORE = [
    ("procgen.impala_update", {}, LAST),
    ("procgen.impala", {}, LAST),
    *((f"procgen.{op}", {"form": "naive"}, EDGE) for op in ("forward", "ppo_update", "a2c_update", "ppo", "a2c")),
]
