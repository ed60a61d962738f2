"""Actors over Ray play what actors in processes play, on any node that is left, and nothing of them stays."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.waiting import limit
from perf_tests.suite.cases import procgen as cases
from rl_impls import backends
from rl_impls.common.procgen_env import check_installed
from rl_impls.procgen import cluster

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
limited = limit("actors over Ray", 300)
MAKE = {"ppo": cases.ppo_loop_inputs, "impala": functools.partial(cases.loop_inputs, constants=cases.IMPALA)}


@pytest.fixture(scope="module")
def ray(unavailable, tmp_path_factory):
    """Ray, whose secret of this test's clusters is no other's."""
    try:
        check_installed("torch")
        cluster.check_installed("torch")
    except backends.BackendUnavailable as error:
        unavailable(error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path_factory.mktemp("ray") / "token"))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        yield ray


@pytest.fixture
def nodes(ray):
    """A cluster of two nodes of two cores each on this machine."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    made.add_node(num_cpus=2)
    yield made
    made.shutdown()


def built(op, **changed):
    """Return a loop of four environments and eight steps."""
    sizes = {"envs": 4, "unroll": 8} | ({"epochs": 2} if "ppo" in op else {})
    inputs = MAKE[op.removeprefix("parallel_")](np.random.default_rng(0), **sizes)
    form = backends.forms("procgen")["full"]
    return backends.get("torch").build("procgen", op, inputs.spec | changed, inputs.args, form)


def workers():
    """Return the ids of all processes of Ray that this user can see."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"RayActor" in command or b"raylet" in command or b"gcs_server" in command:
            found.add(int(path.parent.name))
    return found


def nodes_of(crew, ray):
    """Return the node that each actor is on."""
    return ray.get([member.__ray_call__.remote(node_of) for member in crew.members])


def node_of(actor):
    """Return the node that this actor is on."""
    import ray

    return ray.get_runtime_context().get_node_id()


@pytest.mark.parametrize("algorithm", MAKE)
def test_without_lag_actors_over_ray_learn_what_is_learned_here(nodes, algorithm):
    alone = built(algorithm)
    spread = built(f"parallel_{algorithm}", actors=2, lag=0, cluster=nodes.address)
    for number in range(3):
        for wanted, got in zip(alone(np.array([number])), spread(np.array([number]))):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5)
    for name, wanted in alone.params.items():
        np.testing.assert_allclose(spread.params[name], wanted, rtol=1e-3, atol=1e-5, err_msg=name)
    assert spread.stats() == {"policy_lag": 0.0, "most_policy_lag": 0.0, "replaced_actors": 0.0}
    alone.close()
    spread.close()
