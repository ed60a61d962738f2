"""Physics-informed Q-agent: learns the probability of staying on the road over a horizon.

The net maps 15 vehicle features and a horizon to a probability for each of 25 actions. This probability satisfies the
backward Kolmogorov equation. The loss is the squared TD error, plus the squared residuals of this equation and of its
boundary conditions.

Axes in all modules: B states, S = 16 features per state, the horizon tau last, A = 25 actions, P points of each kind:
``interior`` in the safe set, ``expired`` with tau = 0, ``unsafe`` on the edge of the safe set. Weights are dicts of
``w{k}`` f32[inputs, outputs] and ``b{k}`` f32[outputs] for each layer k. Ops:

=====================  ================================================================================
``forward``            f32[B, S] -> f32[B, A], Q-values
``act``                f32[1, S], f32 uniform, int random action -> int, epsilon-greedy
``pde_loss``           f32[P, S] -> f32, mean squared residual of the equation
``train_step``         states f32[B, S], actions i32[B], rewards f32[B], next_states f32[B, S],
                       terminated f32[B], interior f32[P, S], expired f32[P, S], unsafe f32[P, S] -> f32, the
                       loss before the update
``loss_and_backward``  arguments of ``train_step`` -> (loss f32, its TD term f32), gradients by weight's name
``sync_target``        -> the target network's weights, copied from the online ones
``sustained``          f32[K, B, S] -> f32[K, B, A], batch after batch, from and to host memory
``serve``              f32[N, S] -> f32[N, A], N requests from many threads
``hybrid``             arguments of ``train_step`` -> f32[10, A]; a second net on another backend acts between
                       updates and takes the weights every few updates
=====================  ================================================================================
"""
