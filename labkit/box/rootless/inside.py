"""Differences for labkit inside the user namespace of a box without root."""

import os
import shlex
import sys
from pathlib import Path

MARK = "LABKIT_ROOTLESS_BOX"
"""In the environment of everything in there: the box's folder as it is called outside."""
TIER, ROOT_TIER = "rootless", "root"


def inside() -> bool:
    """Whether this process is in there."""
    return MARK in os.environ


def tier() -> str:
    """The tier of the boxes that this process makes."""
    return TIER if inside() else ROOT_TIER


def ssh_config() -> str:
    """The ssh settings for reaching the hosts of the box, from outside or from in there."""
    words = (sys.executable, "-IS", str(Path(__file__).with_name("dial.py")), os.environ[MARK])
    command = shlex.join(words).replace("%", "%%")
    return f"Host *\n    ProxyCommand {command} %h %p\n"
