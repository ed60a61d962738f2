"""A toy agent that counts its moves, for tests of the command line."""

from __future__ import annotations

from typing import Literal

import numpy as np

from rl_impls.common.agent import Agent
from rl_impls.common.config import Field, config


@config
class Config:
    """Configuration of the toy agent."""

    backend: Literal["torch"] = Field("torch", description="backend that computes")
    form: Literal["full", "naive"] = Field("full", description="named set of optimisations")
    width: int = Field(3, ge=0, description="width of the board")
    share: float = Field(0.5, description="share of the board, by default 50%")
    layers: tuple[int, ...] = Field((4, 5), description="widths of the layers")
    weights: int = Field(100_000, description="number of weights")
    batch_size: int = Field(32, description="samples per update")
    game: Literal["chess", "go"] = Field("chess", description="game to play")

    def __post_init__(self):
        if self.width > sum(self.layers):
            raise ValueError(f"width={self.width} should be at most {sum(self.layers)}, the sum of layers")


class Player(Agent):
    """An agent that learns nothing."""

    Config, UNIT, chunk = Config, "moves", 10
    params = {"w": np.ones(2)}  # noqa: RUF012

    def learn(self):
        self.step += self.chunk
        return {"return": 1.5, "length": 5.0, "episodes": 2, "loss": 0.25, "epsilon": 0.1}

    def evaluate(self, episodes, seed):
        return {"a": np.arange(episodes), "longest": np.full(episodes, seed)}

    def state(self):
        return self.params

    def load_state(self, arrays):
        self.params = arrays
