"""The DQN in torch; builders take the arguments of those in :mod:`._numpy`."""

import contextlib
import functools

import numpy as np
import torch
from torch import nn

from ..common.torch_learner import FOREACH, GUARDS, Learner, Mlp, autocast, place, threads
from ..compilers import eager
from ._numpy import Remember, q_values
from .ddp import DistributedTrainStep
from .memory import DTYPES
from .options import check_supported

FEW = 4  # up to this many boards, torch's overhead per operation exceeds NumPy's time for it
TORCH_DTYPES = torch.float32, torch.int32, torch.float32, torch.float32, torch.float32


class Net(Mlp):
    """Q-values of each action, from linear layers with ReLUs in between.  f32[B, O] -> f32[B, A]"""

    def __init__(self, params, inplace=False):
        super().__init__(params, functools.partial(nn.ReLU, inplace))


def make_loss(net, bootstrap, gamma):
    """Return ``loss(*batch) -> f32``, the mean Huber loss of the TD errors, for autograd.

    ``mean_B huber(Q(s, a) - r - gamma (1 - terminated) max_a' Q'(s', a'))`` (Mnih et al. 2015), where `bootstrap` is
    Q', the target network or the online network again. The batch is obs f32[B, O], actions i32[B], rewards f32[B],
    next_obs f32[B, O], terminated f32[B].
    """

    def loss(obs, actions, rewards, next_obs, terminated):
        with torch.no_grad():
            td_target = rewards + gamma * (1 - terminated) * bootstrap(next_obs).amax(dim=1)
        taken = net(obs).gather(1, actions.long()[:, None])[:, 0]
        return nn.functional.smooth_l1_loss(taken, td_target)

    return loss


def train_step(config, example, *, options, compiler):
    """Make an Adam update of the Huber loss with clipped gradient norm (Mnih et al. 2015; Kingma and Ba 2015).

    The batch of :func:`make_loss` -> f32[], the loss before the update

    ``config`` has the weights ``params`` and ``target`` of the online and the target network, ``learning_rate``,
    ``gamma`` and ``max_grad_norm``. If ``target_frequency`` is 0, the TD target uses the online network. If two
    processes share an update, each waits for the other for ``worker_timeout`` seconds.
    """
    check_supported("processes", options, compiler)
    if options.processes == 1:
        return TrainStep(config, example, options, compiler)
    return DistributedTrainStep(TrainStep, make_loss, config, example, options, compiler)


class TrainStep(Learner):
    """One Adam update of the online network."""

    def __init__(self, config, example, options, compiler):
        make = functools.partial(make_net, options=options, compiler=compiler)
        flat, scaled = options.parameters == "flat", options.precision == "float16"
        super().__init__(config, options.optimizer, make, flat, scaled, place(compiler))
        self.options, self.compiler, by_hand = options, compiler, options.gradient == "by_hand"
        self.bootstrap = self.net if config.get("target_frequency") == 0 else self.target_net
        loss = (make_gradient if by_hand else make_loss)(self.net, self.bootstrap, config["gamma"])
        self.loss = compiler.compile(loss, example)
        self.differentiate = self.loss if by_hand else self.autograd
        self.clip = self.clip_with(config["max_grad_norm"])
        self.set_to_none = options.zero_grad == "none"

    def __call__(self, *batch):
        """Update on one batch of :func:`make_loss`; return the loss before the update, f32[]."""
        with threads_of(self.options), cuda_flags(self.options):
            loss = self.differentiate(*batch)
            self.clip_and_step()
        return loss

    def autograd(self, *batch):
        """Return the loss and leave its gradient, times the loss scale, in the parameters."""
        with autocast(self.options, self.compiler):
            loss = self.loss(*batch)
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        self.scaler.scale(loss).backward()
        return loss.detach()

    def clip_with(self, norm):
        """Return a function that clips the online network's gradient, over all parameters, to `norm`."""
        if self.options.parameters == "flat":
            return functools.partial(clip_vector, *self.updated, norm)
        foreach = FOREACH[self.options.optimizer]
        return functools.partial(nn.utils.clip_grad_norm_, self.parameters, norm, foreach=foreach)

    def actor(self, obs, own=False):
        """Return an :class:`Actor` for boards like `obs` f32[N, O]; if `own`, it has a copy of the online weights."""
        net = make_net(self.start["online"], self.options, self.compiler) if own else self.net
        return Actor(net, obs, self.options, self.compiler, self.parameters if own else ())


def make_net(params, options, compiler):
    """Return a :class:`Net` on the backend's device."""
    return Net(params, options.relu == "inplace").to(place(compiler))


def compile_net(net, example, options, compiler):
    """Compile the network for acting on boards like `example` f32[N, O], a tensor or, for ONNX, an array."""
    check_supported("quantised", options, compiler)
    quantised = {"quantised": True} if options.quantised == "int8" else {}
    call = compiler.compile(net, (example,), guard=GUARDS[options.inference], **quantised)
    return cuda_flags(options)(call) if compiler.device == "cuda" else call


def forward(config, example, *, options, compiler):
    """Return the Q-values of boards.  f32[N, O] -> f32[N, A]"""
    return compile_net(make_net(config["params"], options, compiler), example[0], options, compiler)


def act(config, example, *, options, compiler):
    """Return greedy actions, and random ones where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    return Actor(make_net(config["params"], options, compiler), np.asarray(example[0]), options, compiler)


class Actor:
    """Greedy actions of a network, or random ones where ``explore``; takes and returns NumPy arrays.

    `example` holds boards f32[N, O]. :meth:`refresh` copies the parameters `newest` into the network. `newest` is empty
    if the actor uses the learner's own network.
    """

    def __init__(self, net, example, options, compiler, newest=()):
        self.copies = list(zip(net.parameters(), newest))
        self.host = compiler.arrays == "numpy"
        self.device = place(compiler)
        self.direct = options.tensors == "direct"
        self.call = compile_net(net, example if self.host else self.tensor(example), options, compiler)
        self.autocast = functools.partial(autocast, options, compiler)
        plain = compiler.transform is eager and (compiler.device, options.precision) == ("cpu", "float32")
        numpy = options.acting == "numpy" and plain and len(example) <= FEW
        self.weights = {name: view.numpy() for name, view in net.views().items()} if numpy else {}
        greedy = self.greedy_in_numpy if numpy else self.greedy_in_torch
        self.greedy = threads(1)(greedy) if options.threads == "one" else greedy

    def __call__(self, obs, explore, random_actions):
        """Return an action for each board, i32[N]; arguments as for the op :func:`act`."""
        if explore.all():
            return random_actions
        return np.where(explore, random_actions, self.greedy(obs)).astype(np.int32)

    def greedy_in_torch(self, obs):
        """Return the best action of each board, computed by the network.  f32[N, O] -> i64[N]"""
        if self.host:
            return self.call(obs).argmax(axis=1)
        with self.autocast():
            return self.call(self.tensor(obs)).argmax(dim=1).cpu().numpy()

    def greedy_in_numpy(self, obs):
        """Return the best action of each board, computed by NumPy on the network's own weights.  f32[N, O] -> i64[N]"""
        return q_values(self.weights, obs).argmax(axis=1)

    def tensor(self, obs):
        """Return boards f32[N, O] as a tensor on the device, without a copy if the option ``tensors`` allows it."""
        return torch.as_tensor(obs, device=self.device) if self.direct else torch.tensor(obs).to(self.device)

    @torch.no_grad()
    def refresh(self):
        """Copy the newest parameters into the network."""
        for mine, newest in self.copies:
            mine.copy_(newest)


def assemble(config, example, *, options, compiler):
    """Turn a replay buffer's columns into a batch on the device.  -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    device = place(compiler)
    made_on = {"moved": {}, "direct": {"device": device}}[options.tensors]

    def one_by_one(columns):
        return [tensor_of_list(column, dtype).to(device) for column, dtype in zip(columns, TORCH_DTYPES)]

    def stacked(columns):
        arrays = [np.asarray(column, dtype) for column, dtype in zip(columns, DTYPES)]
        return [torch.as_tensor(array, **made_on).to(device) for array in arrays]

    return {"comprehension": one_by_one, "stacked": stacked}[options.batches]


def tensor_of_list(column, dtype):
    """Return a list of B numbers, lists or arrays as one tensor [B, ...]; arrays keep their own dtype."""
    if isinstance(column[0], np.ndarray):  # torch.tensor of a list of arrays warns that it is extremely slow
        return torch.stack([torch.from_numpy(array) for array in column])
    return torch.tensor(column, dtype=dtype)


def sample(config, example, *, options, compiler):
    """Return stored rows as a batch, row 0 the oldest.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    replay_buffer = Remember(config, example, options=options, compiler=compiler).replay_buffer
    batch_of = assemble(config, example, options=options, compiler=compiler)
    return lambda rows: batch_of(replay_buffer.sample(rows))


# Optimised variants.


def make_gradient(net, target_net, gamma):
    """Return ``gradient(*batch) -> f32``, the loss of :func:`make_loss`; it writes the gradient to the parameters.

    `target_net` computes the TD target and may be `net` itself. Autograd would take half the time of an update of 32
    transitions: it records the graph and allocates new gradients every time.
    """
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    @torch.no_grad()
    def gradient(obs, actions, rewards, next_obs, terminated):
        td_target = rewards + gamma * (1 - terminated) * target_net(next_obs).amax(dim=1)
        h = [obs]
        for linear in net.linears[:-1]:
            h.append(linear(h[-1]).relu_())
        q, chosen = net.linears[-1](h[-1]), actions.long()[:, None]
        taken = q.gather(1, chosen)[:, 0]
        slope = (taken - td_target).clamp_(-1, 1) / len(obs)

        d_z = torch.zeros_like(q).scatter_(1, chosen, slope[:, None])
        for k in reversed(range(len(h))):
            linear = net.linears[k]
            torch.mm(d_z.T, h[k], out=linear.weight.grad)
            torch.sum(d_z, 0, out=linear.bias.grad)
            if k:
                d_z = torch.ops.aten.threshold_backward(d_z @ linear.weight, h[k], 0)  # that of a ReLU
        return nn.functional.smooth_l1_loss(taken, td_target)

    return gradient


@torch.no_grad()
def clip_vector(vector, norm):
    """Clip the gradient of one parameter vector, ``g <- g min(1, norm / (|g| + 1e-6))``; faster than torch's own."""
    vector.grad.mul_((norm / (torch.linalg.vector_norm(vector.grad) + 1e-6)).clamp_(max=1))


def threads_of(options):
    """Return a context in which torch runs on one thread, or on all threads divided among the processes."""
    if options.threads == "one":
        return threads(1)
    return threads(None if options.processes == 1 else max(1, torch.get_num_threads() // options.processes))


@contextlib.contextmanager
def cuda_flags(options):
    """Return a context that applies the options ``tf32`` and ``cudnn_benchmark`` to CUDA."""
    if not (options.tf32 or options.cudnn_benchmark):
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.benchmark
    matmul.allow_tf32, cudnn.benchmark = options.tf32, options.cudnn_benchmark
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.benchmark = before
