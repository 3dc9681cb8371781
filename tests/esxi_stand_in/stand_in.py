"""A stand-in for an ESXi host: a real sshd whose every command runs in a BusyBox of its own.

It is no ESXi. It answers the commands that labkit uses, in the words of public captures of ESXi 6
to 8, and keeps what it is told. Where no capture shows the wording (refusals above all), the words
are ours. What it cannot show is whether a real host behaves so: none has run these settings yet.

Commands are rooted in a folder with BusyBox, `esxcli`, `vim-cmd`, `esxtop`, a datastore, and
nothing else that a Linux host would have: no /proc, no /sys, no bash, no GNU tools on the PATH.
"""

import os
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sshd import reached, serving

PROGRAMS = ("busybox", "esxcli", "mount", "setpriv", "unshare")

HERE = Path(__file__).parent
OURS = ("esxcli", "vim-cmd", "esxtop")
# Nothing in the stand-in can stop the machine below it, neither by a tool nor by a call.
NOT_OURS = ("reboot", "halt", "poweroff", "init", "linuxrc")
# Bound inside for the programs behind the commands; ESXi has a Python as well.
MACHINE = tuple(dict.fromkeys(["/usr", sys.base_prefix]))
ENTER = """\
for place in {machine}; do mount --bind "$place" {root}"$place" || exit; done
mount --rbind /dev {root}/dev &&
exec setpriv --bounding-set=-sys_boot,-sys_module chroot {root} \\
    /usr/bin/env -i HOME=/ PATH=/bin TERM=dumb /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""


@dataclass(frozen=True)
class StandIn:
    """A running stand-in: the host, as labkit reaches it, and its root as this machine sees it."""

    host: object
    root: Path

    def vmx(self, name):
        """The description of a virtual machine, as it is on the datastore."""
        return self.root / f"vmfs/volumes/datastore1/{name}/{name}.vmx"


@contextmanager
def standing_in(folder):
    """A stand-in whose state lives in `folder` alone; skips, and says why, where none can be."""
    if not shutil.which("busybox"):
        pytest.skip("no busybox; to get it: make system-test")
    words = ["unshare", "--mount", "--propagation", "private", "true"]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no root here who may make mount namespaces")
    root = folder / "root"
    _fill(root)
    with serving(folder) as server:
        _force(folder, root)
        with reached(server.address()) as host:
            yield StandIn(host, root)


def _fill(root):
    for place in ("bin", "dev", "tmp", "var/lib", "var/log", "etc/vmware", *MACHINE):
        (root / place.strip("/")).mkdir(parents=True, exist_ok=True)
    for name in ("lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    applets = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
    for name in applets.stdout.split():
        if name not in (*OURS, *NOT_OURS, "nc"):
            (root / "bin" / name).symlink_to(shutil.which("busybox"))
    # BusyBox has it, Debian's leaves it out; whether that of ESXi has it is not known.
    if not (root / "bin/cksum").exists():
        (root / "bin/cksum").symlink_to(shutil.which("cksum"))
    python = os.path.realpath(sys.executable)
    shutil.copytree(HERE, root / "opt/stand_in", ignore=shutil.ignore_patterns("__pycache__"))
    programs = {name: f"esxi.py {name}" for name in OURS} | {"nc": "nc.py"}
    for name, behind in programs.items():
        program = root / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {python} -I -S /opt/stand_in/{behind} "$@"\n')
        program.chmod(0o755)
    words = [python, "-I", "-S", str(HERE / "esxi.py"), "new", str(root)]
    subprocess.run(words, check=True)


# In authorized_keys, a command is what every login with that key runs.
def _force(folder, root):
    enter = folder / "enter"
    machine = " ".join(map(shlex.quote, MACHINE))
    enter.write_text(ENTER.format(machine=machine, root=shlex.quote(str(root))))
    words = f"exec unshare --mount --propagation private /bin/sh {shlex.quote(str(enter))}"
    keys = folder / "authorized"
    keys.write_text(f'command="{words}" {keys.read_text()}')
