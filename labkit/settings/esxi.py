"""ESXi: options by the names that they have there, and the ways of settings in options and .vmx."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import ClassVar

from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way, Words
from labkit.settings._fields import matching, name, pattern, rule
from labkit.settings._ways import REBOOT, RESTART, ROOT, OnHost, by, picked, script, switched

PROGRAMS = ("esxcli", "vim-cmd")

ADVANCED = ("esxcli", "system", "settings", "advanced")
KERNEL = ("esxcli", "system", "settings", "kernel")
MODULE = ("esxcli", "system", "module", "parameters")
ABSENT = "absent"

# Finds the machine by its name: its number, and where its description is.
FIND = beside(__file__, "_esxi_found.sh")
# The lines of the named keys, as they are in the file; a key that is not there has none. A machine
# that we stopped and have not started again is part of what there is to put back.
SHOW = FIND + beside(__file__, "_esxi_shown.sh")
# The service that keeps the machines writes the description of a running one itself, so it is
# shut down first: by its own system, never by pulling the plug. Then: copy, edit, check, move.
EDIT_LINES = FIND + beside(__file__, "_esxi_edited.sh")


def of_advanced(path: str, *, text: bool = False) -> Way:
    """An advanced option of the host; a number, or a text."""
    field, flag = ("String Value", "-s") if text else ("Int Value", "-i")
    return Way(
        picked(f"s/^   {field}: //p", *ADVANCED, "list", "-o", path),
        lambda value: ((*ADVANCED, "set", "-o", path, flag, value),),
        needs=ROOT, persists=True, seconds=1,
    )  # fmt: skip


# Of a row the configured value, or the one that runs: a description stands before or behind them.
SWITCH = beside(__file__, "_esxi_kernel.sh")
SINCE_BOOT = beside(__file__, "_esxi_since_boot.sh")


def since_boot(name: str, way: Way) -> Way:
    """The same way for what only the host's next start brings, and nothing there shows as running.

    What ran before the first change is kept on the host until it starts again.
    """

    def tell(verb: str) -> Words:
        return script(SINCE_BOOT, name, verb, *way.reads)

    return replace(
        way, writes=lambda value: (tell("keep"), *way.writes(value), tell("drop")), needs=REBOOT,
        live=tell("show"), persists=True,
    )  # fmt: skip


def of_kernel(name: str) -> Way:
    """A setting of the kernel's start, on or off: what is configured, which counts from then on."""
    return switched(Way(
        script(SWITCH, name, "1"), lambda value: ((*KERNEL, "set", "-s", name, "-v", value),),
        needs=REBOOT, legal="on or off",
        live=script(SWITCH, name, "2"), persists=True, seconds=1,
    ), on="TRUE", off="FALSE")  # fmt: skip


def lines_of(text: str) -> dict[str, str]:
    """Lines that SHOW prints of a machine's description: values by their keys in small letters."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}


def edited(machine: str, lines: Mapping[str, str]) -> Words:
    """The command that gives lines of a description these values; an empty one removes a line."""
    words = ((key, f'{key} = "{value}"' if value else "") for key, value in lines.items())
    return script(EDIT_LINES, quoted(machine), *chain.from_iterable(words))


def of_vmx(
    machine: str, goal: str, lines: Mapping[str, str | None], after: tuple[str, ...] = ()
) -> Way:
    """Lines of a machine's description, which together are `goal`; None is for no such line.

    Edited while the machine is off; one that runs is shut down and started again.
    """
    wishes = _join_values({key.lower(): value for key, value in lines.items()}, lines)

    def value(text: str) -> str:
        values = lines_of(text)
        state = _join_values(values, lines)
        if "stopped" in values:
            return f"{state}, and stopped"
        return goal if state == wishes else state

    def writes(value: str) -> tuple[Words, ...]:
        words = _split(wishes if value == goal else value, lines)
        pairs = (word.partition("=") for word in words)
        return (edited(machine, {key: "" if new == ABSENT else new for key, _, new in pairs}),)

    return Way(
        script(SHOW, quoted(machine), *lines), writes, value,
        needs=RESTART, persists=True, settle_seconds=1, seconds=60, after=after,
    )  # fmt: skip


def _join_values(values: Mapping[str, str | None], lines: Mapping[str, str | None]) -> str:
    texts = {key: values.get(key.lower()) for key in lines}
    return ", ".join(f"{key}={ABSENT if value is None else value}" for key, value in texts.items())


# Values may have blanks and commas in them, so only the known keys part them.
def _split(value: str, keys: Mapping[str, str | None]) -> list[str]:
    parts: list[str] = []
    for word in value.split(", "):
        if word.partition("=")[0] in keys or not parts:
            parts.append(word)
        else:
            parts[-1] += f", {word}"
    return parts


# A name stands in a pattern of sed.
def quoted(text: str) -> str:
    """A machine's name as FOUND looks for it."""
    return text.replace(".", r"\.")


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
