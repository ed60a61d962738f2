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
    "mario.preprocess[full-numpy-1-84]": (1, 0, 240 * 256 * 3 + FRAME),
    "mario.preprocess[sparse-numpy-8-128]": (8, 0, 8 * (240 * 256 * 3 + LARGE)),
    "mario.transport[full-numpy-2-84-1]": (2000, 0, 2000 * 4 * FRAME),
    "mario.transport[naive-numpy-4-84-4]": (2000, 0, 2000 * 4 * 4 * FRAME),
    "mario.push[full-numpy-1000-84]": (1000, 0, 1000 * 2 * FRAME),
    "mario.push[full-numpy-2000-128]": (2000, 0, 2000 * 2 * LARGE),
    "mario.sample[full-numpy-256-10000-84]": (256, 0, 256 * 2 * 5 * FRAME),
    "mario.sample[naive-numpy-1024-10000-128]": (1024, 0, 1024 * 2 * 5 * LARGE),
    "mario.per_sample[full-numpy-256-10000-84]": (256, 0, 256 * 2 * 5 * FRAME),
    "mario.per_sample[full-numpy-256-10000-128]": (256, 0, 256 * 2 * 5 * LARGE),
    "mario.per_update[full-numpy-256-10000-84]": (256, 0, 0),
    "mario.per_update[full-numpy-256-10000-128]": (256, 0, 0),
    "mario.train_step[full-torch-16-84-none-1]": (1, 16 * 2 * LEARNT, 0),
    "mario.train_step[naive-torch-2048-84-none-4]": (1, 2048 * 2 * LEARNT, 0),
    "mario.train_step[full-torch-16-84-batch-1]": (1, 16 * 2 * LEARNT, 0),
    "mario.train_step[full-torch-256-128-none-1]": (1, 256 * 2 * LARGE_LEARNT, 0),
    "mario.train_step_in_half_precision[bfloat16-torch-256-84-none-1]": (1, 256 * 2 * LEARNT, 0),
    "mario.train_step_in_half_precision[float16-torch-cuda-256-84-none-1]": (1, 256 * 2 * LEARNT, 0),
    "mario.train_step_as_cuda_graph[reduce_overhead-torch-compile-cuda-256-84-none-1]": (1, 256 * 2 * LEARNT, 0),
    "mario.publish[full-numpy-2-84]": (1, 0, 3 * 2 * 4 * ARRAYS),
    **{
        one: epochs(*sizes)
        for one, sizes in {
            "mario.pipeline[full-torch-1-2-8-1-1-0]": (8, 1, 8),
            "mario.pipeline_short[full-torch-2-8-64-4-1-0]": (256, 4, 64),
            "mario.pipeline_of_source[full-torch-2-8-256-8-1-0]": (2048, 8, 256),
            "mario.pipeline_of_source[full-torch-4-1-256-8-1-0]": (2048, 8, 256),
            "mario.pipeline_of_source[full-torch-2-8-256-16-1-0]": (4096, 16, 256),
            "mario.pipeline_of_source[full-torch-2-1-256-8-5-0]": (5 * 2048, 5 * 8, 256),
            "mario.pipeline_of_source[full-torch-2-1-256-8-1-1]": (2048, 8, 256),
            "mario.pipeline_on_gpu[cache_cleared-torch-cuda-2-8-256-8-1-0]": (2048, 8, 256),
            "mario.pipeline_on_gpu[reduce_overhead-torch-compile-cuda-2-8-256-8-1-0]": (
                2048,
                8,
                256,
            ),
            "mario.pipeline_large_frames[full-torch-2-8-256-8-1-0-128]": (2048, 8, 256, *LARGER),
            "mario.pipeline_optimised[full-torch-4-1-512-16-5-0]": (5 * 8192, 5 * 16, 512),
        }.items()
    },
}
MOVED = [  # where all that is taken and returned is charged, and nothing else
    "mario.preprocess[full-numpy-1-84]",
    "mario.preprocess[sparse-numpy-8-128]",
]
