"""Transports: what is put is taken, in order and whole, or counted; none leaves anything behind."""

from __future__ import annotations

import contextlib
import errno
import gc
import multiprocessing
import os
import pickle
import re
import threading
from multiprocessing import resource_tracker
from multiprocessing.context import BaseContext

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


@every_kind
@pytest.mark.parametrize("shape", [SHAPE, (2, 3, 4), (84, 84)])
def test_what_is_put_is_taken_whole_and_in_order(kind, shape, make):
    transport, taken, rng = make(kind, 3, shape), Taken(3, shape), np.random.default_rng(0)
    senders, counts = [transport.sender(index) for index in range(3)], [0, 0, 0]
    for _ in range(4):
        for index in rng.integers(3, size=30):
            assert put(senders[index], counts[index]) is True
            counts[index] += 1
        take_all(transport, taken, counts)
        found = balanced(transport.counters())
        np.testing.assert_array_equal(found["produced"], counts)
        np.testing.assert_array_equal(found["delivered"], counts)
        assert not found["dropped"].any()
        assert not found["lost"].any()
    assert taken.numbers == [list(range(count)) for count in counts]
    assert transport.counters()["batches"] == len(taken.calls)


@every_kind
def test_no_more_is_taken_than_was_asked_for_and_what_is_left_waits(kind, make):
    transport, taken, rng = make(kind), Taken(2, SHAPE), np.random.default_rng(1)
    senders, total = [transport.sender(index) for index in range(2)], 0
    for number in range(40):
        for sender in senders:
            put(sender, number)
    while total < 80:
        most = int(rng.integers(1, 8))
        count = transport.take(taken, most=most, seconds=1.0)
        assert 1 <= count <= most
        total += count
        assert sum(taken.counts()) == total
        found = balanced(transport.counters())
        np.testing.assert_array_equal(found["waiting"], [40 - count for count in taken.counts()])
    assert transport.take(taken) == 0


@every_kind
def test_a_process_that_puts_experiences_imports_numpy_and_no_framework(kind, make):
    transport, (ours, theirs) = make(kind, 1), multiprocessing.Pipe()
    process = start(helpers.name_imports, theirs, transport.sender(0))
    theirs.close()
    take_all(transport, Taken(1, SHAPE), [1])
    imported = ours.recv()
    process.join()
    assert {"numpy", "rl_impls"} <= imported
    assert not imported & {"torch", "jax", "jaxlib", "onnxruntime", "procgen", "gym3", "safetensors", "yaml", "rich"}


def test_a_locked_queue_hands_over_one_by_one(make):
    transport, taken = make("locked_queue"), Taken(2, SHAPE)
    sender = transport.sender(1)
    for number in range(9):
        put(sender, number)
    take_all(transport, taken, [0, 9])
    assert taken.calls == [(1, 1)] * 9


def test_local_queues_hand_over_batches(make):
    transport, taken = make("local_queues", batch=4), Taken(2, SHAPE)
    senders = [transport.sender(0), transport.sender(1)]
    for number in range(100):
        for sender in senders:
            put(sender, number)
    take_all(transport, taken, [100, 100])
    assert max(count for _, count in taken.calls) <= 4
    assert len(taken.calls) < 200


def test_what_comes_slowly_to_local_queues_is_gathered_until_a_batch_is_full_or_the_learner_asks(make):
    transport, taken = make("local_queues", 1, batch=4), Taken(1, SHAPE)
    sender = transport.sender(0)

    def put_slowly(first, end):
        for number in range(first, end):
            put(sender, number)
            until(lambda arrived=number + 1: transport.gatherer.arrived == [arrived], "the gatherer")

    put_slowly(0, 10)
    take_all(transport, taken, [10])
    assert [count for _, count in taken.calls] == [4, 4, 2]
    put_slowly(10, 13)
    until(lambda: transport.take(taken), "what was gathered, without waiting for it")
    assert taken.calls[3:] == [(0, 3)]
    assert transport.counters()["batches"] == 4


@pytest.mark.parametrize("consolidated", [None, 3])
def test_batches_that_are_not_taken_are_bounded(consolidated, make):
    transport = make("local_queues", 1, capacity=10, batch=2, consolidated=consolidated)
    sender, room = transport.sender(0), consolidated or 20
    pipes = threading.Thread(target=lambda: [put(sender, number) for number in range(2000)], daemon=True)
    pipes.start()
    until(lambda: transport.counters()["full"][0] > 0.1, "a full pipe")
    assert room - 1 <= transport.gatherer.waiting <= room
    taken = Taken(1, SHAPE)
    take_all(transport, taken, [2000])
    pipes.join()
    assert not transport.gatherer.waiting


def test_what_an_ended_collector_left_in_its_pipe_is_read_though_batches_are_not_taken(make):
    transport, taken = make("local_queues", 1, capacity=20, batch=2, consolidated=2), Taken(1, SHAPE)
    sender = transport.sender(0)
    for number in range(15):
        put(sender, number)
    sender.close()
    transport.ended(0)
    take_all(transport, taken, [15])
    assert max(count for _, count in taken.calls) <= 2


def test_a_ring_hands_over_its_memory_in_two_runs_at_most(make):
    transport, taken, held = make("shared_ring", capacity=10), Taken(2, SHAPE), []
    sender, frames = transport.sender(0), transport.shared["frames"]

    def into(index, *arrays):
        taken(index, *arrays)
        held.append(arrays[0].ctypes.data)
        for array in arrays:
            assert not array.flags.writeable
            assert not array.flags.owndata
        assert np.shares_memory(arrays[0], frames)

    for number in range(4):
        put(sender, number)
    assert transport.take(into) == 4
    for number in range(4, 9):
        put(sender, number)
    assert transport.take(into) == 5
    assert taken.calls == [(0, 4), (0, 1), (0, 4)]
    assert held == [frames[0, 0].ctypes.data, frames[0, 4].ctypes.data, frames[0, 0].ctypes.data]


def test_rings_larger_than_memory_are_refused_before_they_are_made(make, monkeypatch):
    monkeypatch.setattr(os, "memfd_create", lambda *args: pytest.fail("memory was taken"))
    there, most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 2**31 - 1
    said = r"^capacity: got 2147483647, wanted fewer experiences of \[84, 84\]: they take "
    with pytest.raises(ValueError, match=said) as found:
        make("shared_ring", 1, (84, 84), capacity=most)
    size = most * (84 * 84 + 4 + 4 + 1 + 4)
    numbers = [int(word.replace(",", "")) for word in re.findall(r"[\d,]{4,}", str(found.value))]
    assert numbers[-1] == there
    assert 0 <= numbers[-2] - size < 1024  # counts, and what begins at a line of the cache
    with pytest.raises(ValueError, match=r"^capacity: got 1, wanted fewer experiences of \[2147483647, 214"):
        make("shared_ring", 1, (most, most, most), capacity=1)


def test_a_lock_for_which_there_is_no_room_is_named(make, monkeypatch):
    def full(context):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(BaseContext, "Lock", full)
    wanted = "the lock of a locked_queue could not be made in /dev/shm: No space left on device"
    with pytest.raises(OSError, match=f"^{re.escape(f'[Errno {errno.ENOSPC}] {wanted}')}$"):
        make("locked_queue")


def test_no_collector_of_a_ring_waits_for_ever_where_few_are_taken(make):
    transport, taken = make("shared_ring", 3), Taken(3, SHAPE)
    for index in range(3):
        sender = transport.sender(index)
        for number in range(9):
            put(sender, number)
    for _ in range(3):
        transport.take(taken, most=2)
    assert taken.counts() == [2, 2, 2]


def test_what_a_ring_hands_over_is_not_overwritten_during_the_call(make):
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
def test_what_finds_no_room_is_dropped_and_counted(kind, make):
    shape = (4, 84, 84)
    transport, taken = make(kind, 2, shape, **small(kind, patience=0)), Taken(2, shape)
    sender = transport.sender(1)
    done = [put(sender, number) for number in range(30)]
    kept = [number for number, one in enumerate(done) if one]
    assert kept[:4] == [0, 1, 2, 3]
    if kind == "shared_ring":
        assert len(kept) == 4
    assert len(kept) <= 4 + 1 + 3 + 5 + 2  # queue, feeder, pipe, batches, gathered
    found = balanced(transport.counters())
    np.testing.assert_array_equal(found["dropped"], [0, 30 - len(kept)])
    np.testing.assert_array_equal(found["produced"], [0, 30])
    take_all(transport, taken, [0, len(kept)])
    assert taken.numbers[1] == kept
    assert put(sender, 30)
    take_all(transport, taken, [0, len(kept) + 1])


@every_kind
def test_patience_is_waited_for_and_counted(kind, make):
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
def test_without_end_of_patience_nothing_is_dropped(kind, make):
    shape = (4, 84, 84)
    transport, taken = make(kind, 1, shape, **small(kind, collectors=1)), Taken(1, shape)
    sender, done = transport.sender(0), []
    thread = threading.Thread(target=lambda: done.extend(put(sender, number) for number in range(60)), daemon=True)
    thread.start()
    until(lambda: transport.counters()["full"][0] > 0.2, "a full transport")
    take_all(transport, taken, [60], most=1)
    thread.join()
    assert done == [True] * 60
    assert not transport.counters()["dropped"].any()


@every_kind
def test_the_learner_waits_for_the_first_experience_alone_and_no_longer_than_it_said(kind, make):
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


def test_the_time_that_senders_wait_for_each_other_is_counted(make):
    transport, taken = make("locked_queue"), Taken(2, SHAPE)
    with transport.lock:
        put(transport.sender(1), 0)
        until(lambda: transport.counters()["lock"][1] > 0, "a sender")
    take_all(transport, taken, [0, 1])
    assert transport.counters()["lock"][0] == 0


@pytest.mark.parametrize("kind", QUEUES)
def test_the_time_that_feeders_wait_for_a_pipe_is_counted(kind, make):
    shape, before = (4, 84, 84), 0
    more = {"batch": 1, "consolidated": 1} if kind == "local_queues" else {}
    transport, taken = make(kind, 1, shape, capacity=100, **more), Taken(1, shape)
    sender = transport.sender(0)
    for done in (0, 20):
        for number in range(done, done + 20):
            put(sender, number)  # the queue has room for all
        threading.Event().wait(0.05)
        take_all(transport, taken, [done + 20])
        after = transport.counters()["full"][0]
        assert after > before
        before = after


@every_kind
def test_where_what_is_called_fails_its_experiences_count_as_delivered(kind, make):
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


@every_kind
def test_a_sender_takes_the_place_of_an_ended_one(kind, make):
    transport, taken = make(kind, **small(kind, share=3)), Taken(2, SHAPE)
    other = transport.sender(1)
    for life in range(5):
        sender = transport.sender(0)
        put(sender, 2 * life)
        put(sender, 2 * life + 1)
        sender.close()
        sender.close()
        with pytest.raises(RuntimeError, match="closed"):
            put(sender, 99)
        put(other, life)
        transport.ended(0)
        take_all(transport, taken, [2 * life + 2, life + 1])
    assert not balanced(transport.counters())["lost"].any()
    assert taken.numbers == [list(range(10)), list(range(5))]


@every_kind
def test_a_collector_that_never_began_may_end(kind, make):
    transport = make(kind)
    transport.ended(0)
    transport.sender(0)
    transport.ended(0)
    transport.ended(0)
    put(transport.sender(0), 0)


WRONG = [
    ({"collectors": 0}, r"^collectors: got 0, wanted an integer from 1 to"),
    ({"collectors": 2.0}, r"^collectors: got 2.0, wanted an integer"),
    ({"shape": ()}, r"^shape: got \(\), wanted a tuple of one integer or more$"),
    ({"shape": 84}, r"^shape: got 84, wanted a tuple"),
    ({"shape": (84, 0)}, r"^shape: got 0, wanted an integer from 1 to"),
    ({"collectors": 3, "capacity": 2}, r"^capacity: got 2, wanted an integer from 3 to"),
    ({"capacity": 0}, r"^capacity: got 0, wanted an integer from 2 to"),
    ({"batch": 0}, r"^batch: got 0, wanted an integer from 1 to"),
    ({"patience": -1}, r"^patience: got -1, wanted a number of 0 or more$"),
    ({"patience": float("nan")}, r"^patience: got nan, wanted a number"),
]


@every_kind
@pytest.mark.parametrize(("given", "error"), WRONG)
def test_a_wrong_argument_is_named(kind, given, error):
    with pytest.raises(ValueError, match=error):
        make_transport(kind, **{"collectors": 2, "shape": SHAPE, **given})


def test_other_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"^unknown kind of transport 'pipe'; known: locked_queue, local_queues, shar"):
        make_transport("pipe", 2, SHAPE)
    with pytest.raises(ValueError, match=r"^consolidated: got 0, wanted an integer from 1 to"):
        make_transport("local_queues", 2, SHAPE, consolidated=0)


@every_kind
def test_a_wrong_argument_of_a_call_is_named(kind, make):
    transport = make(kind)
    for index in (-1, 2, 0.5):
        with pytest.raises(ValueError, match=rf"^index: got {index}, wanted an integer from 0 to 1$"):
            transport.sender(index)
        with pytest.raises(ValueError, match=rf"^index: got {index}, wanted an integer from 0 to 1$"):
            transport.ended(index)
    sender = transport.sender(1)
    with pytest.raises(ValueError, match=r"^index: got 1, whose sender is out, wanted that of a coll"):
        transport.sender(1)
    with pytest.raises(ValueError, match=r"^most: got 0, wanted an integer from 1"):
        transport.take(print, most=0)
    with pytest.raises(ValueError, match=r"^seconds: got -1, wanted a number"):
        transport.take(print, seconds=-1)
    with pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(sender)


FRAME = np.zeros(SHAPE, np.uint8)
WRONG_ITEMS = [
    ((FRAME[:2], 0, 0.0, False, 0), r"^frame: got uint8\[2, 4\], wanted uint8\[3, 4\]$"),
    ((FRAME[None], 0, 0.0, False, 0), r"^frame: got uint8\[1, 3, 4\], wanted uint8\[3, 4\]$"),
    ((FRAME.astype(np.int8), 0, 0.0, False, 0), r"^frame: got int8\[3, 4\], wanted uint8\[3, 4\]$"),
    ((FRAME.tolist(), 0, 0.0, False, 0), r"^frame: got list, wanted uint8\[3, 4\]$"),
    ((FRAME, 2**31, 0.0, False, 0), r"^action: got 2147483648, wanted a 32-bit integer$"),
    ((FRAME, 0.5, 0.0, False, 0), r"^action: got 0.5, wanted a 32-bit integer$"),
    ((FRAME, 0, "1", False, 0), r"^reward: got '1', wanted a number$"),
    ((FRAME, 0, 0.0, FRAME, 0), r"^end: got array\("),
    ((FRAME, 0, 0.0, False, None), r"^time: got None, wanted a 32-bit integer$"),
]


@every_kind
def test_a_wrong_experience_is_not_put(kind, make):
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
def test_frames_that_are_not_contiguous_and_numpys_numbers_are_right(kind, make):
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
    """What this process holds once what other tests have dropped is gone."""
    gc.collect()
    return held()


def held():
    """What this process holds: descriptors, mappings of shared memory, threads."""
    with open("/proc/self/maps") as file:
        mapped = file.read().count("memfd:rl_impls")
    return len(os.listdir("/proc/self/fd")), mapped, threading.active_count()


def closed(kind, state):
    """Close a transport in some state; return it and its senders."""
    transport = make_transport(kind, 2, SHAPE, **small(kind, patience=0))
    senders = [transport.sender(index) for index in range(2)]
    if state != "fresh":
        for number in range(600 if state == "full" else 3):
            put(senders[0], number)
            put(senders[1], number)
    if state == "used":
        transport.take(lambda *args: None, most=1, seconds=1)
        senders[0].close()
    if state == "failed":
        transport.shared["counts"][1, PRODUCED] += kind != "shared_ring"
        with contextlib.suppress(TransportBroken):
            transport.ended(1)
    if state == "dropped":
        senders.clear()
    transport.close()
    if state == "dropped":  # nobody is there to join a thread that ends as the pipe does
        until(lambda: "feeder" not in {thread.name for thread in threading.enumerate()}, "the end of the feeders")
    found = balanced(transport.counters())
    assert not found["waiting"].any()
    assert found["lost"].sum() == found["produced"].sum() - found["delivered"].sum() - found["dropped"].sum()
    found["lost"][:] = 99
    transport.close()
    balanced(transport.counters())
    for sender in senders:
        with pytest.raises(RuntimeError, match=r"closed|gone"):
            put(sender, 999)
    for call in (lambda: transport.take(print), lambda: transport.sender(0), lambda: transport.ended(0)):
        with pytest.raises(RuntimeError, match=r"^the transport is closed$"):
            call()
    return transport, senders


@every_kind
@pytest.mark.parametrize("state", ["fresh", "used", "full", "failed", "dropped"])
def test_a_closed_transport_leaves_nothing(kind, state):
    resource_tracker.ensure_running()
    before = held_before()
    with names_made() as made:
        transport, senders = closed(kind, state)
    assert bool(made) == (kind == "locked_queue")
    assert held() == before  # though transport and senders are there
    assert transport.counters()
    assert len(senders) == 2 * (state != "dropped")


@every_kind
def test_a_transport_that_is_collected_leaves_nothing(kind):
    resource_tracker.ensure_running()
    before = held_before()
    with names_made():
        transport = make_transport(kind, 2, SHAPE)
        assert held() != before
        del transport
    assert held() == before


@every_kind
@pytest.mark.parametrize("patience", quick([None], [None, 0]))
def test_processes_hand_over_all_that_they_put_to_a_slow_learner(kind, patience, make):
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
def test_a_collector_ends_with_an_error_where_the_learner_has_closed(kind, make):
    transport = make(kind, **small(kind))
    process = start(helpers.collect, transport.sender(0), 0, helpers.ENDLESS, 0, 0)
    until(lambda: transport.counters()["full"][0], "a full transport")
    transport.close()
    process.join()
    assert process.exitcode == helpers.GONE


@pytest.mark.parametrize("kind", quick(["shared_ring"], list(KINDS)))
def test_a_collector_ends_where_the_learner_is_killed(kind):
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


def test_a_ring_loses_the_experience_that_was_being_written_and_goes_on(make):
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
def test_a_queue_is_broken_where_a_dead_collector_did_not_hand_over_all(kind, how, make):
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
