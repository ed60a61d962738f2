"""Double Q-learning from stacked frames in torch: network, update and acting.

Builders are as in :mod:`._numpy`; tensors are on the device of ``compiler``.
"""

import functools
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from ..common.torch_learner import FOREACH, GUARDS, Learner, autocast, place, threads
from ..common.torch_pictures import PictureNet
from .net import NORM_EPS, NORM_RATE, STRIDES, has_norm, is_running
from .options import check_supported

COMPILED = {"default": {}, "reduce_overhead": {"mode": "reduce-overhead"}}  # options of torch.compile


class Net(PictureNet):
    """Q-network with the equations of :func:`._numpy.q_values`.  obs [B, 4, S, S] -> f[B, A]"""

    def __init__(self, params, options):
        super().__init__({name: value for name, value in params.items() if not is_running(name)}, options)
        for name, value in params.items():
            if is_running(name):  # a buffer, so that the optimiser does not see it
                self.register_buffer(name, torch.from_numpy(value).clone())
        self.norm, self.relu = has_norm(params), functools.partial(F.relu, inplace=options.relu == "inplace")

    def load(self, params):
        """Copy weights and running statistics, NumPy arrays by name, into the net."""
        super().load(params)
        for name, value in self.named_buffers():
            value.copy_(torch.from_numpy(params.get(name, value.cpu().numpy())))

    def convolved(self, h, k, kernel, learning):
        """Apply convolution k to h, f[B, I, Y, X], and batch norm if the net has it, but no ReLU."""
        bias = self.weights[f"b_conv{k}"]
        if not self.norm:
            return F.conv2d(h, kernel, bias, STRIDES[k])
        running = self.get_buffer(f"m_conv{k}"), self.get_buffer(f"v_conv{k}")
        h = F.conv2d(h, kernel, None, STRIDES[k])
        return F.batch_norm(h, *running, self.weights[f"g_conv{k}"], bias, learning, NORM_RATE, NORM_EPS)

    def forward(self, obs, learning=False):
        """Return Q-values f[B, A] of observations [B, 4, S, S], 0 to 255.

        With ``learning``, batch norm uses the batch's statistics and updates the running ones.
        """
        w = self.weights
        h, kernel = self.divided(obs.to(self.first_dtype, memory_format=self.memory_format), w["w_conv0"])
        for k in range(len(STRIDES)):
            h = self.relu(self.convolved(h, k, w[f"w_conv{k}"] if k else kernel, learning))
        h = self.relu(torch.addmm(w["b_hidden"], h.permute(0, 2, 3, 1).flatten(1), w["w_hidden"]))
        return torch.addmm(w["b_value"], h, w["w_value"]).to(self.dtype)


def make_net(params, options, compiler):
    """Return a :class:`Net` on the device of ``compiler``."""
    return Net(params, options).to(place(compiler))


def make_loss(net, target_net, gamma):
    """Return ``loss(*batch) -> f32[], f32[B]``, the weighted Huber loss, which is differentiable, and the TD errors.

    The equations are those of :func:`._numpy.td_targets` and :func:`._numpy.td_loss`.
    """

    def loss(obs, actions, rewards, next_obs, terminated, weights):
        with torch.no_grad():
            best = net(next_obs).argmax(dim=1, keepdim=True)
            td_targets = rewards + gamma * (1 - terminated) * target_net(next_obs).gather(1, best)[:, 0]
        taken = net(obs, learning=True).gather(1, actions.long()[:, None])[:, 0]
        losses = F.smooth_l1_loss(taken, td_targets, reduction="none")
        return (weights * losses).mean(), taken.detach() - td_targets

    return loss


class TrainStep(Learner):
    """One Adam update of the online network on double Q-learning's Huber loss (van Hasselt et al. 2016).

    obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated f32[B], weights f32[B] ->
    loss f32[] before the update, TD errors f32[B]

    The gradient is clipped by its norm. The target network is not changed.

    Raises:
        ValueError: ``accumulate`` does not divide the batch, or an option is not supported.
    """

    def __init__(self, config, example, *, options, compiler):
        check_supported(options, compiler)
        if len(example[0]) % options.accumulate:
            raise ValueError(f"accumulate={options.accumulate} should divide the batch size, {len(example[0])}")
        make, scaled = functools.partial(make_net, options=options, compiler=compiler), options.precision == "float16"
        super().__init__(config, options.optimizer, make, scaled=scaled, device=place(compiler))
        self.options, self.compiler, self.pictures = options, compiler, Pictures(self.net, options, compiler)
        loss = make_loss(self.net, self.target_net, config["gamma"])
        self.loss = compiler.compile(loss, example, **COMPILED[options.compile_mode])
        foreach = FOREACH[options.optimizer]
        self.clip = functools.partial(
            nn.utils.clip_grad_norm_, self.parameters, config["max_grad_norm"], foreach=foreach
        )
        self.set_to_none = options.zero_grad == "none"
        self.threads = functools.partial(threads, 1 if options.threads == "one" else None)

    def __call__(self, *batch):
        """Make an update; return the loss before it, f32[], and the TD errors, f32[B]."""
        parts = self.options.accumulate
        losses, errors = [], []
        with self.threads():
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
            for obs, actions, rewards, next_obs, *rest in zip(*(column.chunk(parts) for column in batch)):
                obs, next_obs = self.pictures("obs", obs), self.pictures("next_obs", next_obs)
                with autocast(self.options, self.compiler):
                    loss, error = self.loss(obs, actions, rewards, next_obs, *rest)
                self.scaler.scale(loss / parts).backward()
                losses.append(loss.detach())
                errors.append(error)
            self.clip_and_step()
        return torch.stack(losses).mean(), torch.cat(errors)

    def batch(self, *columns):
        """Copy a NumPy batch to the backend's device."""
        return tuple(torch.from_numpy(column).to(place(self.compiler)) for column in columns)

    @property
    def params(self):
        return super().params | running(self.net)

    def state(self):
        found = super().state()
        for part, net in self.nets.items():
            found |= {f"{part}.{name}": value for name, value in running(net).items()}
        return found

    def load_state(self, state):
        super().load_state(state)
        for part, net in self.nets.items():
            for name, value in net.named_buffers():
                value.copy_(torch.from_numpy(state[f"{part}.{name}"]))


train_step = TrainStep


def running(net):
    """Return the running statistics of a net as NumPy arrays by name."""
    return {name: value.cpu().numpy().copy() for name, value in net.named_buffers()}


class Pictures:
    """Copies observations to the device in the net's dtype and memory format, into new or reused memory."""

    def __init__(self, net, options, compiler):
        self.net, self.device, self.keep, self.memory = net, place(compiler), options.tensors == "kept", {}

    def __call__(self, name, obs):
        """Copy observations, a tensor u8[B, 4, S, S], to the device; ``name`` identifies the memory to reuse."""
        net = self.net
        if not self.keep:
            return obs.to(self.device, net.first_dtype, memory_format=net.memory_format)
        if name not in self.memory or self.memory[name].shape != obs.shape:
            kept = torch.empty(obs.shape, dtype=net.first_dtype, device=self.device)
            self.memory[name] = kept.contiguous(memory_format=net.memory_format)
        return self.memory[name].copy_(obs)


class Actor:
    """Greedy policy that takes and returns NumPy arrays; ``obs`` u8[N, 4, S, S] is an example of its argument."""

    def __init__(self, params, obs, options, compiler):
        if options.precision == "float16" and compiler.device == "cpu":
            options = replace(options, precision="float32")
        self.net = make_net(params, options, compiler)
        self.options, self.compiler, self.pictures = options, compiler, Pictures(self.net, options, compiler)
        self.together = options.acting == "together"
        example = torch.from_numpy(obs if self.together else obs[:1])
        self.call = compiler.compile(self.net, (self.pictures("obs", example),), guard=GUARDS[options.inference])

    def load(self, params):
        self.net.load(params)

    def __call__(self, obs):
        """Return the greedy actions i64[N] for observations u8[N, 4, S, S]."""
        parts = (obs,) if self.together else obs[:, None]
        with autocast(self.options, self.compiler):
            values = [self.call(self.pictures("obs", torch.from_numpy(part))) for part in parts]
        return torch.cat(values).detach().argmax(dim=1).cpu().numpy()


def forward_of(config, options, compiler, guard):
    """Return a net, and a function that computes its Q-values of ``config["obs"]`` u8[B, 4, S, S], on the device."""
    net = make_net(config["params"], options, compiler)
    obs = Pictures(net, options, compiler)("obs", torch.from_numpy(config["obs"]))
    call = compiler.compile(net, (obs,), guard=guard, **COMPILED[options.compile_mode])

    def values():
        with autocast(options, compiler):
            return call(obs)

    return net, values


def forward(config, example, *, options, compiler):
    """Return the Q-values of the observations.  -> f32[B, A]"""
    return forward_of(config, options, compiler, torch.no_grad)[1]


def backward(config, example, *, options, compiler):
    """Return the gradient of the mean squared Q-value, by name; the forward pass runs once, at build."""
    net, values = forward_of(config, options, compiler, torch.enable_grad)
    mean = values().square().mean()

    def gradient():
        net.zero_grad(set_to_none=True)
        mean.backward(retain_graph=True)
        return {name: weight.grad for name, weight in net.weights.items()}

    return gradient
