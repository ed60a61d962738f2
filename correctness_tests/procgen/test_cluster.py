"""A wrong cluster address is a one-line error within seconds."""

import socket
import sys
import threading

import pytest

from rl_impls import backends
from rl_impls.procgen import cluster
from rl_impls.procgen.agent import Config


@pytest.fixture
def listening():
    """Yield a listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server):
    """Return the address of a socket."""
    return "{}:{}".format(*server.getsockname())


def answer_first_request(server, answer):
    """Answer the first request to a socket, in a thread."""

    def serve():
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize("wrong", ["here", "host:65536", "ray://host:10001"])
def test_malformed_address_is_rejected(wrong):
    with pytest.raises(ValueError, match=f"^cluster='{wrong}' should be local or an address such as host:6379$"):
        Config(actors=2, cluster=wrong)


@pytest.mark.parametrize("config", [{}, {"algorithm": "a3c", "actors": 2}])
def test_only_actors_of_ppo_and_impala_may_use_a_cluster(config):
    with pytest.raises(ValueError, match=r"^cluster='local' should be empty except for ppo and impala with actors$"):
        Config(cluster="local", **config)
    for algorithm in ("ppo", "impala"):
        assert Config(algorithm=algorithm, actors=2, cluster="host:6379").cluster == "host:6379"


def test_server_that_speaks_http2_is_taken_for_a_cluster(listening):
    answer_first_request(listening, bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    cluster.check_reachable(address(listening))


def test_server_that_is_no_cluster_is_rejected(listening):
    answer_first_request(listening, b"HTTP/1.1 400 Bad Request")
    with pytest.raises(ValueError, match=f"^cluster='{address(listening)}' is not the address of a Ray cluster$"):
        cluster.check_reachable(address(listening))


def test_silent_server_times_out(listening):
    with pytest.raises(ValueError, match=f"^cluster='{address(listening)}' cannot be reached: timed out$"):
        cluster.check_reachable(address(listening), seconds=0.1)


def test_address_where_nothing_listens_is_rejected():
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = address(server)
    with pytest.raises(ValueError, match=f"^cluster='{closed}' cannot be reached: .*refused$"):
        cluster.check_reachable(closed)


def test_missing_ray_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(backends.BackendUnavailable) as caught:
        cluster.check_installed("torch")
    assert str(caught.value) == "torch: ray is not installed (pip install 'rlgauge-workloads[ray]')"
