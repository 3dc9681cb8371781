"""Making and ending a box as a user who may use sudo: labkit runs itself again as root for it."""

import os
import shutil
import subprocess
import sys

from labkit.box.folder import Tell
from labkit.errors import BoxError

PROGRAMS = ("sudo",)

SECONDS = 5.0


def works() -> bool:
    """Whether sudo lets this user do things as root without a password."""
    if os.geteuid() == 0 or not shutil.which("sudo"):
        return False
    try:
        result = subprocess.run(["sudo", "-n", "true"], capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def possible() -> bool:
    """Whether sudo could work, asking for a password on the terminal if it must."""
    return works() or bool(shutil.which("sudo") and sys.stdin.isatty() and sys.stderr.isatty())


def box(verb: str, name: str, tell: Tell, *options: str) -> None:
    """Have `labkit box VERB` done as root; the files of the box become this user's."""
    tell(f"box {verb} needs root: using sudo")
    # As root nothing is imported from the folder in which somebody happens to be (-P).
    words = ["sudo", *([] if sys.stdin.isatty() else ["-n"])]
    words += [sys.executable, "-P", "-m", "labkit"]
    # sudo asks on the terminal itself, so nothing of its question is lost here.
    result = subprocess.run(
        [*words, "box", verb, *options, "--name", name, "--json"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if result.returncode:
        raise BoxError(f"box {verb} did not work through sudo", said=result.stderr)
