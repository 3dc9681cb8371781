"""The options that a Linux kernel starts with; they count from the next start on."""

from typing import ClassVar

from labkit.errors import BadInput
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.setting import Way
from labkit.settings._fields import matching, rule
from labkit.settings._ways import OWN_KERNEL, REBOOT, OnHost, script

DROP_IN = "/etc/default/grub.d/90-labkit.cfg"
LINE = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX %s"'
NO_WORDS = "none of ours"
SHOW = '[ ! -e "$1" ] || cat "$1"'
# The line that would have brought what the kernel was given, if it was given all of it.
LIVE = beside(__file__, "boot_live.sh")
ABLE = f"""\
{OWN_KERNEL}
command -v update-grub >/dev/null || {{ echo "no update-grub here" >&2; exit 1; }}"""
# Beside and then moved, so that the boot loader never sees half a file; the menu is made from it.
TELL = """\
if [ -z "$2" ]; then rm -f "$1"
else mkdir -p "${1%/*}" && printf '%s\\n' "$2" > "$1.new" && mv -f "$1.new" "$1"; fi &&
update-grub >&2"""


def _check_options(options: tuple[str, ...]) -> None:
    if not options or isinstance(options, str):
        raise BadInput(f"{options!r} names no boot option", hint='several are ("nohz=off", ...)')
    for option in options:
        matching("boot option", option, r"[A-Za-z][\w.-]*(=[\w.,:/@+-]+)?", "nohz=off")


class BootOptions(OnHost):
    """Options of the Linux kernel's command line, such as nohz=off or intel_idle.max_cstate=0.

    intel_idle.max_cstate=0 leaves idling to ACPI, which may sleep just as deeply.
    """

    options: tuple[str, ...] = rule(_check_options, " ".join)
    gaps: ClassVar = {"esxi": "there they are KernelOption and ModuleOptions"}

    def on_linux(self, host: Host) -> Way:
        """A drop-in of our own for Debian's boot loader, which its whole absence undoes."""
        return Way(
            script(SHOW, DROP_IN), lambda value: (script(TELL, DROP_IN, _line(value)),), _options,
            needs=REBOOT, probe=script(ABLE), persists=True, seconds=10,
            live=script(LIVE, _line(self.wanted), *self.options),
        )  # fmt: skip


def _line(value: str) -> str:
    return "" if value == NO_WORDS else LINE % value


def _options(text: str) -> str:
    head, tail = LINE.split("%s")
    line = text.strip()
    return line.removeprefix(head).removesuffix(tail) if line else NO_WORDS
