"""Accelerators that can run a guest on this machine, found by trying; a trial's answer is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from labkit.box import needs
from labkit.box.cgroup import ENVIRONMENT
from labkit.box.folder import Tell
from labkit.box.guests import image, kernel
from labkit.box.guests.cpio import Archive
from labkit.box.topology import Topology
from labkit.errors import BoxError

QEMU = "qemu-system-x86_64"
TRIAL_SECONDS = 20.0
SIGN = b"labkit-kernel-is-up"
TRIAL = b"#!/bin/sh\necho " + SIGN + b"\nexec sleep infinity\n"


def choice(asked: str, tell: Tell) -> str:
    """The accelerator for a guest that asked for one; empty where UML is asked and is not here."""
    if asked == "uml":
        return "" if needs.NEEDS["guest"].absent else "uml"
    if why := lacking():
        no_qemu = not shutil.which(QEMU, path=needs.SEARCHED)
        hint = needs.how_to_get(needs.NEEDS["qemu"].package) if no_qemu else kernel.HINT
        raise BoxError("guests of QEMU cannot be made here", said=why, hint=hint)
    if asked == "kvm" and not kvm_works(tell):
        raise BoxError(
            "KVM does not boot a guest on this machine",
            hint='accelerator = "qemu" uses whatever works',
        )
    if asked == "qemu":
        return "kvm" if kvm_works(tell) else "tcg"
    return asked


def lacking() -> str:
    """The part that is missing for guests of QEMU; empty if nothing is."""
    if not shutil.which(QEMU, path=needs.SEARCHED):
        return f"no {QEMU}: package qemu-system-x86"
    if not kernel.find():
        return f"no kernel that can be read, in /boot or {kernel.FETCHED}"
    return ""


def files(made_of: Topology, tell: Tell) -> tuple[str, str]:
    """Kernel and image for the guests of QEMU, where there are any."""
    if all(guest.accelerator == "uml" for guest in made_of.guests):
        return "", ""
    emulated = {guest.nic for guest in made_of.guests} - {"virtio"}
    found = kernel.find(*emulated)
    if not found:
        raise BoxError(f"no kernel here drives a guest's NIC of kind {', '.join(emulated)}",
                       hint=kernel.HINT)  # fmt: skip
    return str(found.image), str(image.path(found, tell))


def kvm_works(tell: Tell) -> bool:
    """Whether a guest really comes up under KVM: that /dev/kvm opens does not show it."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    answers = kernel.cache() / "kvm"
    kept = answers.read_text().split() if answers.exists() else []
    if kept[:1] != [boot]:
        tell("trying whether KVM boots a guest; the answer is kept")
        kept = [boot, "yes" if _boots() else "no"]
        answers.parent.mkdir(parents=True, exist_ok=True)
        answers.write_text(" ".join(kept))
    return kept[1] == "yes"


def _boots() -> bool:
    found = kernel.find()
    assert found
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root.cpio"
        own = Archive()
        own.files({"/init": TRIAL})
        root.write_bytes(image.path(found, lambda _: None).read_bytes() + own.whole())
        words = [
            QEMU, "-accel", "kvm", "-machine", "q35", "-cpu", "host", "-m", "256", "-nodefaults",
            "-no-user-config", "-display", "none", "-serial", "stdio", "-kernel", str(found.image),
            "-initrd", str(root), "-append", "console=ttyS0 quiet panic=-1",
        ]  # fmt: skip
        trial = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
        )  # fmt: skip
        try:
            said, _ = trial.communicate(timeout=TRIAL_SECONDS)
        except subprocess.TimeoutExpired as late:
            said = late.stdout or b""
        finally:
            trial.kill()
            trial.wait()
    return SIGN in said
