"""What a host of guests needs before it measures: a KVM host, and an ESXi host."""

import re
from collections.abc import Iterator

from labkit.check import OK, WARNING, Finding, Subject, check

PROGRAMS = ("esxcli", "modprobe", "vim-cmd", "virsh")

DEVICE = """\
[ ! -c /dev/kvm ] || echo kvm
ls /sys/kernel/iommu_groups 2>/dev/null | head -n 1 | sed 's/.*/iommu/'
cat /sys/class/net/*/device/sriov_totalvfs 2>/dev/null | sort -n | tail -n 1 | sed 's/^/vfs=/'"""
LIST = "virsh -q list --all --name 2>&1"
POLICY = ("esxcli", "system", "settings", "advanced", "list", "-o", "/Power/CpuPolicy")
BEST = "High Performance"


@check("the KVM host is ready", after="kind", kinds=("kvm",))
def kvm(place: Subject) -> Iterator[Finding]:
    """Has a KVM host hardware virtualization, a libvirt, and its guests?"""
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
        fix = "modprobe kvm_intel || modprobe kvm_amd   # and VT-x or AMD-V on in the BIOS"
        yield Finding(WARNING, "no /dev/kvm: guests are emulated", fix=fix)
    functions = next((word[4:] for word in device if word.startswith("vfs=")), "")
    if "iommu" in device:
        addition = f"; a NIC has up to {functions} virtual functions" if functions else ""
        yield Finding(OK, f"an IOMMU is on{addition}")
    else:
        fix = "intel_iommu=on iommu=pt on the kernel's command line, VT-d on in the BIOS"
        yield Finding(WARNING, "no IOMMU: no device can be passed to a guest", fix=fix)
    result = place.host.run("sh", "-c", LIST, seconds=10)
    if not result.ok:
        yield Finding(WARNING, "libvirt does not answer", result.stdout, "systemctl start libvirtd")
    elif names := ", ".join(result.stdout.split()):
        yield Finding(OK, f"guests: {names}")
    else:
        yield Finding(WARNING, "guests: none", fix="virt-install --help")


@check("the ESXi host is ready", after="kind", kinds=("esxi",))
def esxi(place: Subject) -> Iterator[Finding]:
    """Does an ESXi host keep its CPUs awake, and has it guests?"""
    policy = place.host.run(*POLICY, seconds=20)
    match = re.search(r"^ *String Value: *(.*)$", policy.stdout, re.MULTILINE)
    if not match:
        problem, answer = "its power policy cannot be read", policy.stderr or policy.stdout
        yield Finding(WARNING, problem, answer, " ".join(POLICY))
    elif match[1].strip() != BEST:
        problem = f"power policy {match[1].strip()}: CPUs change their clock and sleep"
        fix = f"esxcli system settings advanced set -o /Power/CpuPolicy -s '{BEST}'"
        yield Finding(WARNING, problem, fix=fix)
    else:
        yield Finding(OK, f"power policy {BEST}")
    result = place.host.run("vim-cmd", "vmsvc/getallvms", seconds=20)
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    if names := [row[1] for row in rows if len(row) > 1 and row[0].isdigit()]:
        yield Finding(OK, f"virtual machines: {', '.join(names)}")
    else:
        yield Finding(WARNING, "no virtual machine", result.stderr, "vim-cmd vmsvc/getallvms")
