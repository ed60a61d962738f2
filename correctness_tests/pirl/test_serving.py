"""Serving: every client gets its own answer, and ``close()`` leaves no thread behind."""

import threading
import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.pirl.problem import STATES, build, config_of, small_net
from correctness_tests.waiting import SECONDS, until
from rl_impls.common.batching import BatchGrid
from rl_impls.pirl._numpy import q_values
from rl_impls.pirl.serving import SERVERS, Batched, Load


def doubled(size):
    """Return a stand-in for a net compiled for one batch size."""

    def forward(batch):
        assert batch.shape == (size, 3)
        return batch * 2

    return forward


@pytest.mark.parametrize("kind", list(SERVERS))
@given(clients=st.integers(1, 9), requests=st.integers(1, 40))
@settings(max_examples=20)
def test_every_request_gets_its_own_answer(kind, clients, requests):
    states = np.arange(3.0 * requests).reshape(requests, 3)
    load = Load(SERVERS[kind](doubled), clients)
    with closing(load):
        for _ in range(2):
            before = time.perf_counter()
            assert np.array_equal(load(states), states * 2)
            stats = load.stats()
            assert 0 < stats["latency_p50_s"] <= stats["latency_p99_s"] <= time.perf_counter() - before


@pytest.mark.parametrize(("serving", "threads"), [("per_request", 3), ("batched", 4)])
def test_each_client_has_a_thread_and_batches_are_gathered_in_another(serving, threads):
    params, sent, before = small_net(np.random.default_rng(0)), STATES[:7], threading.active_count()
    op = build("serve", "numpy", config_of(params, clients=3), (sent,), serving=serving)
    with closing(op):
        assert threading.active_count() - before == threads
        np.testing.assert_allclose(op(sent), q_values(params, sent), atol=1e-6)


def test_waiting_requests_are_answered_in_batches_even_after_close():
    calls, answers, entered, gate = [], [], threading.Event(), threading.Event()

    def build(size):
        def forward(batch):
            calls.append(size)
            entered.set()
            gate.wait(SECONDS)
            return batch

        return forward

    server = Batched(build, BatchGrid((1, 4)))
    threads = [threading.Thread(target=lambda: answers.append(server(np.ones(3))), daemon=True) for _ in range(6)]
    threads[0].start()
    entered.wait()
    for thread in threads[1:]:
        thread.start()
    until(lambda: len(server.waiting) == 5, "five waiting requests")
    threads.append(threading.Thread(target=server.close, daemon=True))
    threads[-1].start()
    until(lambda: server.closed, "close() to begin")
    gate.set()
    for thread in threads:
        thread.join()
    assert (calls, len(answers)) == ([1, 4, 1], 6)
    assert not server.worker.is_alive()


@pytest.mark.parametrize("kind", list(SERVERS))
def test_an_error_of_the_net_reaches_the_caller_and_the_server_goes_on(kind):
    broken = [True]

    def build(size):
        def forward(batch):
            if broken[0]:
                raise ArithmeticError("planted")
            return batch

        return forward

    load = Load(SERVERS[kind](build), clients=2)
    with pytest.raises(ArithmeticError, match="planted"):
        load(np.zeros((4, 3)))
    broken[0] = False
    assert np.array_equal(load(np.ones((4, 3))), np.ones((4, 3)))
    load.close()


def test_a_request_to_a_closed_server_is_an_error():
    server = Batched(doubled)
    server.close()
    with pytest.raises(RuntimeError, match="the server is closed"):
        server(np.ones(3))


def test_an_interrupted_caller_leaves_no_thread():
    before = threading.active_count()
    load = Load(Batched(doubled), clients=3)
    load.states, load.errors = np.zeros((3, 3)), []
    load.answers, load.latencies = [None] * 3, np.zeros(3)
    load.start.wait()  # as if interrupted before it waits for the clients to finish
    load.close()
    assert threading.active_count() == before


def test_latency_counts_from_the_request_and_not_from_the_call():
    def build(size):
        def forward(batch):
            time.sleep(batch[0, 0])
            return batch

        return forward

    seconds = np.full((40, 3), 1e-3)
    seconds[-1] = 0.1
    load, before = Load(SERVERS["per_request"](build), clients=1), time.perf_counter()
    load(seconds)
    elapsed = time.perf_counter() - before
    load.close()
    stats = load.stats()
    assert 20 * stats["latency_p50_s"] <= elapsed  # twenty of the forty requests take the median or longer
    assert stats["latency_p99_s"] > 0.05  # between the two longest
