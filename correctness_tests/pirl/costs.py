"""What a call of each case handles and costs, worked out by hand from the shapes."""

# multiplications for one state of the net 16-32-32-32-25 and its layers but the last, and of a wider one
PIRL, STREAM, WIDE = 16 * 32 + 2 * 32 * 32 + 32 * 25, 16 * 32 + 2 * 32 * 32, 16 * 128 + 2 * 128 * 128 + 128 * 25

COSTS = {  # items, FLOPs and bytes of a call of one or two benchmarks of every case
    "pirl.forward[full-numpy-8-host-32]": (8, 8 * 2 * PIRL, 8 * 4 * (16 + 25)),
    "pirl.forward[full-torch-1-device-128]": (1, 2 * WIDE, 4 * (16 + 25)),
    "pirl.act[full-numpy-32]": (1, 2 * PIRL, 0),
    "pirl.act[full-numpy-128]": (1, 2 * WIDE, 0),
    "pirl.pde_loss[naive-torch-1]": (32, 32 * 2 * (PIRL + STREAM), 0),
    "pirl.pde_loss[naive-torch-2]": (32, 32 * 2 * (PIRL + 6 * STREAM), 0),
    "pirl.train_step[naive-torch-32-1-32]": (
        1, 2 * (32 * PIRL + (32 + 3 * 32) * (3 * PIRL - 16 * 32) + 32 * (3 * STREAM - 16 * 32)), 0,
    ),
    "pirl.train_step[naive-torch-256-2-32]": (
        1, 2 * (256 * PIRL + (256 + 3 * 32) * (3 * PIRL - 16 * 32) + 6 * 32 * (3 * STREAM - 16 * 32)), 0,
    ),
    "pirl.train_step[naive-torch-256-1-128]": (
        1, 2 * (256 * WIDE + 352 * (3 * WIDE - 16 * 128) + 32 * (3 * (WIDE - 128 * 25) - 16 * 128)), 0,
    ),
    "pirl.sync_target[full-numpy-32]": (1, 0, 0),
    "pirl.sustained[full-numpy-512]": (16 * 512, 16 * 512 * 2 * PIRL, 16 * 512 * 4 * (16 + 25)),
    "pirl.serve[full-numpy-32]": (4 * 32, 0, 0),
    "pirl.hybrid[full-torch-numpy-10]": (10, 0, 0),
}  # fmt: skip
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "pirl.forward[full-numpy-8-host-32]",
    "pirl.sustained[full-numpy-512]",
]
MORE = (  # op, form and axes that compute more than the op needs, which alone is charged; and what
    ("pirl.pde_loss", {"form": "naive"}, "differentiates backward what the generator carries forward"),
    ("pirl.pde_loss", {"form": "full", "order": 1}, "streams go through all of the last layer, not the greedy row"),
    ("pirl.train_step", {"form": "naive"}, "differentiates backward what the generator carries forward"),
)
UNSTATED = {"pirl.hybrid": "most of it is copying weights, and waiting"}  # op that multiplies and has no limit, and why
