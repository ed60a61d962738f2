import numpy as np
import pytest


@pytest.mark.parametrize("inputs_need_gradients", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(64, 512), (1, 1)])
def test_products_by_onednn_equal_torchs_and_so_do_their_gradients(rows, columns, inputs_need_gradients, torch, seed):
    from rl_impls.common.matrix_products import ADDMM

    rng, results = np.random.default_rng(seed), []
    shapes = (columns,), (rows, 256), (256, columns), (rows, columns)
    arrays = [torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
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
