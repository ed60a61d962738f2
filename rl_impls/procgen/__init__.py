"""Procgen with PPO, A2C, A3C and IMPALA: actor-critic learning from images of 64 x 64 pixels.

A net of three convolutions (Mnih et al. 2015) and two heads maps an image to the logits of 15 actions and to the value
of the state. It learns from rollouts: by proximal policy optimisation (Schulman et al. 2017) with generalised
advantages (Schulman et al. 2016), by advantage actor-critic (Mnih et al. 2016), or off-policy by V-trace (Espeholt et
al. 2018). The residual net of Espeholt et al. can take the place of this net.

Axes, if a module does not redefine them: T steps, N environments, B images, A = 15 actions, I rollouts, U updates of
each. Ops:

===================  ==================================================================================================
``env_step``         actions i32[T, N] -> frames u8[N, 64, 64, 3], rewards f32[T, N], ended bool[T, N]
``forward``          obs u8[B, 64, 64, 3] -> logits f32[B, A], values f32[B]
``gae``              rewards, values, next_values f32[T, N], terminated, truncated bool[T, N] -> advantages, returns
                     f32[T, N]
``vtrace``           log_ratios, rewards, values, next_values f32[T, N], terminated, truncated bool[T, N] -> vs,
                     advantages f32[T, N]
``ppo_update``       obs u8[B, 64, 64, 3], actions i32[B], log_probs, advantages, returns f32[B] -> f32, the loss before
                     the update
``a2c_update``       arguments of ``ppo_update`` without log_probs -> f32, the loss before the update
``impala_update``    obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs, rewards f32[T, N], terminated, truncated
                     bool[T, N] -> f32, the loss before the update
``ppo``              numbers i64[I] -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]: play and
                     learn from I rollouts; the number of a rollout seeds its random numbers
``a2c``              like ``ppo``, with one update per rollout
``impala``           like ``a2c``
``parallel_ppo``     like ``ppo``, but actor processes play, up to ``lag`` rollouts ahead
``parallel_impala``  like ``impala``, but actor processes play, up to ``lag`` rollouts ahead
``a3c``              like ``a2c`` in worker processes, with one gradient per worker and rollout: losses f32[I, workers]
===================  ==================================================================================================
"""

BACKENDS = ("numpy", "torch", "torch-compile", "jax", "torch-cuda", "torch-compile-cuda", "jax-cuda")
