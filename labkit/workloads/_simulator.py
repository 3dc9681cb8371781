"""govmomi's vcsim for hosts: that of this machine, or one that Go builds here once."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from labkit.errors import BadInput
from labkit.programs.packages import brings

PROGRAMS = ("vcsim", "go")

SOURCE = "github.com/vmware/govmomi/vcsim@v0.46.3"
"""Later versions send pyVmomi what it cannot read."""
BUILD_SECONDS = 580


def lacking() -> str:
    """The reason why there is none and none can be built; empty if there can be one."""
    if shutil.which("vcsim") or shutil.which("go"):
        return ""
    return f"vcsim is missing on this machine, to get it: {brings('go')}, then go install {SOURCE}"


# Go's own caches keep its parts, so that to build it again takes seconds.
@functools.cache
def vcsim() -> bytes:
    """The program, the same for all hosts."""
    if why := lacking():
        raise BadInput(why)
    if here := shutil.which("vcsim"):
        return Path(here).read_bytes()
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        built = subprocess.run(
            ["go", "install", SOURCE], env={**os.environ, "GOBIN": folder, "CGO_ENABLED": "0"},
            capture_output=True, text=True, timeout=BUILD_SECONDS,
        )  # fmt: skip
        if built.returncode:
            raise BadInput(f"Go cannot build {SOURCE}", said=built.stderr.strip()[-500:])
        return Path(folder, "vcsim").read_bytes()
