"""Machines of QEMU that tests boot by themselves: what all of them begin with."""

import subprocess
import threading
from contextlib import contextmanager

from labkit.box.guests import accelerator, image, kernel, kvm
from labkit.box.sshd import sshd_config
from labkit.box.view import PASSWD

PROGRAMS = ("busybox", "insmod", "mount", "qemu-system-x86_64")

INIT = """\
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
"""
LOAD = """\
while read -r module; do
    insmod "/lib/modules/$module" 2> /dev/null || busybox insmod "/lib/modules/$module"
done < /lib/modules/order
"""
INIT += LOAD
QUIET = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on"


def with_login(archive, own, user):
    """Add what sshd needs, of whose key it is, for who has the other key to log in as root."""
    archive.files({
        "/run/labkit/sshd_config": sshd_config("0.0.0.0").encode(),
        "/run/labkit/host_key": own.private, "/run/labkit/authorized_keys": user.encode(),
        "/etc/passwd": PASSWD.encode(), "/etc/group": b"root:x:0:\nnogroup:x:65534:\n",
        "/etc/shadow": b"root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n",
    }, 0o600)  # fmt: skip
    return archive


def first_root(file, archive):
    """Write the first root of a machine: the usual one of guests, with more on top of it."""
    file.write_bytes(image.path(kernel.find(), lambda _: None).read_bytes() + archive.whole())


def words(first, mebibytes, *more, text="", machine="q35", threads=""):
    """The command of a machine with a first root, and what else it has."""
    how = f"tcg{threads}" if kvm.refusal(lambda _: None) else "kvm"
    return [
        accelerator.QEMU, "-accel", how, "-machine", machine, "-cpu", "max", "-m", str(mebibytes),
        "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
        "-kernel", kernel.find().image, "-initrd", first, "-append", f"{QUIET} {text}", *more,
    ]  # fmt: skip


@contextmanager
def powered(command, seconds):
    """The lines that a machine prints; its power is cut at the end, or after so many seconds."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        late = threading.Timer(seconds, process.kill)
        late.start()
        try:
            yield process.stdout
        finally:
            late.cancel()
            process.kill()
