"""The worlds of Python objects, of arrays and in JAX agree on every number."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from correctness_tests.strategies import SEEDS

DRAWS = 2**31 - 1
WORLDS = [  # agents, height, width, radius, spawn, turns, observation; how many of them
    ((5, 4, 6, 2, 0.3, 5, "onehot"), 3),
    ((3, 5, 3, 1, 0.6, 4, "rgb"), 1),
]
FUNCTIONS = "reset", "observe", "observe_agent", "move", "move_agent", "end_turn", "advance"


@functools.cache
def compiled(given):
    import jax

    from rl_impls.treasurehunt import jax_env

    return {name: functools.partial(jax.jit(getattr(jax_env, name), static_argnums=0), given) for name in FUNCTIONS}


class Jax:
    """The pure functions behind the interface of the other forms; the agents of a turn move in one call."""

    def __init__(self, given, worlds):
        self.functions = compiled(given)

    def reset(self, draws):
        self.world = self.functions["reset"](draws)
        return self.observe()

    def observe(self):
        return self.functions["observe"](self.world)

    def observe_agent(self, agent):
        return self.functions["observe_agent"](self.world, agent)

    def move_agent(self, agent, actions):
        self.world, rewards = self.functions["move_agent"](self.world, agent, actions)
        return rewards

    def end_turn(self, draws):
        self.world, truncated = self.functions["end_turn"](self.world, draws)
        return truncated

    def advance(self, actions, draws):
        self.world, *outcome = self.functions["advance"](self.world, actions, draws)
        return outcome

    def get_state(self):
        return self.world._asdict()


class JaxInParts(Jax):
    """Plays a turn as its moves, its end and a look around."""

    def advance(self, actions, draws):
        self.world, rewards = self.functions["move"](self.world, actions)
        truncated = self.end_turn(draws)
        return self.observe(), rewards, truncated


def make(numbers):
    from rl_impls.treasurehunt.spec import Settings

    return Settings(*numbers)


def assert_equal(got, wanted):
    """Compare sequences of arrays to the last bit and the type."""
    for array, same in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(array), np.asarray(same), strict=True)


class Forms(RuleBasedStateMachine):
    seen = None  # counts of what happened, over all examples

    @initialize(worlds=st.sampled_from(WORLDS), seed=SEEDS)
    def begin(self, worlds, seed):
        from rl_impls.treasurehunt.vector_env import ArrayWorlds, CellWorlds

        self.settings, self.count = make(worlds[0]), worlds[1]
        self.forms = [form(self.settings, self.count) for form in (CellWorlds, ArrayWorlds, Jax, JaxInParts)]
        self.reset(seed)

    def agree(self, name, *inputs):
        """Call a method of all forms.  -> what each of them returned"""
        first, *others = (getattr(form, name)(*inputs) for form in self.forms)
        for other in others:
            assert_equal(*((result if isinstance(result, (tuple, list)) else [result]) for result in (other, first)))
        return first

    def draws(self, rng):
        return rng.integers(DRAWS, size=(self.count, self.settings.height * self.settings.width), dtype=np.int32)

    @rule(seed=SEEDS)
    def reset(self, seed):
        draws = self.draws(np.random.default_rng(seed)) // np.int32(2**27)  # sixteen values, so some are equal
        self.agree("reset", draws)

    @rule(seed=SEEDS, turns=st.integers(1, 10))
    def play(self, seed, turns):
        rng = np.random.default_rng(seed)
        for _ in range(turns):
            actions = rng.integers(4, size=(self.settings.agents, self.count), dtype=np.int32)
            draws, before = self.draws(rng), self.forms[0].get_state()
            _, rewards, truncated = self.agree("advance", actions, draws)
            self.tally(before, rewards, truncated)

    @rule(seed=SEEDS, looks=st.booleans())
    def take_turns(self, seed, looks):
        rng = np.random.default_rng(seed)
        actions = rng.integers(4, size=(self.settings.agents, self.count), dtype=np.int32)
        moved, rewards = compiled(self.settings)["move"](self.forms[-1].world, actions)
        for agent in range(self.settings.agents):
            if looks:
                self.agree("observe_agent", agent)
            assert_equal([rewards[agent]], [self.agree("move_agent", agent, actions[agent])])
            self.states_agree()
        assert_equal(moved, self.forms[-1].world)
        self.seen["late"] += int(self.agree("end_turn", self.draws(rng)))

    @invariant()
    def states_agree(self):
        wanted, *others = (form.get_state() for form in self.forms)
        for other in others:
            assert set(other) == set(wanted)
            assert_equal([other[name] for name in wanted], wanted.values())

    def tally(self, before, rewards, truncated):
        """Count what a turn brought."""
        stayed = before["where"] == self.forms[0].get_state()["where"]
        kinds = {"gem": rewards == 10, "food": rewards == 5, "bone": rewards == -10, "wall": rewards == -1}
        happened = {**kinds, "blocked": stayed & (rewards == 0), "late": np.array(truncated)}
        self.seen.update({kind: int(where.sum()) for kind, where in happened.items()})


def test_all_forms_agree_on_every_number():
    Forms.seen = Counter()
    options = {"max_examples": 40, "stateful_step_count": 10}
    run_state_machine_as_test(Forms, settings=settings(phases=[Phase.generate], **options))
    assert min(Forms.seen[kind] for kind in ("gem", "food", "bone", "wall", "blocked", "late")) > 20, Forms.seen


@pytest.mark.parametrize("worlds", WORLDS, ids=["onehot", "rgb"])
def test_jax_worlds_scan_over_an_episode(worlds):
    import jax

    from rl_impls.treasurehunt import jax_env
    from rl_impls.treasurehunt.vector_env import ArrayWorlds

    given, count = make(worlds[0]), worlds[1]
    rng = np.random.default_rng(0)
    draws = rng.integers(DRAWS, size=(given.turns, count, given.height * given.width), dtype=np.int32)
    actions = rng.integers(4, size=(given.turns, given.agents, count), dtype=np.int32)

    def body(world, inputs):
        world, *outcome = jax_env.advance(given, world, *inputs)
        return world, outcome

    world, scanned = jax.jit(functools.partial(jax.lax.scan, body))(jax_env.reset(given, draws[0]), (actions, draws))
    arrays = ArrayWorlds(given, count)
    arrays.reset(draws[0])
    assert_equal(scanned, map(np.array, zip(*map(arrays.advance, actions, draws))))
    assert_equal(world, arrays.get_state().values())
    assert scanned[2].tolist() == [False] * (given.turns - 1) + [True]


def test_a_state_of_the_arrays_is_a_jax_world_as_it_is():
    from rl_impls.treasurehunt import jax_env
    from rl_impls.treasurehunt.vector_env import ArrayWorlds

    given, count = make(WORLDS[0][0]), WORLDS[0][1]
    rng = np.random.default_rng(0)
    draws = rng.integers(DRAWS, size=(count, given.height * given.width), dtype=np.int32)
    arrays = ArrayWorlds(given, count)
    arrays.end_turn(draws)
    world = jax_env.World(**arrays.get_state())
    assert_equal([jax_env.observe(given, world)], [arrays.observe()])
    actions = rng.integers(4, size=(given.agents, count), dtype=np.int32)
    world, *outcome = compiled(given)["advance"](world, actions, draws)
    assert_equal(outcome, arrays.advance(actions, draws))
