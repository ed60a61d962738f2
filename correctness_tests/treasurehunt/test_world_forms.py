"""Worlds of Python objects, of arrays and in JAX agree bit for bit."""

import functools

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from correctness_tests.strategies import SEEDS
from correctness_tests.updates import assert_same

DRAWS = 2**31 - 1
WORLDS = [  # num_agents, height, width, radius, spawn, turns, observation; num_worlds
    ((5, 4, 6, 2, 0.3, 5, "onehot"), 3),
    ((3, 5, 3, 1, 0.6, 4, "rgb"), 1),
]
FUNCTIONS = "reset", "observe", "advance"


@functools.cache
def compiled(settings):
    import jax

    from rl_impls.treasurehunt import jax_env

    return {name: functools.partial(jax.jit(getattr(jax_env, name), static_argnums=0), settings) for name in FUNCTIONS}


class Jax:
    """The pure functions of ``jax_env`` with the interface of the other worlds."""

    def __init__(self, settings, num_worlds):
        self.functions = compiled(settings)

    def reset(self, draws):
        self.world = self.functions["reset"](draws)
        return self.observe()

    def observe(self):
        return self.functions["observe"](self.world)

    def advance(self, actions, draws):
        self.world, *outcome = self.functions["advance"](self.world, actions, draws)
        return outcome

    def get_state(self):
        return self.world._asdict()


class Forms(RuleBasedStateMachine):
    @initialize(worlds=st.sampled_from(WORLDS), seed=SEEDS)
    def begin(self, worlds, seed):
        from rl_impls.treasurehunt.vector_env import ArrayWorlds, CellWorlds, Settings

        self.settings, self.num_worlds = Settings(*worlds[0]), worlds[1]
        self.forms = [form(self.settings, self.num_worlds) for form in (CellWorlds, ArrayWorlds, Jax)]
        self.reset(seed)

    def agree(self, name, *inputs):
        """Call a method of all forms, assert that the results are equal, and return them."""
        first, *others = (getattr(form, name)(*inputs) for form in self.forms)
        for other in others:
            assert_same(*((result if isinstance(result, (tuple, list)) else [result]) for result in (other, first)))
        return first

    def draws(self, rng):
        return rng.integers(DRAWS, size=(self.num_worlds, self.settings.cells), dtype=np.int32)

    @rule(seed=SEEDS)
    def reset(self, seed):
        draws = self.draws(np.random.default_rng(seed)) // np.int32(2**27)  # sixteen values, so some repeat
        self.agree("reset", draws)

    @rule(seed=SEEDS, turns=st.integers(1, 10))
    def play(self, seed, turns):
        rng = np.random.default_rng(seed)
        for _ in range(turns):
            actions = rng.integers(4, size=(self.settings.num_agents, self.num_worlds), dtype=np.int32)
            self.agree("advance", actions, self.draws(rng))

    @rule(seed=SEEDS)
    def move_one_by_one(self, seed):
        """Move the agents one by one in the NumPy forms, and all at once in JAX."""
        rng = np.random.default_rng(seed)
        actions = rng.integers(4, size=(self.settings.num_agents, self.num_worlds), dtype=np.int32)
        draws, (*numpy, jax) = self.draws(rng), self.forms
        obs, rewards, truncated = jax.advance(actions, draws)
        for agent in range(self.settings.num_agents):
            assert_same(*([worlds.observe_agent(agent)] for worlds in numpy))
            for worlds in numpy:
                assert_same([worlds.move_agent(agent, actions[agent])], [rewards[agent]])
        for worlds in numpy:
            assert_same([worlds.end_turn(draws), worlds.observe()], [truncated, obs])

    @invariant()
    def states_agree(self):
        first, *others = (form.get_state() for form in self.forms)
        for other in others:
            assert set(other) == set(first)
            assert_same([other[name] for name in first], first.values())


def test_all_forms_agree():
    options = settings(phases=[Phase.generate], max_examples=25, stateful_step_count=10)
    run_state_machine_as_test(Forms, settings=options)
