"""What a call of each case handles and costs, worked out by hand from the shapes."""

SNAKE = 100 * 256 + 256 * 256 + 256 * 4  # multiplications for one board
# of an update: the target net, three times the online net, but nothing back to the inputs of the first layer
LEARNT = 2 * 32 * (4 * SNAKE - 100 * 256)
BOARD = 4 * 100  # bytes

COSTS = {  # items, FLOPs and bytes of a call of one or two benchmarks of every case
    "snake.forward[full-numpy-64]": (64, 64 * 2 * SNAKE, 64 * (BOARD + 4 * 4)),
    "snake.forward[int8-onnx-64]": (64, 0, 0),
    "snake.act[full-torch-64]": (64, 64 * 2 * SNAKE, 0),
    "snake.env_step[vectorised-numpy-64]": (8 * 64, 0, 64 * (8 * (4 + 3 * 4 + 4 + 1) + BOARD)),
    "snake.remember[full-numpy]": (64, 0, 64 * 2 * 2 * BOARD),
    "snake.sample[full-numpy-32]": (32, 0, 32 * 2 * 2 * BOARD),
    "snake.train_step[naive-torch-32]": (1, LEARNT, 0),
    "snake.train_step[bfloat16-torch-32]": (1, LEARNT, 0),
    "snake.train_step[tf32-torch-cuda-32]": (1, LEARNT, 0),
    "snake.train_step_ddp[ddp-torch-64]": (1, 2 * LEARNT, 0),
    "snake.collect_and_learn[naive-torch-1-1-32]": (64, 64 * (2 * SNAKE + LEARNT), 0),
    "snake.collect_and_learn[vectorised-torch-64-4-32]": (256, 256 * 2 * SNAKE + 64 * LEARNT, 0),
    "snake.collect_and_learn[vectorised-torch-1024-4-32]": (1024, 1024 * 2 * SNAKE + 256 * LEARNT, 0),
    "snake.collect_and_learn_threaded[threaded-torch-64-4-32]": (256, 256 * 2 * SNAKE + 64 * LEARNT, 0),
    **{
        f"snake.collect_and_learn[compiled-jax-{envs}-4-32]": (
            1024, 1024 * 2 * SNAKE + 256 * LEARNT, 0,
        ) for envs in (1, 64, 1024)
    },
}  # fmt: skip
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "snake.forward[full-numpy-64]",
    "snake.env_step[vectorised-numpy-64]",
]
FEW = 4  # boards whose moves are picked in NumPy


def beside_torch(op):
    """Return the FLOPs of the moves that form ``full`` picks in NumPy."""
    problem = op.problem
    acts = problem.op in ("act", "collect_and_learn")
    if not acts or op.options.acting == "torch" or problem.args[1].shape[-1] > FEW:
        return 0.0
    return 2 * SNAKE * problem.items
