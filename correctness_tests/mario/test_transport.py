"""Transports: waiting, errors, dead processes, and that nothing is left behind.

That experiences come whole, in order and counted, whatever the order of calls, is in ``test_transport_machine.py``.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import threading
from multiprocessing import resource_tracker

import numpy as np
import pytest

from correctness_tests.mario import collectors as helpers
from correctness_tests.mario.collectors import Taken, balanced, names_made, put, start, take_all
from correctness_tests.quick import quick
from correctness_tests.waiting import alive, children, limit, until
from rl_impls.mario.transport import KINDS, PRODUCED, TransportBroken, make_transport

limited = limit("a transport")

SHAPE = (3, 4)
QUEUES = ["locked_queue", "local_queues"]
HOW, NO_LOCK = ["in the queue", "a part", "a part of the size", "the lock"], ("local_queues", "the lock")
every_kind = pytest.mark.parametrize("kind", list(KINDS))


@pytest.fixture
def make():
    """Make transports that are closed at the end, and balance then."""
    with contextlib.ExitStack() as stack:

        def made(kind, collectors=2, shape=SHAPE, **options):
            transport = make_transport(kind, collectors, shape, **options)

            def close():
                transport.close()
                assert not balanced(transport.counters())["waiting"].any()

            stack.callback(close)
            return transport

        yield made
    for process in multiprocessing.active_children():
        process.kill()
        process.join()


def small(kind, share=4, collectors=2, **options):
    """Options of a transport that is soon full."""
    more = {"batch": 2, "consolidated": 3} if kind == "local_queues" else {}
    return {"capacity": share * collectors, **more, **options}


def test_local_queues_hand_over_batches(make):
    transport, taken = make("local_queues", batch=4), Taken(2, SHAPE)
    senders = [transport.sender(0), transport.sender(1)]
    for number in range(100):
        for sender in senders:
            put(sender, number)
    take_all(transport, taken, [100, 100])
    assert max(count for _, count in taken.calls) <= 4
    assert len(taken.calls) < 200


def test_rings_larger_than_memory_are_refused(make):
    with pytest.raises(ValueError, match=r"^capacity: got 2147483647, wanted fewer experiences of \[84, 84\]"):
        make("shared_ring", 1, (84, 84), capacity=2**31 - 1)


def test_rings_are_taken_from_in_turns(make):
    transport, taken = make("shared_ring", 3), Taken(3, SHAPE)
    for index in range(3):
        sender = transport.sender(index)
        for number in range(9):
            put(sender, number)
    for _ in range(3):
        transport.take(taken, most=2)
    assert taken.counts() == [2, 2, 2]


def test_a_ring_is_not_overwritten_while_it_is_read(make):
    transport, tried = make("shared_ring", 1, capacity=4, patience=0), []
    sender = transport.sender(0)
    for number in range(4):
        put(sender, number)

    def into(index, frames, *fields):
        before = frames.copy()
        tried.append(put(sender, 4))
        np.testing.assert_array_equal(frames, before)

    transport.take(into)
    assert tried == [False]
    assert put(sender, 5)


@every_kind
def test_a_sender_waits_for_room_as_long_as_its_patience(kind, make):
    shape = (4, 84, 84)
    transport = make(kind, 2, shape, **small(kind, patience=0.01))
    sender = transport.sender(0)
    assert transport.counters()["full"][0] == 0
    dropped = [put(sender, number) for number in range(25)].count(False)
    found = transport.counters()
    assert dropped >= 5
    assert found["full"][0] >= 0.0099 * dropped
    assert found["full"][1] == 0


@every_kind
def test_take_waits_only_for_the_first_experience_and_no_longer_than_its_limit(kind, make):
    transport, taken = make(kind), Taken(2, SHAPE)
    assert transport.take(taken) == 0
    assert transport.counters()["empty"] == 0
    assert transport.take(taken, seconds=0.02) == 0
    found = transport.counters()["empty"]
    assert found >= 0.019
    sender = transport.sender(0)
    thread = threading.Timer(0.05, put, (sender, 0))
    thread.start()
    assert transport.take(taken, most=5, seconds=100) == 1  # the limit of this test ends it, where it waits for more
    thread.join()
    assert transport.counters()["empty"] > found


def test_time_waiting_for_the_lock_is_counted(make):
    transport, taken = make("locked_queue"), Taken(2, SHAPE)
    with transport.lock:
        put(transport.sender(1), 0)
        until(lambda: transport.counters()["lock"][1] > 0, "a sender")
    take_all(transport, taken, [0, 1])
    assert transport.counters()["lock"][0] == 0


@every_kind
def test_experiences_count_as_delivered_though_the_callback_raises(kind, make):
    transport, taken, failing = make(kind, 1), Taken(1, SHAPE), []
    sender = transport.sender(0)

    def fail(index, frames, *fields):
        failing.append(len(frames))
        raise KeyError("no room")

    put(sender, 0)
    with pytest.raises(KeyError):
        transport.take(fail, seconds=100)
    assert failing == [1]
    put(sender, 1)
    take_all(transport, taken, [1])
    assert taken.numbers == [[1]]
    assert balanced(transport.counters())["delivered"][0] == 2


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"kind": "pipe"}, r"^unknown kind of transport 'pipe'; known: locked_queue, local_queues, shar"),
        ({"shape": (84, 0)}, r"^shape: got 0, wanted an integer from 1 to"),
        ({"collectors": 3, "capacity": 2}, r"^capacity: got 2, wanted an integer from 3 to"),
        ({"patience": -1}, r"^patience: got -1, wanted a number of 0 or more$"),
    ],
)
def test_an_invalid_argument_is_named(given, error):
    with pytest.raises(ValueError, match=error):
        make_transport(**{"kind": "shared_ring", "collectors": 2, "shape": SHAPE, **given})


@every_kind
def test_a_collector_has_one_sender_and_only_a_new_process_can_take_it(kind, make):
    transport = make(kind)
    with pytest.raises(ValueError, match=r"^index: got 2, wanted an integer from 0 to 1$"):
        transport.sender(2)
    sender = transport.sender(1)
    with pytest.raises(ValueError, match=r"^index: got 1, whose sender is out, wanted that of a coll"):
        transport.sender(1)
    with pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(sender)


FRAME = np.zeros(SHAPE, np.uint8)
WRONG_ITEMS = [
    ((FRAME[:2], 0, 0.0, False, 0), r"^frame: got uint8\[2, 4\], wanted uint8\[3, 4\]$"),
    ((FRAME, 2**31, 0.0, False, 0), r"^action: got 2147483648, wanted a 32-bit integer$"),
    ((FRAME, 0, "1", False, 0), r"^reward: got '1', wanted a number$"),
]


@every_kind
def test_an_invalid_experience_is_not_put(kind, make):
    transport, taken = make(kind, **small(kind)), Taken(2, SHAPE)
    sender = transport.sender(0)
    put(sender, 0)
    for item, error in WRONG_ITEMS:
        with pytest.raises(ValueError, match=error):
            sender.put(*item)
    assert transport.counters()["produced"][0] == 1
    put(sender, 1)
    take_all(transport, taken, [2, 0])
    assert taken.numbers[0] == [0, 1]


@every_kind
def test_frames_need_not_be_contiguous_and_numbers_may_be_numpys(kind, make):
    transport, found = make(kind), []
    sender = transport.sender(0)
    frame = np.arange(24, dtype=np.uint8).reshape(4, 6)[:, ::2].T
    sender.put(frame, np.int64(-3), np.float64(0.1), np.bool_(True), np.uint8(9))
    sender.put(frame + 1, True, 3, 1, np.int32(2))
    while len(found) < 2:
        transport.take(lambda index, *arrays: found.extend(zip(*(one.copy() for one in arrays))), seconds=0.1)
    np.testing.assert_array_equal([row[0] for row in found], [frame, frame + 1])
    assert [row[1:] for row in found] == [(-3, np.float32(0.1), True, 9), (1, 3, True, 2)]


def held_before():
    """What this process holds after a garbage collection."""
    gc.collect()
    return held()


def held():
    """Numbers of open descriptors, mappings of shared memory and threads of this process."""
    with open("/proc/self/maps") as file:
        mapped = file.read().count("memfd:rl_impls")
    return len(os.listdir("/proc/self/fd")), mapped, threading.active_count()


@every_kind
@pytest.mark.parametrize("state", ["fresh", "used", "full"])
def test_a_closed_transport_leaves_nothing(kind, state):
    resource_tracker.ensure_running()
    before = held_before()
    with names_made() as made:
        transport = make_transport(kind, 2, SHAPE, **small(kind, patience=0))
        senders = [transport.sender(index) for index in range(2)]
        for number in range({"fresh": 0, "used": 3, "full": 600}[state]):
            put(senders[0], number)
            put(senders[1], number)
        if state == "used":
            transport.take(lambda *args: None, most=1, seconds=1)
            senders[0].close()
        transport.close()
        transport.close()
    found = balanced(transport.counters())
    assert not found["waiting"].any()
    for sender in senders:
        with pytest.raises(RuntimeError, match=r"closed|gone"):
            put(sender, 999)
    for call in (lambda: transport.take(print), lambda: transport.sender(0), lambda: transport.ended(0)):
        with pytest.raises(RuntimeError, match=r"^the transport is closed$"):
            call()
    assert bool(made) == (kind == "locked_queue")
    assert held() == before  # though transport and senders are there


@every_kind
def test_a_garbage_collected_transport_leaves_nothing(kind):
    resource_tracker.ensure_running()
    before = held_before()
    with names_made():
        transport = make_transport(kind, 2, SHAPE)
        assert held() != before
        del transport
    assert held() == before


@every_kind
@pytest.mark.parametrize("patience", quick([None], [None, 0]))
def test_processes_hand_over_everything_to_a_slow_learner(kind, patience, make):
    shape, rng = (70, 71), np.random.default_rng(2)  # longer than what a pipe takes at once
    transport, taken = make(kind, 2, shape, **small(kind, share=5, patience=patience)), Taken(2, shape)
    counts = [150, 400]
    processes = [start(helpers.collect, transport.sender(k), 0, counts[k], 3, 2e-3) for k in range(2)]
    waiting = [0, 1]
    while waiting or transport.counters()["waiting"].any():
        transport.take(taken, most=int(rng.integers(1, 12)), seconds=0.01)
        balanced(transport.counters())
        threading.Event().wait(float(rng.random()) * 5e-3)
        for index in [k for k in waiting if not processes[k].is_alive()]:
            assert processes[index].exitcode == 0
            transport.ended(index)  # while the other one is at work
            waiting.remove(index)
    found = transport.counters()
    np.testing.assert_array_equal(found["produced"], counts)
    assert taken.counts() == found["delivered"].tolist()
    assert not found["lost"].any()
    if patience is None:
        assert taken.numbers == [list(range(count)) for count in counts]
        assert found["full"].all()


@every_kind
def test_a_collector_ends_with_an_error_once_the_learner_closes(kind, make):
    transport = make(kind, **small(kind))
    process = start(helpers.collect, transport.sender(0), 0, helpers.ENDLESS, 0, 0)
    until(lambda: transport.counters()["full"][0], "a full transport")
    transport.close()
    process.join()
    assert process.exitcode == helpers.GONE


@pytest.mark.parametrize("kind", quick(["shared_ring"], list(KINDS)))
def test_a_collector_ends_when_the_learner_is_killed(kind):
    ours, theirs = helpers.CONTEXT.Pipe()
    owner = start(helpers.own, theirs, kind, daemon=False)
    pid = ours.recv()
    assert alive(pid)
    owner.kill()
    owner.join()
    until(lambda: not alive(pid), "a collector without a learner")
    ours.close()
    theirs.close()
    assert not children()


def test_a_ring_loses_only_the_experience_being_written(make):
    transport, taken = make("shared_ring", capacity=6), Taken(2, SHAPE)
    for life in range(2):
        process = start(helpers.die_writing, transport.sender(0), 3 * life)
        process.join()
        transport.ended(0)
        assert transport.take(taken) == 2
        found = balanced(transport.counters())
        assert (found["lost"][0], found["waiting"][0]) == (life + 1, 0)
    put(transport.sender(0), 6)
    assert transport.take(taken) == 1
    assert taken.numbers[0] == [0, 1, 3, 4, 6]


@pytest.mark.parametrize(("kind", "how"), [(kind, how) for kind in QUEUES for how in HOW if (kind, how) != NO_LOCK])
def test_a_queue_is_broken_if_a_dead_collector_left_it_incomplete(kind, how, make):
    transport, taken = make(kind), Taken(2, SHAPE)
    senders = [transport.sender(0), transport.sender(1)]
    for sender in senders:
        put(sender, 0)
    senders[0].close()
    take_all(transport, taken, [1, 1])
    transport.shared["counts"][0, PRODUCED] += 1
    descriptor = (transport.outlet if kind == "locked_queue" else transport.outlets[0]).descriptor
    if how.startswith("a part"):
        os.write(descriptor, b"\0\0\1\0what was written"[: 2 if "size" in how else None])
    error = {"the lock": "holds the lock of all", "in the queue": "had not handed over what was in its queue"}
    if how == "the lock":
        transport.lock.acquire()
        put(senders[1], 1)  # which waits for the lock
    wanted = rf"^collector 0 died and {error.get(how, 'left a part of an item in')}.*: 1 of its experiences are lost$"
    with pytest.raises(TransportBroken, match=wanted):
        transport.ended(0)
    found = balanced(transport.counters())
    assert found["lost"].tolist() == [1, 0]
    for call in (lambda: transport.take(taken), lambda: transport.sender(0), lambda: transport.ended(1)):
        with pytest.raises(TransportBroken, match=wanted):
            call()
    transport.close()
    assert transport.counters()["lost"].tolist() == [1, how == "the lock"]
