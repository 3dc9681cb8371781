"""What a KVM host needs before it measures: hardware virtualization, a libvirt, its guests."""

from collections.abc import Iterator

from labkit.check import OK, WARNING, Check, Finding, Subject

PROGRAMS = ("modprobe", "virsh")

DEVICE = """\
[ ! -c /dev/kvm ] || echo kvm
ls /sys/kernel/iommu_groups 2>/dev/null | head -n 1 | sed 's/.*/iommu/'
cat /sys/class/net/*/device/sriov_totalvfs 2>/dev/null | sort -n | tail -n 1 | sed 's/^/vfs=/'"""
LIST = "virsh -q list --all --name 2>&1"


def _look(place: Subject) -> Iterator[Finding]:
    # A client only asks, whatever is installed there; a box runs its guests in its own way.
    if place.role == "client" or place.lab.emulated:
        return
    if not place.host.guests:
        yield Finding(OK, f"none of its guests is in {place.lab.path} (vm = ...)")
        return
    device = place.shown(DEVICE).split()
    if "kvm" in device:
        yield Finding(OK, "/dev/kvm exists (only a guest that boots shows that it works)")
    else:
        yield Finding(WARNING, "no /dev/kvm: guests are emulated", fix="modprobe kvm_intel || "
                      "modprobe kvm_amd   # and VT-x or AMD-V on in the BIOS")  # fmt: skip
    functions = next((word[4:] for word in device if word.startswith("vfs=")), "")
    if "iommu" in device:
        addition = f"; a NIC has up to {functions} virtual functions" if functions else ""
        yield Finding(OK, f"an IOMMU is on{addition}")
    else:
        yield Finding(WARNING, "no IOMMU: no device can be passed to a guest",
                      fix="intel_iommu=on iommu=pt on the kernel's command line, VT-d on in the "
                      "BIOS")  # fmt: skip
    yield from _guests(place)


def _guests(place: Subject) -> Iterator[Finding]:
    result = place.host.run("sh", "-c", LIST, seconds=10)
    if not result.ok:
        yield Finding(WARNING, "libvirt does not answer", result.stdout, "systemctl start libvirtd")
    else:
        names = ", ".join(result.stdout.split())
        yield Finding(OK if names else WARNING, f"guests: {names or 'none'}",
                      fix="" if names else "virt-install --help")  # fmt: skip


check = Check("the KVM host is ready", _look, after="kind", kinds=("kvm",))
