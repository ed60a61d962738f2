"""Procgen's alone: the Ray cluster whose actors play: how its address is checked, and how this process joins it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from importlib.util import find_spec

from ..backends import OPTIONAL, BackendUnavailable

LOCAL = "local"  # the address of a cluster that this process starts, and ends
SECONDS = 5  # to reach a cluster
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # of HTTP/2, and empty settings
SETTINGS = 4  # the kind of frame that HTTP/2 answers with, at byte 3
CREWS = {"ours": 0}  # crews of the connection that this process has made


def parts_of(address):
    """Return host and port of an address; None for ``local``.

    Args:
        address: ``host:port`` or ``local``.

    Raises:
        ValueError: it is neither.
    """
    if address == LOCAL:
        return None
    host, _, port = address.rpartition(":")
    if not host or not set("/:").isdisjoint(host) or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"cluster: got {address!r}, wanted {LOCAL} or an address, as host:6379")
    return host, int(port)


def check_installed(backend):
    """Check that Ray can be imported.

    Args:
        backend: name of the backend that needs it, for the error.

    Raises:
        BackendUnavailable: it is not installed.
    """
    if find_spec("ray") is None:
        raise BackendUnavailable(backend, "ray is not installed", OPTIONAL["ray"])


def check_reachable(address):
    """Check that something at an address answers as a Ray cluster does; Ray itself tries again for minutes.

    Args:
        address: ``host:port`` or ``local``.

    Raises:
        ValueError: it is no address, nothing answers there within seconds, or something that is no cluster.
    """
    found = parts_of(address)
    if found is None:
        return
    try:
        with socket.create_connection(found, SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "1":  # it answers only those who encrypt
                return
            connection.settimeout(SECONDS)
            connection.sendall(HELLO)
            answer = connection.recv(9)
    except OSError as error:
        raise ValueError(f"cluster: got {address!r}, which cannot be reached: {error}") from None
    if answer[3:4] != bytes([SETTINGS]):
        raise ValueError(f"cluster: got {address!r}, where something answers that is no Ray cluster")


def same(address, other):
    """Tell whether two addresses are of one cluster, as far as names of hosts tell.

    Args:
        address: ``host:port`` or ``local``, which is any that this process has started or joined.
        other: ``host:port``.
    """
    import ray

    found = parts_of(address)
    if found is None:
        return True
    host = socket.gethostbyname(found[0])
    host = ray.util.get_node_ip_address() if host.startswith("127.") else host
    return (host, found[1]) == parts_of(other)


def connect(address, cores):
    """Connect this process to a cluster; it stays so until ``ray.shutdown``.

    Args:
        address: ``host:port``, or ``local`` to start one here.
        cores: that a cluster which is started here has.

    Raises:
        ValueError: the cluster does not take this process, with Ray's reason.
    """
    import ray
    from ray.exceptions import RayError

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise a cluster tells its makers about itself
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
        raise ValueError(f"cluster: got {address!r}, which Ray cannot join: {lines[0]}") from error
    finally:
        if in_main_thread and on_sigterm is not None:  # Ray puts its own in the place of the caller's
            signal.signal(signal.SIGTERM, on_sigterm)


def join(address, cores):
    """Be in a cluster, of which a process can be in one at a time; each call is followed by one of :func:`leave`.

    Args:
        address: ``host:port``, or ``local`` to start one here.
        cores: that a cluster which is started here has.

    Raises:
        ValueError: the cluster does not take this process, or it is in another one.
    """
    import ray

    if not ray.is_initialized():
        connect(address, cores)
        CREWS["ours"] = 1
        return
    here = ray.get_runtime_context().gcs_address
    if not same(address, here):
        raise ValueError(f"cluster: got {address!r}, but this process is in the cluster {here} already")
    CREWS["ours"] += CREWS["ours"] > 0


def leave():
    """Leave the cluster that :func:`join` joined, where nobody else in this process uses it or had joined it before.

    A cluster that was started here ends.
    """
    import ray

    if CREWS["ours"]:
        CREWS["ours"] -= 1
        if not CREWS["ours"]:
            ray.shutdown()
