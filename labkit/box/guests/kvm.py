"""KVM: whether it boots a guest on this machine, found by trying; the answer is kept until reboot.

All that differs under KVM is here and in `guest_kvm.sh`. No machine that labkit was made on has a
KVM that boots guests: `labkit doctor --guests` tries it on the reader's.
"""

import os
import stat
import subprocess
import tempfile
from pathlib import Path

from labkit.box.folder import Tell
from labkit.box.guests import image, kernel
from labkit.box.guests.image import Archive
from labkit.box.processes import ENVIRONMENT
from labkit.box.rootless.inside import inside

PROGRAMS = ("qemu-system-x86_64", "setpriv")

DEVICE = Path("/dev/kvm")
BOOT = Path("/proc/sys/kernel/random/boot_id")
NOBODY = 65534
TRIAL_SECONDS = 20.0
SIGN = b"labkit-kernel-is-up"
# When the first process has ended, the kernel reboots, and QEMU ends.
TRIAL = b"#!/bin/sh\necho " + SIGN + b"\n"
WORKS = "KVM boots guests"
MEND = f"sudo chmod 666 {DEVICE}"
NO_TRIAL = "KVM is there, and no guest was booted yet"


def refusal(tell: Tell) -> str:
    """The reason why no guest comes up under KVM; empty where one does.

    That its device opens does not show it.
    """
    if reason := closed():
        return reason
    boot = BOOT.read_text().strip()
    if last_trial(boot) is None:
        tell("trying whether KVM boots a guest; the answer is kept")
        answers().parent.mkdir(parents=True, exist_ok=True)
        answers().write_text(f"{boot} {_last_words()}")
    return _refusal(last_trial(boot))


def _refusal(words: str | None) -> str:
    return f"{DEVICE} opens and boots no guest: {words}" if words else ""


def closed() -> str:
    """The reason why guests may not open the device of KVM; empty where they may."""
    try:
        has = DEVICE.stat()
    except OSError:
        return f"no {DEVICE}"
    group = 0 if inside() else stat.S_IRGRP | stat.S_IWGRP  # no group of the machine is in there
    for bits in (group, stat.S_IROTH | stat.S_IWOTH):
        if bits and has.st_mode & bits == bits:
            return ""
    return f"no permission for {DEVICE}"


def last_trial(boot: str) -> str | None:
    """The last words of the trial since the machine booted: none if it worked, None without one."""
    words = answers().read_text().partition(" ") if answers().exists() else ("", "", "")
    return words[2].strip() if words[0] == boot else None


def answers() -> Path:
    """The file that keeps them."""
    return kernel.cache() / "kvm-answer"


def state() -> tuple[bool | None, str, str]:
    """Whether it works as far as is known, in words, and the command that mends it, if any."""
    if reason := closed():
        return False, reason, MEND if DEVICE.exists() else ""
    words = last_trial(BOOT.read_text().strip())
    if words is None:
        return None, NO_TRIAL, "labkit doctor --guests"
    return not words, _refusal(words) or WORKS, ""


# As the guests of a box run: as somebody who has nothing but the group of the device.
def _last_words(accelerator: str = "kvm") -> str:
    guest_kernel = kernel.find()
    assert guest_kernel
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        root = Path(folder) / "root.cpio"
        archive = Archive()
        archive.files({"/init": TRIAL})
        root.write_bytes(image.path(guest_kernel, lambda _: None).read_bytes() + archive.whole())
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                f"--groups={DEVICE.stat().st_gid}"]  # fmt: skip
        words = [
            *(user if os.geteuid() == 0 and not inside() else []),
            "qemu-system-x86_64", "-accel", accelerator, "-machine", "q35", "-cpu", "max",
            "-m", "256", "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
            "-no-reboot", "-kernel", str(guest_kernel.image), "-initrd", str(root),
            "-append", "console=ttyS0 quiet panic=-1",
        ]  # fmt: skip
        trial = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
        )  # fmt: skip
        try:
            text, _ = trial.communicate(timeout=TRIAL_SECONDS)
            missing = "QEMU ended"
        except subprocess.TimeoutExpired as late:
            text, missing = late.stdout or b"", f"nothing heard for {TRIAL_SECONDS:g} s"
        finally:
            trial.kill()
            trial.wait()
    if SIGN in text:
        return ""
    last = text.decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(last) if line.strip()), missing)[:200]
