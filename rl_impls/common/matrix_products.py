"""Float32 matrix products in torch on a CPU: by MKL, torch's default, or by oneDNN, which its convolutions use."""

import torch

FEW = 32  # rows: with fewer, a call of oneDNN may take longer than one of MKL


def linear(h, w, b=None):
    """``h w^T + b`` by oneDNN.  f32[B, I], f32[O, I], f32[O] -> f32[B, O]"""
    return torch.ops.mkldnn._linear_pointwise(h, w, b, "none", [], "")


class OneDnn(torch.autograd.Function):
    """``b + h w`` by oneDNN, for which torch has no gradient.  f32[O], f32[B, I], f32[I, O] -> f32[B, O]"""

    @staticmethod
    def forward(context, b, h, w):
        context.save_for_backward(h, w)
        return linear(h, w.t(), b)

    @staticmethod
    def backward(context, gradient):
        h, w = context.saved_tensors
        of_h = linear(gradient, w) if context.needs_input_grad[1] else None
        return gradient.sum(dim=0), of_h, linear(h.t(), gradient.t())


def by_mkl(b, h, w):
    """``b + h w``, of one net, f[O], f[B, I], f[I, O] -> f[B, O], or of N nets, [N, ...]."""
    return torch.addmm(b, h, w) if w.dim() == 2 else torch.baddbmm(b[:, None], h, w)


def by_onednn(b, h, w):
    """:func:`by_mkl` by oneDNN, net by net, if there are enough rows in float32."""
    if h.dtype != torch.float32 or h.shape[-2] < FEW:
        return by_mkl(b, h, w)
    if w.dim() == 3:
        return torch.stack([by_onednn(*of_net) for of_net in zip(b, h, w)])
    return OneDnn.apply(b, h, w) if torch.is_grad_enabled() else linear(h, w.t(), b)


ADDMM = {"mkl": by_mkl, "onednn": by_onednn}  # by the option ``matrix_products``


def addmm_of(options, compiler):
    """Return the function of ``ADDMM`` to use; autocast and compiled code choose their library themselves."""
    eager = compiler.backend == "torch" and options.precision == "float32"
    return ADDMM[options.matrix_products if eager else "mkl"]
