"""What disturbs a sample is seen: what the kernel says of this process's threads and of the machine."""

from __future__ import annotations

import json
import os
import threading
from types import SimpleNamespace

import pytest

from perf_tests import disturbance

from .commands import python
from .waiting import until

WORK = """
import json, os, subprocess, sys, time
from perf_tests import disturbance
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
def sample():
    before, end = disturbance.read(), time.process_time() + 0.1
    while time.process_time() < end:
        pass
    return disturbance.read().since(before)
other = subprocess.Popen([sys.executable, "-c", "print(flush=True)\\nwhile True: pass"], stdout=subprocess.PIPE)
other.stdout.readline()
try:
    loud = sample()
finally:
    other.kill()
    other.wait()
print(json.dumps(loud))
"""


def test_a_program_on_the_same_core_is_seen():
    loud = json.loads(python("-c", WORK).stdout)
    assert loud["waited"] > 0.02
    assert loud["switches"] > 0
    assert loud["busy"] >= 0.1 <= loud["cpu"]


def test_readings_are_the_seconds_that_the_kernel_counts(monkeypatch, tmp_path):
    (tmp_path / "stat").write_text("cpu  100 20 3 4000 500 60 7 8000 0 0\n")
    for thread, waited in (("1", 250_000_000), ("2", 1_500_000_000)):
        (tmp_path / "task" / thread).mkdir(parents=True)
        (tmp_path / "task" / thread / "schedstat").write_text(f"7000000000 {waited} 12\n")
    monkeypatch.setattr(disturbance, "STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(disturbance, "TASKS", str(tmp_path / "task"))
    assert disturbance.machine() == pytest.approx((8000 * disturbance.TICK, 190 * disturbance.TICK))
    assert disturbance.Threads().waited() == pytest.approx(1.75)


def test_what_disturbed_a_sample_is_the_difference_of_two_readings():
    before, after = disturbance.Reading(1.0, 2.0, 3, 4.0, 5.0), disturbance.Reading(1.5, 2.25, 7, 4.125, 6.0)
    assert after.since(before) == {"cpu": 0.5, "waited": 0.25, "switches": 4, "stolen": 0.125, "busy": 1.0}


def files_of_threads():
    """How many files about threads this process has open."""
    files = "/proc/self/fd"
    return sum("/schedstat" in os.path.realpath(f"{files}/{number}") for number in os.listdir(files))


def test_threads_that_come_and_go_are_followed():
    found, stop, opened = disturbance.Threads(), threading.Event(), files_of_threads()
    before = found.waited()
    others = [threading.Thread(target=stop.wait, daemon=True) for _ in range(5)]
    for other in others:
        other.start()
    try:
        assert found.waited() >= before
        assert len(found.files) >= 6
    finally:
        stop.set()
    for other in others:
        other.join(10)
    assert found.waited() >= 0
    assert len(found.files) == len(os.listdir("/proc/self/task"))
    assert files_of_threads() - opened == len(found.files)  # those of before are closed


def test_a_thread_in_place_of_one_that_ended_is_followed():
    found, stops = disturbance.Threads(), (threading.Event(), threading.Event())
    old, new = (threading.Thread(target=stop.wait, daemon=True) for stop in stops)
    try:
        old.start()
        found.waited()
        stops[0].set()
        until(lambda: not os.path.exists(f"{disturbance.TASKS}/{old.native_id}"), "a thread to end")
        new.start()  # so there are as many as before
        found.waited()
        followed = {os.readlink(f"/proc/self/fd/{file}").split("/")[-2] for file in found.files}
        assert followed == set(os.listdir(disturbance.TASKS))
    finally:
        for stop in stops:
            stop.set()


def test_without_these_files_nothing_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(disturbance, "STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(disturbance, "TASKS", str(tmp_path / "task"))
    assert disturbance.machine() == (0.0, 0.0)
    assert disturbance.Threads().waited() == 0.0


def test_a_reading_has_what_the_kernel_says_of_this_process_and_of_the_machine(monkeypatch):
    used = SimpleNamespace(ru_utime=1.5, ru_stime=0.25, ru_nivcsw=7, ru_nvcsw=900)
    asked = []
    monkeypatch.setattr(disturbance.resource, "getrusage", lambda who: asked.append(who) or used)
    monkeypatch.setattr(disturbance, "machine", lambda: (3.0, 40.0))
    monkeypatch.setattr(disturbance, "THREADS", SimpleNamespace(waited=lambda: 0.5))
    assert disturbance.read() == disturbance.Reading(cpu=1.75, waited=0.5, switches=7, stolen=3.0, busy=40.0)
    assert asked == [disturbance.resource.RUSAGE_SELF]


def test_the_pace_is_the_seconds_from_before_the_additions_to_after_them(monkeypatch):
    times = iter([5.0, 5.25])
    monkeypatch.setattr(disturbance.time, "perf_counter", lambda: next(times))
    assert disturbance.pace() == 0.25


def test_a_thread_that_ends_while_it_is_read_has_all_opened_anew_and_three_times_are_enough(monkeypatch):
    opened = []

    def gone(file, size, offset):
        raise ProcessLookupError

    def opens(self, count):
        opened.append(count)
        self.files, self.count = [0], count

    monkeypatch.setattr(disturbance.os, "pread", gone)
    monkeypatch.setattr(disturbance.Threads, "open", opens)
    assert disturbance.Threads().waited() == 0.0
    assert len(opened) == 3


def test_a_file_of_a_machine_that_says_too_little_says_nothing(monkeypatch, tmp_path):
    (tmp_path / "stat").write_text("cpu  100 20 3\n")
    monkeypatch.setattr(disturbance, "STAT", str(tmp_path / "stat"))
    assert disturbance.machine() == (0.0, 0.0)
