"""A wrong cluster address is a one-line error within seconds."""

import socket
import threading

import pytest

from rl_impls.procgen import cluster


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server):
    return "{}:{}".format(*server.getsockname())


def answer_first_request(server, answer):
    def serve():
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()


def test_server_that_speaks_http2_is_taken_for_a_cluster(listening):
    answer_first_request(listening, bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    cluster.check_reachable(address(listening))


def test_server_that_is_no_cluster_is_rejected(listening):
    answer_first_request(listening, b"HTTP/1.1 400 Bad Request")
    with pytest.raises(ValueError, match=f"^cluster='{address(listening)}' is the address of another server; "):
        cluster.check_reachable(address(listening))


def test_address_where_nothing_listens_is_rejected():
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = address(server)
    with pytest.raises(ValueError, match=f"^cluster='{closed}' cannot be reached: .*refused; start"):
        cluster.check_reachable(closed)
