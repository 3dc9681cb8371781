"""Options of ESXi by the names they have there, for what no other setting says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Details, Way
from labkit.settings._esxi import MODULE, of_advanced, of_kernel, since_boot
from labkit.settings._ways import OnHost, matching, named, on_or_off, script

PROGRAMS = ("esxcli",)

NONE = "none"
# A value may be empty, so columns are found by the dashes below their heads.
OPTIONS = beside(__file__, "esxi_options.sh")


@dataclass(frozen=True)
class KernelOption(OnHost):
    """A switch of ESXi's kernel by its name, such as hyperthreadingMitigation."""

    name: str
    on: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("setting of the kernel", self.name, r"[A-Za-z][A-Za-z0-9]{1,60}", "iovDisableIR")

    @property
    def which(self) -> str:
        """The name."""
        return self.name

    @property
    def wanted(self) -> str:
        """On or off."""
        return on_or_off(self.on)

    def on_esxi(self, host: Host) -> Way:
        """The configured value; the old one runs until the next start."""
        return of_kernel(self.name)


@dataclass(frozen=True)
class ModuleOptions(OnHost):
    """All options of a driver of ESXi: `InterruptThrottleRate=0,0`, `max_vfs=8,8`, `RSS=4`.

    Options are set together: those that are not named go back to the driver's own.
    """

    module: str
    options: tuple[str, ...]

    elsewhere: ClassVar = {
        "linux": "drivers of the kernel have them elsewhere: Coalescing, NicQueues, Sriov"
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        named("module", self.module)
        for one in self.options:
            matching("option of a driver", one, r"[A-Za-z]\w*=[\w,.]+", "max_vfs=8,8")

    @property
    def which(self) -> str:
        """The module."""
        return self.module

    @property
    def wanted(self) -> str:
        """The options, in the order of their names."""
        return " ".join(sorted(self.options)) or NONE

    def on_esxi(self, host: Host) -> Way:
        """The configured options; the old ones run until the next start."""
        return since_boot(f"options-{self.module}", Way(
            script(OPTIONS, self.module),
            lambda value: ((*MODULE, "set", "-m", self.module, "-p", value.replace(NONE, "")),),
            lambda text: " ".join(sorted(text.split())) or NONE,
            more=Details(seconds=1),
        ))  # fmt: skip


@dataclass(frozen=True)
class AdvancedOption(OnHost):
    """Any other advanced option of ESXi by its path, a number or a text."""

    path: str
    value: int | str

    elsewhere: ClassVar = {"linux": "there it is Sysctl"}

    def __post_init__(self) -> None:
        super().__post_init__()
        matching("advanced option", self.path, r"/[A-Z][A-Za-z0-9]+/[A-Za-z0-9]+", "/Net/UseHwTSO")
        if not isinstance(self.value, int):
            matching("value", self.value, r"[A-Za-z0-9][A-Za-z0-9 _.,-]*", "High Performance")

    @property
    def which(self) -> str:
        """The path."""
        return self.path

    @property
    def wanted(self) -> str:
        """The value."""
        return str(self.value)

    def on_esxi(self, host: Host) -> Way:
        """Most take effect at once; the description of the others says REQUIRES REBOOT."""
        return of_advanced(self.path, text=isinstance(self.value, str))
