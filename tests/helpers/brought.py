"""What a workload needs on this machine: there, or brought once, or a reason to skip."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.errors import LabkitError
from labkit.host import Host
from labkit.programs.packages import SEARCH_PATH
from labkit.transports.local import Local

HERE = Host("here", "127.0.0.1", Local("here"))


def need(*programs):
    """Skip where one of these programs is missing."""
    for program in programs:
        if not shutil.which(program, path=SEARCH_PATH):
            pytest.skip(f"{program} is not installed")


def own_address(network):
    """An address of this process alone, so that servers of ours are told from any others."""
    return f"127.{network}.{os.getpid() % 250}.{1 + os.getpid() // 250 % 250}"


def commands():
    """The words of all processes."""
    return [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]


def run_program(file, *words, files=0, **how):
    """Run a program in Python, which may open so many files; 0: as many as this process."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
    return subprocess.run([sys.executable, file, *words], capture_output=True, text=True,
                          preexec_fn=limit, timeout=60, **how)  # fmt: skip


def bring(*loads):
    """Bring it; hosts of a box have it then, too."""
    for load in loads:
        try:
            if not load.there(HERE):
                load.install(HERE)
        except LabkitError as lacking:
            pytest.skip(f"no {load.brings.partition(' (')[0]}: {lacking.what}")
