"""Preload module of the fork server: ignore the group's signals, and remove the socket's folder at exit."""

import atexit
import os
import shutil
import signal

from .starting import FOLDER, OF_GROUP

for number in OF_GROUP:
    signal.signal(number, signal.SIG_IGN)  # a killed server would leave the folder behind
atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
