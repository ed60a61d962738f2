"""What disturbs a sample is seen: another program on the same core, and nothing where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from perf_tests import disturbance

ROOT = Path(__file__).parents[1]
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
print(json.dumps([loud, sample()]))
"""


def test_a_program_on_the_same_core_is_seen():
    done = subprocess.run([sys.executable, "-c", WORK], cwd=ROOT, check=True, capture_output=True, text=True)
    loud, alone = json.loads(done.stdout)
    assert loud["waited"] > 0.02
    assert loud["switches"] > alone["switches"]
    assert loud["waited"] > alone["waited"]
    assert loud["busy"] >= 0.1 <= loud["cpu"]
    assert loud["stolen"] >= 0


def test_threads_that_come_and_go_are_followed():
    found, stop = disturbance.Threads(), threading.Event()
    before = found.waited()
    others = [threading.Thread(target=stop.wait) for _ in range(5)]
    for other in others:
        other.start()
    assert found.waited() >= before
    assert len(found.files) >= 6
    stop.set()
    for other in others:
        other.join()
    assert found.waited() >= 0
    assert len(found.files) == len(os.listdir("/proc/self/task"))


def test_without_these_files_nothing_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(disturbance, "STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(disturbance, "TASKS", str(tmp_path / "task"))
    assert disturbance.machine() == (0.0, 0.0)
    assert disturbance.Threads().waited() == 0.0
