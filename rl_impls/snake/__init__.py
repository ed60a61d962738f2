"""Snake by deep Q-learning (Mnih et al. 2015): a DQN loop in which every well-known optimisation is an option.

A 100-256-256-4 network maps the flattened board to the Q-value of each action. It learns from a replay buffer by the
Huber loss of the TD error, with a target network.

Axes in all modules: N environments, B transitions, O = 100 cells per board, A = 4 actions, T steps, U updates.
``draws`` are random integers for food, start and heading. Weights are dicts of ``w{k}`` f32[inputs, outputs] and
``b{k}`` f32[outputs] for each layer k. Ops:

=======================  ==============================================================================================
``forward``              f32[N, O] -> f32[N, A], Q-values
``act``                  f32[N, O], explore bool[N], random_actions i32[N] -> i32[N], greedy unless exploring
``env_step``             actions i32[T, N], draws i32[T, N, 3] -> boards f32[N, O], rewards f32[T, N], ended bool[T, N]
``remember``             K transitions, stored one by one -> the number stored, the newest board f32[O]
``sample``               rows i64[B], 0 the oldest -> a batch
``train_step``           obs f32[B, O], actions i32[B], rewards f32[B], next_obs f32[B, O], terminated f32[B] -> f32,
                         the loss before the update
``collect_and_learn``    explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B] -> actions
                         i32[T, N], rewards f32[T, N], ended bool[T, N], losses f32[U]
=======================  ==============================================================================================
"""

BACKENDS = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax",
            "torch-cuda", "torch-compile-cuda", "jax-cuda")  # fmt: skip
