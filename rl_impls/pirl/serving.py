"""A server for many client threads, with one call of the net per request or with dynamic batching."""

import threading
import time
from collections import deque

import numpy as np

from ..common.batching import BatchGrid
from ..common.op import Op

GRID = BatchGrid((1, 2, 4, 8, 16, 32))  # batch sizes that the net is compiled for


class PerRequest:
    """Server that calls the net once per request, in the client's thread; `build` is that of :class:`Batched`."""

    def __init__(self, build):
        self.forward = build(1)

    def __call__(self, state):
        """Return the Q-values of one state.  f32[S] -> f32[A]"""
        return self.forward(state[None])[0]

    def close(self):
        """Do nothing; there are no resources to release."""


class Batched:
    """Server whose worker thread answers all waiting requests with one call, padded to the next compiled batch size.

    ``build(size)`` returns a net for batches of that size, f32[size, S] -> f32[size, A], for each size in `grid`. The
    worker does not wait for a batch to fill: under load, requests queue up while the previous batch is computed.
    """

    def __init__(self, build, grid=GRID):
        self.grid = grid
        self.forwards = {size: build(size) for size in grid.sizes}
        self.waiting = deque()
        self.wake = threading.Semaphore(0)
        self.closed, self.closing = False, threading.Lock()
        self.worker = threading.Thread(target=self._work, name="batcher", daemon=True)
        self.worker.start()

    def __call__(self, state):
        """Queue one state and wait for its Q-values; raise a RuntimeError if closed.  f32[S] -> f32[A]"""
        done = threading.Lock()
        done.acquire()
        request = [state, done, None]
        with self.closing:
            if self.closed:
                raise RuntimeError("the server is closed")
            self.waiting.append(request)
        self.wake.release()
        done.acquire()
        if isinstance(request[2], BaseException):
            raise request[2]
        return request[2]

    def _work(self):
        while True:
            self.wake.acquire()
            if self.closed and not self.waiting:
                return
            gathered = []
            while self.waiting and len(gathered) < self.grid.sizes[-1]:
                gathered.append(self.waiting.popleft())
            if gathered:
                self._answer(gathered)

    def _answer(self, gathered):
        try:
            size = self.grid.fit(len(gathered))
            batch = np.zeros((size, *gathered[0][0].shape), gathered[0][0].dtype)
            for row, request in zip(batch, gathered):
                row[:] = request[0]
            answers = self.forwards[size](batch)
        except BaseException as error:  # re-raised in the clients; a dead worker would leave them waiting forever
            answers = [error] * len(gathered)
        for request, answer in zip(gathered, answers):
            request[2] = answer
            request[1].release()

    def close(self):
        """Answer the waiting requests, then stop the worker."""
        with self.closing:
            self.closed = True
        self.wake.release()
        self.worker.join()


class Load(Op):
    """Load on a server from `clients` threads, each of which waits for an answer before its next request.

    `server` maps a state f32[S] -> f32[A] and has ``close()``.
    """

    def __init__(self, server, clients):
        self.server, self.clients = server, clients
        self.start, self.finish = threading.Barrier(clients + 1), threading.Barrier(clients + 1)
        self.latencies = np.zeros(0)
        self.states = None
        self.threads = [threading.Thread(target=self._client, args=(k,), daemon=True) for k in range(clients)]
        for thread in self.threads:
            thread.start()

    def _client(self, k):
        try:
            self._send_until_closed(k)
        except threading.BrokenBarrierError:
            return

    def _send_until_closed(self, k):
        while True:
            self.start.wait()
            for row in range(k, len(self.states), self.clients):
                sent = time.perf_counter()
                try:
                    self.answers[row] = self.server(self.states[row])
                except BaseException as error:  # re-raised by the caller
                    self.errors.append(error)
                self.latencies[row] = time.perf_counter() - sent
            self.finish.wait()

    def __call__(self, states):
        """Send a request for each state and return the answers in the same order.  f32[N, S] -> f32[N, A]

        Client k sends rows k, k + clients, k + 2 clients, ...
        """
        self.states, self.errors = states, []
        self.answers, self.latencies = [None] * len(states), np.zeros(len(states))
        self.start.wait()
        self.finish.wait()
        if self.errors:
            raise self.errors[0]
        return np.array(self.answers)

    def stats(self):
        """Return the median and 99th percentile of the last call's request latencies, in seconds."""
        p50, p99 = np.percentile(self.latencies, [50, 99])
        return {"latency_p50_s": float(p50), "latency_p99_s": float(p99)}

    def close(self):
        self.start.abort()
        self.finish.abort()  # a client may still wait here if the caller was interrupted
        for thread in self.threads:
            thread.join()
        self.server.close()


SERVERS = {"per_request": PerRequest, "batched": Batched}
