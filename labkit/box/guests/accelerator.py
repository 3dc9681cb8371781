"""The choice of what runs a guest: KVM, User-Mode Linux, or QEMU by emulation."""

import functools
import os
import shutil

from labkit.box import needs
from labkit.box.folder import Tell
from labkit.box.guests import image, kernel, kvm
from labkit.box.topology import AUTO, HOST_ROOT, Topology
from labkit.errors import BoxError, Unknown

QEMU = "qemu-system-x86_64"
VARIABLE = "LABKIT_ACCELERATOR"
CHOICES = (AUTO, "kvm", "uml", "tcg")
"""Its values; `labkit box up --accelerator` sets it."""


def preferred() -> str:
    """The accelerator that this process is asked to use wherever a guest leaves a choice."""
    kind = os.environ.get(VARIABLE) or AUTO
    if kind not in CHOICES:
        raise Unknown(f"accelerator in {VARIABLE}", kind, CHOICES)
    return kind


def choice(kind: str, tell: Tell) -> str:
    """The accelerator for a guest that asked for one; empty where nothing here can run it."""
    if kind == AUTO:
        return _automatic(preferred(), tell)
    if kind == "uml":
        return "" if needs.NEEDS["guest"].absent else "uml"
    if reason := lacking():
        no_qemu = not shutil.which(QEMU, path=needs.SEARCH_PATH)
        hint = needs.how_to_get(needs.NEEDS["qemu"].package) if no_qemu else kernel.HINT
        raise BoxError("guests of QEMU cannot be made here", said=reason, hint=hint)
    if kind == "qemu" and (preferred() == "tcg" or (preferred() != "kvm" and kvm.refusal(tell))):
        return "tcg"
    if kind != "tcg" and (reason := kvm.refusal(tell)):
        hint = kvm.MEND if kvm.closed() else 'accelerator = "auto" uses whatever works'
        raise BoxError("KVM does not boot a guest on this machine", said=reason, hint=hint)
    return "tcg" if kind == "tcg" else "kvm"


# A guest of QEMU for which nothing is asked has its host's files, as one of User-Mode Linux has.
def _automatic(kind: str, tell: Tell) -> str:
    if kind == "uml":
        return choice(kind, tell)
    able = _shares_files()
    if kind != AUTO and not able:
        reason = lacking() or "no kernel that can be read shares a host's files with a guest (9p)"
        raise BoxError(f"guests cannot be run by {kind} here", said=reason, hint=kernel.HINT)
    if kind != AUTO:
        return choice(kind, tell)
    reason = kvm.refusal(tell) if able else ""
    if able and not reason:
        return "kvm"
    fallback = choice("uml", tell) or ("tcg" if able else "")
    if reason and kvm.DEVICE.exists():
        mend = f" (to get KVM: {kvm.MEND})" if kvm.closed() else ""
        tell(f"{reason}: guests by {fallback}{mend}")
    return fallback


@functools.cache
def _shares_files() -> bool:
    return not lacking() and kernel.find(*kernel.SHARING) is not None


def lacking() -> str:
    """The part that is missing for guests of QEMU; empty if nothing is."""
    if not shutil.which(QEMU, path=needs.SEARCH_PATH):
        return f"no {QEMU}: package qemu-system-x86"
    if not kernel.find():
        return f"no kernel that can be read, in /boot or {kernel.FETCHES}"
    return ""


def files(made_of: Topology, tell: Tell) -> tuple[str, str, str]:
    """Kernel of the guests of QEMU, the root of some, and what loads the drivers of the others."""
    guests = [guest for guest in made_of.guests if guest.accelerator != "uml"]
    if not guests:
        return "", "", ""
    kinds = {guest.nic for guest in guests} - {"virtio"}
    sharers = [guest for guest in guests if guest.root == HOST_ROOT]
    guest_kernel = kernel.find(*kinds, *(kernel.SHARING if sharers else ()))
    if not guest_kernel:
        raise BoxError(f"no kernel here drives a guest's NIC of kind {', '.join(kinds)}",
                       hint=kernel.HINT)  # fmt: skip
    root = str(image.path(guest_kernel, tell)) if len(sharers) < len(guests) else ""
    return (
        str(guest_kernel.image),
        root,
        str(image.path(guest_kernel, tell, loader=True)) if sharers else "",
    )
