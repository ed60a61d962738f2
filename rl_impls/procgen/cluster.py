"""The address of a Ray cluster, and joining and leaving that cluster."""

import logging
import os
import signal
import socket
import threading

LOCAL = "local"  # address of a cluster that this process starts and stops
SECONDS = 5  # default timeout of a connection
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # HTTP/2 preface, empty SETTINGS
SETTINGS = 4  # frame type of an HTTP/2 server's answer, at byte 3
USERS = {"ours": 0}  # users of the connection that :func:`join` made


def parse_address(address):
    """Return host and port of an address ``host:port``, or None for ``local``; others raise a ValueError."""
    if address == LOCAL:
        return None
    host, _, port = address.rpartition(":")
    if not host or not set("/:").isdisjoint(host) or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"cluster={address!r} should be {LOCAL} or an address such as host:6379")
    return host, int(port)


def check_reachable(address, seconds=SECONDS):
    """Raise a ValueError unless a Ray cluster answers within ``seconds``; Ray itself retries for minutes."""
    found = parse_address(address)
    if found is None:
        return
    try:
        with socket.create_connection(found, seconds) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "1":  # it answers only over TLS
                return
            connection.settimeout(seconds)
            connection.sendall(HELLO)
            answer = connection.recv(9)
    except OSError as error:
        raise ValueError(f"cluster={address!r} cannot be reached: {error}; start a cluster there") from None
    if answer[3:4] != bytes([SETTINGS]):
        raise ValueError(f"cluster={address!r} is the address of another server; give that of a Ray cluster")


def is_same(address, other):
    """Return whether an address is that of the cluster ``other``, ``host:port``, as far as host names tell.

    ``local`` matches every cluster.
    """
    import ray

    found = parse_address(address)
    if found is None:
        return True
    host = socket.gethostbyname(found[0])
    host = ray.util.get_node_ip_address() if host.startswith("127.") else host
    return (host, found[1]) == parse_address(other)


def connect(address, cores):
    """Connect to a cluster, or start a ``local`` one with ``cores``; a failure is a ValueError."""
    import ray
    from ray.exceptions import RayError

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray sends usage statistics
    more = {"num_cpus": cores} if address == LOCAL else {}
    in_main_thread = threading.current_thread() is threading.main_thread()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address, ignore_reinit_error=True, log_to_driver=False, include_dashboard=False,
            logging_level=logging.ERROR, **more,
        )  # fmt: skip
    except (RayError, OSError, RuntimeError, ValueError, AssertionError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"cluster={address!r} cannot be joined: {lines[0]}") from error
    finally:
        if in_main_thread and on_sigterm is not None:  # Ray replaces the caller's handler
            signal.signal(signal.SIGTERM, on_sigterm)


def join(address, cores):
    """Join a cluster, or start a ``local`` one with ``cores``; balance every call with :func:`leave`.

    A process can be in one cluster at a time: another address raises a ValueError.
    """
    import ray

    if not ray.is_initialized():
        connect(address, cores)
        USERS["ours"] = 1
        return
    here = ray.get_runtime_context().gcs_address
    if not is_same(address, here):
        raise ValueError(f"cluster={address!r} cannot be joined: this process has already joined the cluster {here}")
    USERS["ours"] += USERS["ours"] > 0


def leave():
    """Undo one :func:`join`. The last one disconnects, and stops a cluster that was started here.

    A connection that existed before the first :func:`join` stays open.
    """
    import ray

    if USERS["ours"]:
        USERS["ours"] -= 1
        if not USERS["ours"]:
            ray.shutdown()
