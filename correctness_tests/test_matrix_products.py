import numpy as np
import pytest


@pytest.mark.parametrize("inputs_need_gradients", [True, False])
@pytest.mark.parametrize(("nets", "rows", "columns"), [((), 64, 512), ((), 32, 1), ((2,), 32, 3), ((2,), 1, 3)])
def test_onednn_gives_the_products_and_gradients_of_mkl(nets, rows, columns, inputs_need_gradients, torch, seed):
    from rl_impls.common.matrix_products import ADDMM

    rng, results = np.random.default_rng(seed), []
    shapes = (columns,), (rows, 256), (256, columns), (rows, columns)
    arrays = [torch.from_numpy(rng.standard_normal(nets + shape).astype(np.float32)) for shape in shapes]
    for addmm in ADDMM.values():
        b, h, w, gradient = (array.clone() for array in arrays)
        learned = [b, h, w] if inputs_need_gradients else [b, w]
        result = addmm(b, h, w)
        for array in learned:
            array.requires_grad_()
        assert torch.equal(addmm(b, h, w).detach(), result)
        results.append((result, *torch.autograd.grad(addmm(b, h, w), learned, gradient)))
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
