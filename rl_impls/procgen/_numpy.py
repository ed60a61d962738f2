"""Reference implementation in NumPy, in equation order: the nets, PPO, A2C and IMPALA.

Results have the precision of the arguments.

Each builder takes ``config`` (hyperparameters and initial weights by name), ``example`` (arguments of the first call),
``options`` (:class:`.options.Options`) and ``compiler`` (:class:`~rl_impls.compilers.Compiler`), and returns the op.
"""

import functools

import numpy as np

from ..common.numpy_net import convolution, linear, relu
from .net import BLOCKS, STAGES, STRIDES, net_of

STD_EPS = 1e-8  # added to the standard deviation of advantages


def logits_and_values(params, obs):
    """Forward pass of the net.  [B, 64, 64, 3], colours from 0 to 255 -> f[B, A], f[B]

    The names in ``params`` (see :mod:`.net`) select the net: three convolutions (Mnih et al. 2015), then one hidden
    layer for the policy and one for the value; or :func:`residual`.
    """
    h = obs.astype(params["w_logits"].dtype) / 255
    if net_of(params) == "residual":
        return residual(params, h)
    for k, stride in enumerate(STRIDES):
        h = relu(convolution(h, params[f"w_conv{k}"], params[f"b_conv{k}"], stride))
    h = h.reshape(len(h), -1)
    policy = relu(linear(h, params["w_policy"], params["b_policy"]))
    value = relu(linear(h, params["w_value"], params["b_value"]))
    logits = linear(policy, params["w_logits"], params["b_logits"])
    return logits, linear(value, params["w_return"], params["b_return"])[:, 0]


def residual(params, h):
    """Residual net of IMPALA (Espeholt et al. 2018, Fig. 3).  f[B, 64, 64, 3] from 0 to 1 -> f[B, A], f[B]

    Three stages of a convolution, max-pooling and two residual blocks; then a hidden layer shared by both heads.
    """

    def conv(name, h):
        return convolution(pad(h, 0), params[f"w_{name}"], params[f"b_{name}"], 1)

    for stage in range(len(STAGES)):
        h = max_pool(conv(f"stage{stage}", h))
        for block in range(BLOCKS):
            name = f"stage{stage}_block{block}"
            h = h + conv(f"{name}_conv1", relu(conv(f"{name}_conv0", relu(h))))
    h = relu(linear(relu(h).reshape(len(h), -1), params["w_hidden"], params["b_hidden"]))
    logits = linear(h, params["w_logits"], params["b_logits"])
    return logits, linear(h, params["w_return"], params["b_return"])[:, 0]


def pad(h, value):
    """Pad images with a border of one pixel.  f[B, Y, X, C] -> f[B, Y + 2, X + 2, C]"""
    return np.pad(h, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=value)


def max_pool(h):
    """Max-pool 3 x 3 pixels, with stride 2 and padding 1.  f[B, Y, X, C] -> f[B, Y / 2, X / 2, C]"""
    windows = np.lib.stride_tricks.sliding_window_view(pad(h, -np.inf), (3, 3), axis=(1, 2))
    return windows[:, ::2, ::2].max(axis=(4, 5))


def forward(config, example, *, options, compiler):
    """Build the forward pass with fixed weights.  obs u8[B, 64, 64, 3] -> logits f32[B, A], values f32[B]"""
    return functools.partial(logits_and_values, config["params"])


def log_softmax(logits):
    """Return the log-probabilities of all actions.  f[B, A] -> f[B, A]"""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sample_actions(logits, uniforms):
    """Sample actions i32[N] from softmax(logits) f[N, A]; return them and their log-probabilities f[N].

    Inverse transform sampling: take the first action whose cumulative probability exceeds ``uniforms``, f[N] in [0, 1).
    """
    log_probs = log_softmax(logits)
    reached = np.cumsum(np.exp(log_probs), axis=1) <= uniforms[:, None]
    actions = np.minimum(reached.sum(axis=1), logits.shape[1] - 1)  # rounding may leave the sum below 1
    return actions.astype(np.int32), log_probs[np.arange(len(actions)), actions]


def log_probs_and_entropy(logits, actions):
    """Return log pi(a) of the actions, and the policy's mean entropy.  f[B, A], i[B] -> f[B], f"""
    log_probs = log_softmax(logits)
    entropy = -(np.exp(log_probs) * log_probs).sum(axis=1).mean()
    return log_probs[np.arange(len(actions)), actions], entropy


def value_loss(values, returns):
    """Half the mean squared error of the values.  f[B], f[B] -> f"""
    return 0.5 * ((values - returns) ** 2).mean()


def backward_sum(terms, decays):
    """Return ``s_t = terms_t + decays_t s_{t+1}``, 0 after the last step.  f[T, ...], f[T, ...] -> f[T, ...]"""
    sums, later = np.empty_like(terms), np.zeros_like(terms[0])
    for t in reversed(range(len(terms))):
        sums[t] = later = terms[t] + decays[t] * later
    return sums


def compute_gae(rewards, values, next_values, terminated, truncated, *, gamma, gae_lambda):
    """Generalised advantages and returns (Schulman et al. 2016, Eq. 16).  -> f[T, ...], f[T, ...]

    ``delta_t = r_t + gamma (1 - terminated_t) next_values_t - values_t``, ``A_t = delta_t + gamma gae_lambda
    (1 - ended_t) A_{t+1}``, ``returns_t = A_t + values_t``. An episode that is truncated bootstraps, one that is
    terminated does not; both cut the sum of errors.

    rewards f[T, ...], values V(s_t) f[T, ...], next_values f[T, ...] of the state after step t, before any reset,
    terminated bool[T, ...], truncated bool[T, ...]
    """
    deltas = rewards + gamma * (next_values * ~terminated) - values
    decays = np.full_like(deltas, gamma * gae_lambda) * ~(terminated | truncated)
    advantages = backward_sum(deltas, decays)
    return advantages, advantages + values


def normalised(advantages):
    """Scale advantages to mean 0 and standard deviation 1 over the batch.  f[B] -> f[B]"""
    return (advantages - advantages.mean()) / (advantages.std() + STD_EPS)


def ppo_loss(params, batch, *, clip, value_weight, entropy_weight):
    """Loss of PPO (Schulman et al. 2017, Eq. 7 and 9), with advantages normalised over the batch.  -> f

    ``mean max(-A ratio, -A clip(ratio, 1 - clip, 1 + clip)) + value_weight value_loss - entropy_weight entropy``

    ``batch``: obs [B, 64, 64, 3], actions i[B], log_probs f[B] of the policy that acted, advantages f[B], returns f[B].
    """
    obs, actions, log_probs, advantages, returns = batch
    logits, values = logits_and_values(params, obs)
    new_log_probs, entropy = log_probs_and_entropy(logits, actions)
    ratios, advantages = np.exp(new_log_probs - log_probs), normalised(advantages)
    policy_loss = np.maximum(-advantages * ratios, -advantages * np.clip(ratios, 1 - clip, 1 + clip)).mean()
    return policy_loss + value_weight * value_loss(values, returns) - entropy_weight * entropy


def a2c_loss(params, batch, *, value_weight, entropy_weight):
    """Loss of advantage actor-critic (Mnih et al. 2016, Section 4).  -> f

    ``-mean(log pi(a) A) + value_weight value_loss - entropy_weight entropy``

    ``batch``: obs [B, 64, 64, 3], actions i[B], advantages f[B], returns f[B].
    """
    obs, actions, advantages, returns = batch
    logits, values = logits_and_values(params, obs)
    log_probs, entropy = log_probs_and_entropy(logits, actions)
    policy_loss = -(log_probs * advantages).mean()
    return policy_loss + value_weight * value_loss(values, returns) - entropy_weight * entropy


def compute_vtrace(log_ratios, rewards, values, next_values, terminated, truncated, *, gamma, rho_bar, c_bar):
    """V-trace value targets and advantages (Espeholt et al. 2018).  -> f[T, ...], f[T, ...]

    ``rho_t = min(rho_bar, ratio_t)``, ``c_t = min(c_bar, ratio_t)``, ``delta_t = rho_t (r_t + gamma (1 - terminated_t)
    next_values_t - values_t)``, ``vs_t - values_t = delta_t + gamma c_t (1 - ended_t) (vs_{t+1} - values_{t+1})`` (Eq.
    1 and Remark 1). Advantages are ``rho_t (r_t + gamma v_{t+1} - values_t)``, where ``v_{t+1}`` is ``vs_{t+1}`` within
    an episode, and ``(1 - terminated_t) next_values_t`` where the episode or the rollout ends (Section 4.2).

    ``log_ratios`` f[T, ...] are log-probabilities of the actions under the learner's policy minus those under the
    actor's; the other arrays are those of :func:`compute_gae`.
    """
    ratios, ended = np.exp(log_ratios), terminated | truncated
    rhos, cs = np.minimum(rho_bar, ratios), np.minimum(c_bar, ratios)
    bootstraps = ~terminated * next_values
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    next_vs = np.concatenate([np.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * next_vs - values)


def impala_targets(params, batch, *, gamma, rho_bar, c_bar):
    """V-trace targets and advantages f[T, N] of a rollout, by the weights before the update.

    ``batch`` is that of :func:`impala_loss`; ``rho_bar`` and ``c_bar`` those of :func:`compute_vtrace`.
    """
    obs, actions, log_probs, rewards, terminated, truncated = batch
    logits, values = logits_and_values(params, obs.reshape(-1, *obs.shape[2:]))
    steps, values = actions.size, values.reshape(obs.shape[:2])
    new_log_probs = log_probs_and_entropy(logits[:steps], actions.ravel())[0].reshape(actions.shape)
    return compute_vtrace(
        new_log_probs - log_probs, rewards, values[:-1], values[1:], terminated, truncated,
        gamma=gamma, rho_bar=rho_bar, c_bar=c_bar,
    )  # fmt: skip


def impala_loss(params, batch, targets, *, value_weight, entropy_weight):
    """Loss of IMPALA (Espeholt et al. 2018, Section 4.2); no gradient flows through the targets.  -> f

    :func:`a2c_loss` with V-trace targets as returns, but summed over all T N steps instead of averaged: the paper's
    constants, such as the gradient norm and RMSProp's epsilon, are tuned for a sum. Procgen does not show the last
    frame of a truncated episode, so the value of the next frame in the rollout replaces it.

    ``batch``: obs [T + 1, N, 64, 64, 3], actions i[T, N], log_probs f[T, N] of the policy that acted, rewards f[T, N],
    terminated and truncated bool[T, N]. ``targets``: result of :func:`impala_targets`.
    """
    obs, actions, (vs, advantages) = batch[0], batch[1], targets
    steps = obs[:-1].reshape(-1, *obs.shape[2:]), actions.ravel(), advantages.ravel(), vs.ravel()
    return actions.size * a2c_loss(params, steps, value_weight=value_weight, entropy_weight=entropy_weight)


def env_by_env(function):
    """Make a function of one environment's columns loop over all of them.  f[T, N], ... -> f[T, N], ..."""

    def call(*columns):
        results = [function(*(column[:, n] for column in columns)) for n in range(columns[0].shape[1])]
        return tuple(np.stack(each, axis=1) for each in zip(*results))

    return call


ADVANTAGES = {"loop": env_by_env, "vector": lambda function: function}  # by the option ``advantages``


def gae(config, example, *, options, compiler):
    """Build GAE.  rewards, values, next_values f32[T, N], terminated, truncated bool[T, N] -> f32[T, N], f32[T, N]"""
    constants = {name: config[name] for name in ("gamma", "gae_lambda")}
    return ADVANTAGES[options.advantages](functools.partial(compute_gae, **constants))


def vtrace(config, example, *, options, compiler):
    """Build V-trace; log_ratios f32[T, N] come before the arguments of :func:`gae`.  -> f32[T, N], f32[T, N]"""
    constants = {name: config[name] for name in ("gamma", "rho_bar", "c_bar")}
    return ADVANTAGES[options.advantages](functools.partial(compute_vtrace, **constants))
