"""Hosts that have few commands: a real sshd whose PATH is a folder of links."""

import shutil
from contextlib import contextmanager

import pytest
from sshd import reached, serving

PROGRAMS = ("busybox",)

TOOLS = [
    "sh", "cat", "dd", "find", "stat", "mkdir", "rm", "mv", "chmod", "df", "du", "sed", "cut", "wc",
    "sync", "tee", "id", "ls", "sha256sum", "cksum", "tar", "head", "sleep", "date", "kill",
    "test", "tail", "printf", "uname", "true",
]  # fmt: skip


@contextmanager
def only(folder, tools):
    """A host that has these commands, by name, and no others."""
    (folder / "bin").mkdir()
    for name, program in tools.items():
        (folder / "bin" / name).symlink_to(program)
    with poor(folder) as found:
        yield found


@contextmanager
def poor(folder):
    """A host whose commands are those in `folder`/bin."""
    only_there = [f"SetEnv HOME={folder} PATH={folder}/bin"]
    with serving(folder, extra=only_there) as server, reached(server.address()) as host:
        yield host


def system(*lacking):
    """This machine's own commands, without some."""
    return {
        name: shutil.which(name) for name in TOOLS if name not in lacking and shutil.which(name)
    }


def busybox():
    """The same, all of them BusyBox."""
    found = shutil.which("busybox") or pytest.skip("no busybox; to get it: make system")
    return dict.fromkeys(TOOLS, found)
