"""The gradient of the torch loss by hand: half of a small update's time is autograd's bookkeeping.

The plain version is ``make_loss`` in ``_torch.py``, differentiated by autograd.
"""

from __future__ import annotations

import torch

from .physics import dynamics_of


def make_gradient(net, target_net, spec, knobs, drift):
    """Return ``gradient(*batch) -> loss, [dw0, db0, dw1, ...]``, the gradients in torch's layout [O, I].

    Forward: values h of all rows, then of the interior points the streams x = (d, g_1, ..., g_n) of
    ``evaluate_generator``. Backward: the same steps in reverse; ``d_z`` stands for dloss/dz.
    """
    dynamics = dynamics_of(spec)
    noisy = dynamics.noisy if knobs.order == 2 else 0
    *hidden, last = net.linears
    logits = torch.nn.Sequential(
        *list(target_net)[:-1]
    )  # the sigmoid keeps the order, so it is left to the largest one

    @torch.no_grad()
    def gradient(states, actions, rewards, next_states, terminated, interior, expired, unsafe):
        batch, points = len(states), len(interior)
        td_target = rewards + (1 - terminated) * torch.sigmoid(logits(next_states).amax(dim=1))

        h = [torch.cat([states, expired, unsafe, interior])]
        for linear in hidden:
            h.append(torch.tanh(linear(h[-1])))
        one = h[0].new_ones(())  # a Python number would be converted at every use
        slopes = [torch.addcmul(one, y, y, value=-1) for y in h[1:]]  # 1 - y^2
        z = last(h[-1])
        pick = torch.cat([actions.long(), z[batch:].argmax(dim=1)])[:, None]
        v = torch.sigmoid(z.gather(1, pick)[:, 0])
        greedy, value = pick[-points:, 0], v[-points:]

        basis = dynamics.sigma * torch.eye(noisy, interior.shape[1], dtype=v.dtype, device=v.device)
        x = [torch.cat([drift(dynamics, interior, greedy)[None], basis[:, None].expand(-1, points, -1)])]
        ahead = []  # per layer: y, 1 - y^2, what it multiplies, g, sum_i g_i^2
        for y, slope, linear in zip(h[1:], slopes, hidden):
            y, slope, stream = y[-points:], slope[-points:], x[-1] @ linear.weight.T
            g = stream[1:]
            squares = (g * g).sum(dim=0)
            inner = torch.cat([stream[:1] - y * squares, g]) if noisy else stream
            ahead.append((y, slope, inner, g, squares))
            x.append(slope * inner)
        chosen = last.weight[greedy]
        out = (x[-1] * chosen).sum(dim=2)
        d, g = out[0], out[1:]
        squares, flat = (g * g).sum(dim=0), value * (1 - value)
        inner = d + (0.5 - value) * squares
        residual = flat * inner

        errors = v[:-points] - torch.cat([td_target, v.new_ones(points), v.new_zeros(points)])
        boundary = spec["boundary_weight"] / points
        weights = torch.cat([v.new_full((batch,), 1 / batch), v.new_full((2 * points,), boundary)])
        pde = spec["pde_weight"] / points
        loss = (weights * errors * errors).sum() + pde * residual.square().sum()

        d_residual = 2 * pde * residual
        d_value = d_residual * ((1 - 2 * value) * inner - flat * squares)
        d_inner = (d_residual * flat)[None]
        d_out = torch.cat([d_inner, d_inner * (1 - 2 * value) * g])
        d_v = torch.cat([2 * weights * errors, d_value])

        d_z = torch.zeros_like(z).scatter_(1, pick, (d_v * v * (1 - v))[:, None])
        d_last = (d_z.T @ h[-1]).index_add_(0, greedy, (d_out[:, :, None] * x[-1]).sum(dim=0))
        gradients = [(d_last, d_z.sum(dim=0))]
        d_h, d_x = d_z @ last.weight, d_out[:, :, None] * chosen
        for k in reversed(range(len(hidden))):
            y, slope, inner, g, squares = ahead[k]
            d_stream, d_y = slope * d_x, d_h[-points:]
            d_y.addcmul_(y, (d_x * inner).sum(dim=0), value=-2)
            if noisy:
                d_y.addcmul_(d_stream[0], squares, value=-1)
                d_stream[1:].addcmul_(y * d_stream[0], g, value=-2)
            d_z = d_h * slopes[k]
            rows = d_stream.flatten(0, 1)
            gradients.append((torch.addmm(d_z.T @ h[k], rows.T, x[k].flatten(0, 1)), d_z.sum(dim=0)))
            if k:
                d_h, d_x = d_z @ hidden[k].weight, d_stream @ hidden[k].weight
        return loss, [part for pair in reversed(gradients) for part in pair]

    return gradient
