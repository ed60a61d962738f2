"""Commands that only snake has: training for a number of episodes, and importing a torch state dict."""

import itertools

import numpy as np
import pytest

from correctness_tests.workload_agents import SMALL, as_options
from rl_impls.common import runs
from rl_impls.snake.__main__ import main
from rl_impls.snake._numpy import q_values
from rl_impls.snake.agent import SnakeAgent

BOARD = {"dim": 6, "starting_blocks": 2, "dist_to_border": 2}


def test_training_ends_after_a_number_of_episodes(tmp_path, capsys):
    options = as_options(SMALL["snake"] | BOARD)
    main(["train", "--output-dir", str(tmp_path / "run"), "--episodes", "60", *options])
    assert "training from step 0 for 60 episodes\n" in capsys.readouterr().out
    *before, last = (point["episodes"] for point in runs.points(tmp_path / "run"))
    assert sum(before) < 60 <= sum(before) + last
    main(["evaluate", str(tmp_path / "run"), "--episodes", "2"])
    assert SnakeAgent.load(tmp_path / "run" / runs.CHECKPOINT).config.dim == 6


def net(*sizes):
    import torch
    from torch import nn

    torch.manual_seed(0)
    first, *rest = (nn.Linear(*pair) for pair in itertools.pairwise(sizes))
    return nn.Sequential(first, *(each for layer in rest for each in (nn.ReLU(inplace=True), layer)))


def test_weights_of_a_torch_net_are_imported(tmp_path, capsys):
    import torch

    file, checkpoint, source = tmp_path / "it.pt", tmp_path / "agent", net(64, 16, 16, 4)
    torch.save(source.state_dict(), file)
    main(["import", str(file), str(checkpoint)])
    assert capsys.readouterr().out == f"{checkpoint}: board of 8 x 8 cells, 16 hidden units\n"
    boards = np.random.default_rng(0).random((5, 64), np.float32)
    agent = SnakeAgent.load(checkpoint)
    wanted = source(torch.from_numpy(boards)).detach().numpy()
    np.testing.assert_allclose(q_values(agent.params, boards), wanted, rtol=1e-5, atol=1e-6)
    for name, value in agent.params.items():
        np.testing.assert_array_equal(agent.state()[f"target.{name}"], value)
    main(["train", str(checkpoint), "--resume", "--steps", "1"])
    assert f"{checkpoint}: 256 environment steps\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"^import: checkpoint: .* exists; choose another file$"):
        main(["import", str(file), str(checkpoint)])


def test_weights_in_double_precision_for_a_small_board_are_imported_as_float32(tmp_path):
    import torch

    file, checkpoint, source = tmp_path / "it.pt", tmp_path / "agent", net(16, 16, 16, 4)
    torch.save(source.double().state_dict(), file)
    main(["import", str(file), str(checkpoint)])
    params = SnakeAgent.load(checkpoint).params
    assert {value.dtype for value in params.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(params["w2"].T, source[-1].weight.detach().float().numpy())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text", "not a state dict of tensors; write one with torch.save"),
        (net, "not a state dict of tensors"),  # a function, which is not loaded
        ((99, 8, 8, 4), r"the tensors have the shapes \[\(8, 99\)"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    import torch

    file = tmp_path / "it.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(net(*content).state_dict() if isinstance(content, tuple) else content, file)
    with pytest.raises(SystemExit, match=f"^import: {file}: {message}") as ended:
        main(["import", str(file), str(tmp_path / "agent")])
    assert "\n" not in ended.value.code
    assert not (tmp_path / "agent").exists()
