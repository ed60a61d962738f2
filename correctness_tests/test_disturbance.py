"""What disturbs a sample is seen: another program on the same core, and nothing where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def test_without_these_files_nothing_is_said(monkeypatch):
    from perf_tests import disturbance

    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(disturbance, "_first_line", missing)
    assert disturbance.machine() == (0.0, 0.0)
    assert disturbance.waited() == 0.0
