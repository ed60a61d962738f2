"""A treasure hunt of many agents, each of which learns by IQN with its own net, batched or one after the other.

Agents walk a 21 x 21 world inside walls, in which gems (+10), food (+5) and bones (-10) appear. They see 5 x 5 cells;
a wall costs 1, and other agents block the way. Each agent has its own implicit quantile network (Dabney et al. 2018)
with noisy layers and dueling heads over five frames, its own optimiser and its own replay memory of 3-step transitions.

Axes in all modules: N agents, K worlds of C = 441 cells, T turns, B = 64 transitions, F = 150 numbers per frame,
S = 5 F, Q = 12 quantiles, A = 4 moves and M = 755 noise numbers. Ops:

==================  =================================================================================================
``observe``         -> f32[N, K, F], observations of all agents
``stack``           recent f32[N, K, 4, F], frame f32[N, K, F] -> f32[N, K, S]
``sample``          rows i64[N, B] -> a batch: states f32[N, B, S], actions, returns, next_states, discounts
``quantile_huber``  online f32[B, Q], targets f32[B, Q], taus f32[B, Q] -> f32, the loss
``forward``         states f32[N, B, S], taus f32[N, B, Q], noise f32[N, M] -> f32[N, B, Q, A]
``act``             states f32[N, K, S], taus f32[N, K, Q], explore, random_actions -> i32[N, K]; no noise
``train_step``      a batch, taus f32[N, 3, B, Q], noise f32[N, 2, M] -> f32[N], the losses before the update
``gradient``        arguments of ``train_step`` for one agent -> the loss f32, and its gradient by name
``draw``            -> i[B], distinct rows of the replay memory
``turn``            draws i32[T, K, C], taus f32[T, N, K, Q], explore, random_actions -> actions and rewards of T turns
``epoch``           reset_draws i32[K, C], arguments of ``turn``, rows i64[N, B], taus, noise -> actions, rewards,
                    losses; in the form ``keyed`` a key u32[2] and epsilon f32 -> the same
``first_call``      ``forward`` built and called for the first time: compile time
==================  =================================================================================================
"""

BACKENDS = ("numpy", "torch", "torch-compile", "jax", "torch-cuda", "jax-cuda")
