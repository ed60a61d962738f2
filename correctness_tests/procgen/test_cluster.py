"""A wrong cluster address is a one-line error within seconds."""

from __future__ import annotations

import socket
import sys
import threading

import pytest

from rl_impls import backends
from rl_impls.procgen import cluster
from rl_impls.procgen.agent import Config


@pytest.fixture
def listening():
    """A socket that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server):
    """The address of a socket."""
    return "{}:{}".format(*server.getsockname())


def answering(server, answer):
    """Have a socket answer the first who speaks to it."""

    def serve():
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize("wrong", ["here", "host:65536", "ray://host:10001"])
def test_malformed_address_is_rejected(wrong):
    with pytest.raises(ValueError, match=f"^cluster: got '{wrong}', wanted local or an address, as host:6379$"):
        Config(actors=2, cluster=wrong)


@pytest.mark.parametrize("config", [{}, {"algorithm": "a3c", "actors": 2}])
def test_only_actors_of_ppo_and_impala_may_use_a_cluster(config):
    with pytest.raises(ValueError, match=r"^cluster: got 'local', wanted none but for ppo and impala with actors$"):
        Config(cluster="local", **config)
    for algorithm in ("ppo", "impala"):
        assert Config(algorithm=algorithm, actors=2, cluster="host:6379").cluster == "host:6379"


def test_server_that_speaks_http2_is_taken_for_a_cluster(listening):
    answering(listening, bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    cluster.check_reachable(address(listening))


def test_server_that_is_no_cluster_is_rejected(listening):
    answering(listening, b"HTTP/1.1 400 Bad Request")
    with pytest.raises(ValueError, match=f"^cluster: got '{address(listening)}', where something answers that is no"):
        cluster.check_reachable(address(listening))


def test_silent_server_times_out(listening, monkeypatch):
    monkeypatch.setattr(cluster, "SECONDS", 0.1)
    with pytest.raises(ValueError, match=f"^cluster: got '{address(listening)}', which cannot be reached: timed out$"):
        cluster.check_reachable(address(listening))


def test_address_where_nothing_listens_is_rejected():
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = address(server)
    with pytest.raises(ValueError, match=f"^cluster: got '{closed}', which cannot be reached: .*refused$"):
        cluster.check_reachable(closed)


def test_missing_ray_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(backends.BackendUnavailable) as caught:
        cluster.check_installed("torch")
    assert str(caught.value) == "torch: ray is not installed (pip install 'rlgauge-workloads[ray]')"
