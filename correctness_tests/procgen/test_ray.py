"""Ray actors play like actors in processes, survive the death of a node, and leave nothing behind."""

import contextlib
import functools
import os
import secrets
import signal
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.waiting import alive, until
from correctness_tests.workload_agents import SMALL
from rl_impls import backends
from rl_impls.common.procgen_env import check_installed
from rl_impls.common.workers import LIVES
from rl_impls.procgen import cluster
from rl_impls.procgen.agent import ProcgenAgent
from rl_impls.procgen.problem import impala, ppo

pytestmark = pytest.mark.slow
MAKE = {"ppo": functools.partial(ppo, epochs=2), "impala": impala}


@pytest.fixture(scope="module")
def ray(needed, tmp_path_factory):
    """Yield Ray, with an authentication token for this module's clusters."""
    needed(check_installed, "torch")
    needed(check_installed, "torch", ["ray"])
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text(secrets.token_hex())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        yield ray


@pytest.fixture(scope="module")
def nodes(ray):
    """Yield a cluster of two nodes with two cores each on this machine."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    made.add_node(num_cpus=2)
    yield made
    made.shutdown()


@pytest.fixture
def build():
    """Return ``build(op, **config)``, which makes a loop of 4 environments and 8 steps, closed after the test."""
    loops = []

    def build(op, **changed):
        problem = MAKE[op.removeprefix("parallel_")](0, num_envs=4, num_steps=8)
        form = backends.forms("procgen")["full"]
        loops.append(backends.get("torch").build("procgen", op, problem.config | changed, problem.args, form))
        return loops[-1]

    yield build
    for loop in loops:
        loop.close()


def played(loop, count, first=0):
    """Return rewards, ends and losses of some rollouts."""
    return loop(np.arange(first, first + count))


def ask(pool, function):
    """Call a function with each actor, in its process; return the results."""
    import ray

    return ray.get([member.__ray_call__.remote(function) for member in pool.members])


def node_of(actor):
    """Return the id of the node that an actor runs on."""
    import ray

    return ray.get_runtime_context().get_node_id()


def pid_of(actor):
    """Return the process id of an actor."""
    return os.getpid()


def ray_processes():
    """Return the ids of Ray's processes on this machine."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if any(word in path.read_bytes() for word in (b"ray::", b"/raylet", b"gcs_server")):
                found.add(int(path.parent.name))
    return {pid for pid in found if alive(pid)}


def num_references(ray):
    """Return the number of objects in the store that this process references."""
    return len(ray._private.worker.global_worker.core_worker.get_all_reference_counts())


@pytest.mark.parametrize("algorithm", MAKE)
def test_ray_actors_without_lag_match_those_in_processes(nodes, build, algorithm, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})  # as many threads per actor in processes as over Ray
    beside, spread = (
        build(f"parallel_{algorithm}", actors=2, lag=0),
        build(f"parallel_{algorithm}", actors=2, lag=0, cluster=nodes.address),
    )
    wanted, got = (played(loop, 3) for loop in (beside, spread))
    for mine, theirs in zip(got, wanted):
        np.testing.assert_array_equal(mine, theirs)
    for name, value in beside.params.items():
        np.testing.assert_array_equal(spread.params[name], value, err_msg=name)
    assert spread.stats() == {"policy_lag": 0.0, "most_policy_lag": 0.0, "replaced_actors": 0.0}


def test_actors_spread_over_both_nodes_and_leave_no_object_or_process(nodes, build, ray):
    loop = build("parallel_impala", actors=2, lag=2, cluster=nodes.address)
    assert len(set(ask(loop.pool, node_of))) == 2
    pids = ask(loop.pool, pid_of)
    played(loop, 4)
    before = num_references(ray)
    played(loop, 6, first=4)
    assert num_references(ray) == before
    assert loop.stats()["most_policy_lag"] == 2
    loop.close()
    until(lambda: not any(map(alive, pids)), "actors to end")
    assert not ray.is_initialized()


def test_actors_of_a_dead_node_are_replaced_on_the_other(nodes, build):
    loop = build("parallel_ppo", actors=2, lag=1, cluster=nodes.address)
    played(loop, 2)
    [dying] = [node for node in nodes.worker_nodes if node.node_id in ask(loop.pool, node_of)]
    nodes.remove_node(dying, allow_graceful=False)
    rewards, _, losses = played(loop, 3, first=2)
    assert loop.stats()["replaced_actors"] == 1
    assert set(ask(loop.pool, node_of)) == {nodes.head_node.node_id}
    assert rewards.shape == (3, 8, 4)
    assert np.isfinite(losses).all()
    loop.load_state(loop.state())
    played(loop, 1, first=5)
    nodes.add_node(num_cpus=2)


def test_actor_that_dies_repeatedly_ends_the_training_with_the_reason(nodes, build):
    loop = build("parallel_ppo", actors=2, lag=0, cluster=nodes.address)
    loop.pool.lives[1] = LIVES
    loop.pool.members[1].__ray_terminate__.remote()
    with pytest.raises(RuntimeError, match=rf"^actor 1 died {LIVES + 1} times before .*; the last time: "):
        played(loop, 1)


def test_exception_in_an_actor_is_a_one_line_error(nodes, build):
    loop = build("parallel_ppo", actors=2, lag=0, cluster=nodes.address)
    loop.pool.tell([("set_state", {"games": []})] * 2)
    with pytest.raises(RuntimeError, match=r"^actor [01] failed: \w+: ") as caught:
        loop.pool.discard_answers()
    assert "\n" not in str(caught.value)


def test_cluster_without_free_cores_is_an_error_and_stays_connected(nodes, build, ray):
    ray.init(nodes.address, log_to_driver=False)
    try:
        taken = ray.util.placement_group([{"CPU": 2}] * 2)
        ray.get(taken.ready())
        wanted = "^actor 0 did not answer for 3 s; the cluster has 4 cores in all, and each of 2 actors needs one$"
        with pytest.raises(RuntimeError, match=wanted):
            build("parallel_ppo", actors=2, lag=0, cluster=nodes.address, worker_timeout=3)
        assert ray.is_initialized()
        with pytest.raises(ValueError, match=r"^cluster='192.0.2.1:1' cannot be joined: .* has already joined "):
            cluster.join("192.0.2.1:1", 1)
    finally:
        ray.shutdown()


def test_agent_starts_and_ends_a_local_cluster(ray, tmp_path):
    before, on_sigterm = ray_processes(), signal.getsignal(signal.SIGTERM)
    agent = ProcgenAgent(seed=0, cluster=cluster.LOCAL, **{**SMALL["procgen"], "actors": 2})
    try:
        agent.learn()
        assert signal.getsignal(signal.SIGTERM) is on_sigterm
        agent.save(tmp_path / "agent")
        assert len(ray_processes() - before) >= 3
    finally:
        agent.close()
    until(lambda: ray_processes() <= before, "Ray to end")
    assert not ray.is_initialized()
