"""What is wrong with the address of a cluster is one line, in seconds, and before any environment starts."""

from __future__ import annotations

import socket
import sys
import threading
import time

import pytest

from rl_impls import backends
from rl_impls.procgen import cluster, parallel
from rl_impls.procgen.agent import Config, ProcgenAgent
from rl_impls.procgen.problem import a3c

from .agent_sizes import SMALL


@pytest.fixture
def listening():
    """A socket that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server):
    """The address of a socket."""
    return "{}:{}".format(*server.getsockname())


def closed():
    """An address of this machine where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return address(server)


def answering(server, answer):
    """Have a socket answer the first who speaks to it."""

    def serve():
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize("wrong", ["here", "host:", ":6379", "host:0", "host:65536", "ray://host:10001", "host:6379a"])
def test_what_is_no_address_is_refused(wrong):
    with pytest.raises(ValueError, match=f"^cluster: got '{wrong}', wanted local or an address, as host:6379$"):
        Config(actors=2, cluster=wrong)


@pytest.mark.parametrize("config", [{}, {"algorithm": "a2c"}, {"algorithm": "a3c", "actors": 2}])
def test_only_actors_of_ppo_and_impala_play_on_a_cluster(config):
    with pytest.raises(ValueError, match=r"^cluster: got 'local', wanted none but for ppo and impala with actors$"):
        Config(cluster="local", **config)


@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_actors_of_ppo_and_impala_may_play_on_a_cluster(algorithm):
    assert Config(algorithm=algorithm, actors=2, cluster="host:6379").cluster == "host:6379"


def test_a_cluster_is_reached_where_something_speaks_as_one_does(listening):
    answering(listening, bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    cluster.check_reachable(address(listening))


def test_what_answers_as_no_cluster_does_is_refused(listening):
    answering(listening, b"HTTP/1.1 400 Bad Request")
    with pytest.raises(ValueError, match=f"^cluster: got '{address(listening)}', where something answers that is no"):
        cluster.check_reachable(address(listening))


def test_what_listens_and_is_silent_is_refused_in_time(listening, monkeypatch):
    monkeypatch.setattr(cluster, "SECONDS", 0.1)
    with pytest.raises(ValueError, match=f"^cluster: got '{address(listening)}', which cannot be reached: timed out$"):
        cluster.check_reachable(address(listening))


def test_an_address_where_nothing_listens_is_refused_before_environments_start(monkeypatch):
    monkeypatch.setattr(parallel, "check_installed", lambda backend: None)
    monkeypatch.setattr(parallel, "ProcgenVectorEnv", lambda *args, **options: pytest.fail("an environment started"))
    monkeypatch.setattr("rl_impls.procgen.agent.check_installed", lambda backend: None)
    monkeypatch.setattr("rl_impls.procgen.composed.check_installed", lambda backend: None)
    start, where = time.monotonic(), closed()
    with pytest.raises(ValueError, match=f"^cluster: got '{where}', which cannot be reached: .*refused$"):
        ProcgenAgent(seed=0, **{**SMALL, "actors": 2, "cluster": where})
    assert time.monotonic() - start < 2 * cluster.SECONDS


def test_without_ray_the_error_names_what_installs_it(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(backends.BackendUnavailable) as caught:
        cluster.check_installed("torch")
    assert str(caught.value) == "torch: ray is not installed (pip install 'rlgauge-workloads[ray]')"


def test_ray_is_imported_only_where_a_cluster_is_named():
    assert parallel.crew_of({"lag": 0, "cluster": ""}, None).func is parallel.Crew
    assert parallel.crew_of({"lag": 0}, None).func is parallel.Crew
    assert "rl_impls.procgen.ray_crew" not in sys.modules or "ray" in sys.modules


def test_workers_of_a3c_refuse_a_cluster():
    problem = a3c(0, num_envs=2, num_steps=2, actors=2)
    form = backends.forms("procgen")["full"]
    with pytest.raises(ValueError, match=r"^cluster: got 'local' with a3c, whose workers share the memory of one"):
        backends.get("torch").build("procgen", "a3c", problem.config | {"cluster": "local"}, problem.args, form)
