"""What a call of each case handles and costs, worked out by hand from the shapes."""

CONV0, CONV1, CONV2 = 20 * 20 * 8 * 8 * 4 * 32, 9 * 9 * 4 * 4 * 32 * 64, 7 * 7 * 3 * 3 * 64 * 64
NET = CONV0 + CONV1 + CONV2 + 3136 * 512 + 512 * 15  # multiplications for one state of 84 pixels along a side
LEARNT = 5 * NET - CONV0  # of an update: both nets on next states, and nothing goes back to the states
LARGE_CONV0, LARGE_CONV1, LARGE_CONV2 = 31 * 31 * 8 * 8 * 4 * 32, 14 * 14 * 4 * 4 * 32 * 64, 12 * 12 * 3 * 3 * 64 * 64
LARGE_NET = LARGE_CONV0 + LARGE_CONV1 + LARGE_CONV2 + 9216 * 512 + 512 * 15  # of 128 pixels
LARGE_LEARNT = 5 * LARGE_NET - LARGE_CONV0
LARGER = LARGE_NET, LARGE_LEARNT
ARRAYS = 8 * 8 * 4 * 32 + 4 * 4 * 32 * 64 + 3 * 3 * 64 * 64 + 3136 * 512 + 512 * 15 + 32 + 64 + 64 + 512 + 15
FRAME, LARGE = 84 * 84, 128 * 128  # bytes


def epochs(played, updates, batch, net=NET, learnt=LEARNT):
    """Items, FLOPs and bytes of epochs: of the experiences that are played nine in ten are acted for by the net."""
    return played, 2 * (updates * batch * learnt + 0.9 * played * net), 0


COSTS = {  # items, FLOPs and bytes of a call of one or two benchmarks of every case
    "mario.preprocess[full-numpy-batch1-side84]": (1, 0, 240 * 256 * 3 + FRAME),
    "mario.preprocess[sparse-numpy-batch8-side128]": (8, 0, 8 * (240 * 256 * 3 + LARGE)),
    "mario.transport[full-numpy-collectors2-side84-frames1]": (2000, 0, 2000 * 4 * FRAME),
    "mario.transport[naive-numpy-collectors4-side84-frames4]": (2000, 0, 2000 * 4 * 4 * FRAME),
    "mario.push[full-numpy-batch1000-side84]": (1000, 0, 1000 * 2 * FRAME),
    "mario.push[full-numpy-batch2000-side128]": (2000, 0, 2000 * 2 * LARGE),
    "mario.sample[full-numpy-batch256-buffer10000-side84]": (256, 0, 256 * 2 * 5 * FRAME),
    "mario.sample[naive-numpy-batch1024-buffer10000-side128]": (1024, 0, 1024 * 2 * 5 * LARGE),
    "mario.per_sample[full-numpy-batch256-buffer10000-side84]": (256, 0, 256 * 2 * 5 * FRAME),
    "mario.per_sample[full-numpy-batch256-buffer10000-side128]": (256, 0, 256 * 2 * 5 * LARGE),
    "mario.per_update[full-numpy-batch256-buffer10000-side84]": (256, 0, 0),
    "mario.per_update[full-numpy-batch256-buffer10000-side128]": (256, 0, 0),
    "mario.train_step[full-torch-batch16-side84-normnone-accumulate1]": (1, 16 * 2 * LEARNT, 0),
    "mario.train_step[naive-torch-batch2048-side84-normnone-accumulate4]": (1, 2048 * 2 * LEARNT, 0),
    "mario.train_step[full-torch-batch16-side84-normbatch-accumulate1]": (1, 16 * 2 * LEARNT, 0),
    "mario.train_step[full-torch-batch256-side128-normnone-accumulate1]": (1, 256 * 2 * LARGE_LEARNT, 0),
    "mario.train_step[bfloat16-torch-batch256-side84-normnone-accumulate1]": (1, 256 * 2 * LEARNT, 0),
    "mario.train_step[float16-torch-cuda-batch256-side84-normnone-accumulate1]": (1, 256 * 2 * LEARNT, 0),
    "mario.train_step[reduce_overhead-torch-compile-cuda-batch256-side84-normnone-accumulate1]": (
        1,
        256 * 2 * LEARNT,
        0,
    ),
    "mario.publish[full-numpy-collectors2-side84]": (1, 0, 3 * 2 * 4 * ARRAYS),
    **{
        f"mario.pipeline[{one}]": epochs(*sizes)
        for one, sizes in {
            "full-torch-collectors1-envs2-batch8-updates1-publish1-prioritised0": (8, 1, 8),
            "full-torch-collectors2-envs8-batch64-updates4-publish1-prioritised0": (256, 4, 64),
            "full-torch-collectors2-envs8-batch256-updates8-publish1-prioritised0": (2048, 8, 256),
            "full-torch-collectors4-envs1-batch256-updates8-publish1-prioritised0": (2048, 8, 256),
            "full-torch-collectors2-envs8-batch256-updates16-publish1-prioritised0": (4096, 16, 256),
            "full-torch-collectors2-envs1-batch256-updates8-publish5-prioritised0": (5 * 2048, 5 * 8, 256),
            "full-torch-collectors2-envs1-batch256-updates8-publish1-prioritised1": (2048, 8, 256),
            "cache_cleared-torch-cuda-collectors2-envs8-batch256-updates8-publish1-prioritised0": (2048, 8, 256),
            "reduce_overhead-torch-compile-cuda-collectors2-envs8-batch256-updates8-publish1-prioritised0": (
                2048,
                8,
                256,
            ),
            "full-torch-collectors2-envs8-batch256-updates8-publish1-prioritised0-side128": (2048, 8, 256, *LARGER),
            "full-torch-collectors4-envs1-batch512-updates16-publish5-prioritised0": (5 * 8192, 5 * 16, 512),
        }.items()
    },
}
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "mario.preprocess[full-numpy-batch1-side84]",
    "mario.preprocess[sparse-numpy-batch8-side128]",
]
