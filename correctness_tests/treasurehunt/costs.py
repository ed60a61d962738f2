"""What a call of each case handles and costs, worked out by hand from the shapes."""

# multiplications for one state: the layer of the state is used once, the others for 12 quantiles
HUNT = 750 * 250 + 12 * (64 * 250 + 250 * 250 + 250 * 5)
SEEN = 750 * 250 // 6 + 12 * (64 * 250 + 250 * 250 + 250 * 5)  # the state's one-hot rows looked up
HUNTED = 2 * 64 * (4 * 750 * 250 + 12 * (4 * 64 * 250 + 5 * 250 * 250 + 5 * 250 * 5))  # three passes and one back
STATE = 4 * 750  # bytes

COSTS = {  # items, FLOPs and bytes of a call of one or two benchmarks of every case
    "treasurehunt.observe[full-numpy-5-16]": (80, 0, 80 * 4 * 150),
    "treasurehunt.stack[full-numpy-5-16]": (80, 0, 80 * 2 * STATE),
    "treasurehunt.sample[full-numpy-5]": (5 * 64, 0, 5 * 64 * 2 * 2 * STATE),
    "treasurehunt.quantile_huber[full-numpy-64]": (1, 0, 0),
    "treasurehunt.forward[naive-torch-5-64]": (
        320, 320 * 2 * HUNT, 320 * (STATE + 4 * 12 + 4 * 12 * 4) + 5 * 4 * (250 + 250 + 250 + 5),
    ),
    "treasurehunt.act[full-torch-5-16]": (80, 80 * 2 * HUNT, 0),
    "treasurehunt.train_step[full-torch-5]": (5, 5 * HUNTED, 0),
    "treasurehunt.train_step[bfloat16-torch-5]": (5, 5 * HUNTED, 0),
    "treasurehunt.first_call[full-torch-5-64]": (1, 0, 0),
    "treasurehunt.turn[full-torch-5-1]": (10, 5 * 10 * 2 * SEEN, 0),
    "treasurehunt.turn[full-torch-5-16]": (160, 5 * 160 * 2 * HUNT, 0),
    "treasurehunt.epoch[full-torch-5-1]": (50, 5 * 50 * 2 * SEEN + 5 * HUNTED, 0),
    "treasurehunt.epoch[full-torch-5-16]": (800, 5 * 800 * 2 * HUNT + 5 * HUNTED, 0),
    "treasurehunt.epoch[processes-torch-5-1]": (50, 5 * 50 * 2 * SEEN + 5 * HUNTED, 0),
}  # fmt: skip
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "treasurehunt.observe[full-numpy-5-16]",
    "treasurehunt.stack[full-numpy-5-16]",
    "treasurehunt.forward[naive-torch-5-64]",
]
MORE = (  # op, form and axes that compute more than the op needs, which alone is charged; and what
    ("treasurehunt.turn", {"worlds": 1}, "multiplies a one-hot state, whose rows of the weights can be looked up"),
    ("treasurehunt.epoch", {"worlds": 1}, "multiplies a one-hot state, whose rows of the weights can be looked up"),
)
UNSTATED = {"treasurehunt.first_call": "most of it is compiling"}  # op that multiplies and has no limit, and why
