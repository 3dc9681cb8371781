"""Options of ESXi by the names they have there, for what no other setting says."""

from collections.abc import Iterable
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._esxi import MODULE, of_advanced, of_kernel, since_boot
from labkit.settings._fields import matching, name, pattern, rule
from labkit.settings._ways import OnHost, by, script

PROGRAMS = ("esxcli",)

EMPTY = "none"
# A value may be empty, so columns are found by the dashes below their heads.
OPTIONS = beside(__file__, "esxi_options.sh")


class KernelOption(OnHost):
    """A switch of ESXi's kernel by its name, such as hyperthreadingMitigation."""

    name: str = pattern(
        "setting of the kernel", r"[A-Za-z][A-Za-z0-9]{1,60}", "iovDisableIR", which=True
    )
    on: bool
    on_esxi = by(lambda s: of_kernel(s.name))


def _check_options(options: tuple[str, ...]) -> None:
    for option in options:
        matching("option of a driver", option, r"[A-Za-z]\w*=[\w,.]+", "max_vfs=8,8")


def _sort(options: Iterable[str]) -> str:
    return " ".join(sorted(options)) or EMPTY


class ModuleOptions(OnHost):
    """All options of a driver of ESXi: `InterruptThrottleRate=0,0`, `max_vfs=8,8`, `RSS=4`.

    Options are set together: those that are not named go back to the driver's own.
    """

    module: str = name("module", which=True)
    options: tuple[str, ...] = rule(_check_options, _sort)
    gaps: ClassVar = {
        "linux": "drivers of the kernel have them elsewhere: Coalescing, NicQueues, Sriov"
    }

    def on_esxi(self, host: Host) -> Way:
        """The configured options; the old ones run until the next start."""
        return since_boot(f"options-{self.module}", Way(
            script(OPTIONS, self.module),
            lambda value: ((*MODULE, "set", "-m", self.module, "-p", value.replace(EMPTY, "")),),
            lambda text: _sort(text.split()), seconds=1,
        ))  # fmt: skip


def _check_value(value: object) -> None:
    if not isinstance(value, int):
        matching("value", value, r"[A-Za-z0-9][A-Za-z0-9 _.,-]*", "High Performance")


class AdvancedOption(OnHost):
    """Any other advanced option of ESXi by its path, a number or a text."""

    path: str = pattern(
        "advanced option", r"/[A-Z][A-Za-z0-9]+/[A-Za-z0-9]+", "/Net/UseHwTSO", which=True
    )
    value: int | str = rule(_check_value)
    gaps: ClassVar = {"linux": "there it is Sysctl"}
    # Most take effect at once; the description of the others says REQUIRES REBOOT.
    on_esxi = by(lambda s: of_advanced(s.path, text=isinstance(s.value, str)))
