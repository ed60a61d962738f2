"""Snake by deep Q-learning: the loop in which every well-known optimisation of a DQN is a knob.

A net 100-256-256-4 maps the board, flattened, to the value of each move. It learns from a replay memory by the Huber
loss of the TD error against a target net.

Ops, with N environments, B transitions, O = 100 numbers a board, A = 4 moves:

=======================  ==============================================================================================
``forward``              f32[N, O] -> f32[N, A], Q-values
``act``                  f32[N, O], explore bool[N], random_actions i32[N] -> i32[N], greedy unless exploring
``env_step``             actions i32[T, N], draws i32[T, N, 3] -> boards f32[N, O], rewards f32[T, N], ended bool[T, N]
``remember``             K transitions, one after the other -> the number that is stored
``sample``               rows i64[B], 0 the oldest -> a batch
``train_step``           obs f32[B, O], actions i32[B], rewards f32[B], next_obs f32[B, O], terminated f32[B] -> f32,
                         the loss before the update
``collect_and_learn``    explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B] -> what was
                         done in T steps of N environments and U updates
=======================  ==============================================================================================
"""

BACKENDS = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax",
            "torch-cuda", "torch-compile-cuda", "jax-cuda")  # fmt: skip
