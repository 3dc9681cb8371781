"""The choice of what runs a guest: KVM, User-Mode Linux, or QEMU by emulation."""

import functools
import os
import shutil

from labkit.box import needs
from labkit.box.folder import Tell
from labkit.box.guests import image, kernel, kvm
from labkit.box.guests.guest_plan import AUTO, HOST_ROOT
from labkit.box.topology import Topology
from labkit.errors import BoxError, Unknown

QEMU = "qemu-system-x86_64"
VARIABLE = "LABKIT_ACCELERATOR"
CHOICES = (AUTO, "kvm", "uml", "tcg")
"""Its values; `labkit box up --accelerator` sets it."""


def preferred() -> str:
    """The accelerator that this process is asked to use wherever a guest leaves a choice."""
    asked = os.environ.get(VARIABLE) or AUTO
    if asked not in CHOICES:
        raise Unknown(f"accelerator in {VARIABLE}", asked, CHOICES)
    return asked


def choice(asked: str, tell: Tell) -> str:
    """The accelerator for a guest that asked for one; empty where nothing here can run it."""
    if asked == AUTO:
        return _automatic(preferred(), tell)
    if asked == "uml":
        return "" if needs.NEEDS["guest"].absent else "uml"
    if why := lacking():
        no_qemu = not shutil.which(QEMU, path=needs.SEARCHED)
        hint = needs.how_to_get(needs.NEEDS["qemu"].package) if no_qemu else kernel.HINT
        raise BoxError("guests of QEMU cannot be made here", said=why, hint=hint)
    if asked == "qemu" and (preferred() == "tcg" or (preferred() != "kvm" and not kvm.works(tell))):
        return "tcg"
    if asked != "tcg" and (why := kvm.refusal(tell)):
        hint = kvm.MEND if kvm.closed() else 'accelerator = "auto" uses whatever works'
        raise BoxError("KVM does not boot a guest on this machine", said=why, hint=hint)
    return "tcg" if asked == "tcg" else "kvm"


# A guest of QEMU for which nothing is asked has its host's files, as one of User-Mode Linux has.
def _automatic(wanted: str, tell: Tell) -> str:
    if wanted == "uml":
        return choice(wanted, tell)
    able = _shares_files()
    if wanted != AUTO and not able:
        why = lacking() or "no kernel that can be read shares a host's files with a guest (9p)"
        raise BoxError(f"guests cannot be run by {wanted} here", said=why, hint=kernel.HINT)
    if wanted != AUTO:
        return choice(wanted, tell)
    why = kvm.refusal(tell) if able else ""
    if able and not why:
        return "kvm"
    fallback = choice("uml", tell) or ("tcg" if able else "")
    if why and kvm.DEVICE.exists():
        mend = f" (to get KVM: {kvm.MEND})" if kvm.closed() else ""
        tell(f"{why}: guests by {fallback}{mend}")
    return fallback


@functools.cache
def _shares_files() -> bool:
    return not lacking() and kernel.find(*kernel.SHARING) is not None


def lacking() -> str:
    """The part that is missing for guests of QEMU; empty if nothing is."""
    if not shutil.which(QEMU, path=needs.SEARCHED):
        return f"no {QEMU}: package qemu-system-x86"
    if not kernel.find():
        return f"no kernel that can be read, in /boot or {kernel.FETCHED}"
    return ""


def files(made_of: Topology, tell: Tell) -> tuple[str, str, str]:
    """Kernel of the guests of QEMU, the root of some, and what loads the drivers of the others."""
    emulated = [guest for guest in made_of.guests if guest.accelerator != "uml"]
    if not emulated:
        return "", "", ""
    kinds = {guest.nic for guest in emulated} - {"virtio"}
    shared = [guest for guest in emulated if guest.root == HOST_ROOT]
    guest_kernel = kernel.find(*kinds, *(kernel.SHARING if shared else ()))
    if not guest_kernel:
        raise BoxError(f"no kernel here drives a guest's NIC of kind {', '.join(kinds)}",
                       hint=kernel.HINT)  # fmt: skip
    root = str(image.path(guest_kernel, tell)) if len(shared) < len(emulated) else ""
    return (
        str(guest_kernel.image),
        root,
        str(image.path(guest_kernel, tell, loader=True)) if shared else "",
    )
