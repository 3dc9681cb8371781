"""Settings of one virtual machine."""

from collections.abc import Callable
from dataclasses import field

from labkit.errors import Impossible
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._esxi import of_vmx
from labkit.settings._libvirt import of_virsh, virsh
from labkit.settings._values import NAMING
from labkit.settings._ways import OnHost, by, named


class OfMachine(OnHost):
    """A setting of the virtual machine `vm`: its name, or on KVM the path of its QMP socket."""

    vm: str = field(metadata=NAMING)

    def __post_init__(self) -> None:
        for part in self.vm[1:].split("/") if self.plain else [self.vm]:
            named("virtual machine", part)
        super().__post_init__()

    @property
    def plain(self) -> bool:
        """Whether it is a QEMU by itself, which no libvirt keeps."""
        return self.vm.startswith("/")

    @property
    def kept(self) -> str:
        """Its name in libvirt; a QEMU by itself has none, and not what libvirt does for one."""
        if self.plain:
            raise Impossible(
                f"{self.vm} is a QEMU by itself: it has no {type(self).__name__}",
                hint="name a machine that libvirt keeps",
            )
        return self.vm


def of_lines(*keys: str, after: tuple[str, ...] = ()) -> Callable[[OfMachine, Host], Way]:
    """The way on ESXi of what is the value of such lines of a machine's description."""
    return by(
        lambda s: of_vmx(s.vm, s.wanted, dict.fromkeys(keys, s.wanted)).plus(Details(after=after))
    )


def of_option(program: str, command: str, *options: str) -> Callable[[OfMachine, Host], Way]:
    """The way on KVM of what one virsh command shows, and sets by options with the value in {}."""
    return by(
        lambda s: of_virsh(
            program, (command, s.kept),
            lambda value: (virsh(command, s.kept, *(word.format(value) for word in options)),),
        )
    )  # fmt: skip
