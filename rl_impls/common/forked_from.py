"""Imported by the process that others are forked from: it ends when they have, and with it the folder of its socket."""

from __future__ import annotations

import atexit
import os
import shutil
import signal

from .starting import FOLDER, OF_GROUP

for number in OF_GROUP:
    signal.signal(number, signal.SIG_IGN)  # it would leave the folder
atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
