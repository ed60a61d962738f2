"""The experience pipeline of a Mario agent: from collectors through a replay buffer to the learner, and weights back.

Collector processes play CoinRun or Super Mario Bros. for an agent that learns by double Q-learning from four frames
(Mnih et al. 2015; van Hasselt et al. 2016). They send each experience to the learner's process through a queue behind a
lock, a queue per environment, or rings in shared memory. The learner stores each frame once and samples stacks,
uniformly or by priority (Schaul et al. 2016), and publishes new weights.

Axes in all modules: B experiences, C collectors of E environments, N environments that act together, S pixels
along a side of a frame, H x W pixels of a game, A = 15 actions, I epochs of U updates. Ops:

================  =====================================================================================================
``preprocess``    frames u8[B, H, W, 3] -> u8[B, S, S], grey and small
``transport``     number i64 -> i64[C, 3]: C processes send experiences to a replay buffer; counts and checksums
``push``          frames u8[B, S, S], actions i32[B], rewards f32[B], terminated bool[B], times i32[B] -> frames,
                  rewards and validity of the last four rows
``sample``        seed i64 -> obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated
                  f32[B]
``per_sample``    uniforms f32[B] -> the same, rows i64[B], weights f32[B]
``per_update``    rows i64[B], errors f32[B] -> priorities f32[B + 1]
``train_step``    obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated f32[B],
                  weights f32[B] -> f32, the loss before the update, and TD errors f32[B]
``forward``       -> f32[B, 15], the Q-values of observations that are on the device
``backward``      -> the gradient of the mean square of these values, by name
``store``         frames u8[100, S, S] -> f32 or u8[10000, S, S], a hundred copies of each
``publish``       number i64 -> f32[C, arrays]: the weights of that version go to C processes
``pipeline``      numbers i64[I] -> losses f32[I, U], TD errors f32[I, U]: epochs of U updates, determined by the seed
================  =====================================================================================================
"""

BACKENDS = ("numpy", "torch", "torch-compile", "jax", "torch-cuda", "torch-compile-cuda", "jax-cuda")
