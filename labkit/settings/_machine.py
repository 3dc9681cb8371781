"""Settings of one virtual machine."""

from collections.abc import Callable
from dataclasses import field

from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._esxi import of_vmx
from labkit.settings._libvirt import of_virsh, virsh
from labkit.settings._values import NAMING, name
from labkit.settings._ways import OnHost, by


class OfMachine(OnHost):
    """A setting of the virtual machine of that name."""

    vm: str = field(metadata=NAMING | name("virtual machine"))


def of_lines(*keys: str, after: tuple[str, ...] = ()) -> Callable[[OfMachine, Host], Way]:
    """The way on ESXi of what is the value of such lines of a machine's description."""
    return by(
        lambda s: of_vmx(s.vm, s.wanted, dict.fromkeys(keys, s.wanted)).plus(Details(after=after))
    )


def of_option(program: str, command: str, *options: str) -> Callable[[OfMachine, Host], Way]:
    """The way on KVM of what one virsh command shows, and sets by options with the value in {}."""
    return by(
        lambda s: of_virsh(
            program, (command, s.vm),
            lambda value: (virsh(command, s.vm, *(word.format(value) for word in options)),),
        )
    )  # fmt: skip
