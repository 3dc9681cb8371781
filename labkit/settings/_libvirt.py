"""Ways on KVM: libvirt's `virsh`, or the QMP socket of a QEMU that nobody manages."""

import json
from collections.abc import Callable

from labkit.machine.scripts import beside
from labkit.setting import Details, Way, Words
from labkit.settings._ways import PICK, RESTART, ROOT, on_or_off, picked, script

PROGRAMS = ("python3", "virsh")

# What virsh shows of a machine that is defined, running or not.
QUIET = "-q"
# QMP commands, one after another; of the answer to the last one, what was asked for is printed.
QMP = """\
import json, socket, sys
_, path, asked_for, *told = sys.argv
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(10)
    s.connect(path)
    lines = s.makefile()
    lines.readline()
    for asked in ['{"execute": "qmp_capabilities"}', *told]:
        s.sendall(asked.encode())
        said = {}
        while 'return' not in said and 'error' not in said:
            said = json.loads(lines.readline())
        if 'error' in said:
            sys.exit(said['error']['desc'])
found = said['return']
if isinstance(found, list):
    found = {one['capability']: one['state'] for one in found}
if asked_for:
    print(json.dumps(found[asked_for]))
"""
# What the definition says; a machine that we stopped and have not started again is part of it.
DEFINITION = (
    PICK
    + """ || exit
[ ! -e "/run/labkit-ran-$vm" ] || echo stopped"""
)
# A machine that runs is shut down by its own system, never by pulling the plug.
RESTART_SCRIPT = beside(__file__, "_libvirt_restarted.sh")
# `pins VM` shows a line of the CPUs of a machine and one of its emulator's; `pin VM N CPUS...` sets
# those of N CPUs and of the emulator; `each_cpu` writes a list such as 0-3 as lines.
PINNED_TO = beside(__file__, "_libvirt_pins.sh")


def of_virsh(program: str, shows: Words, writes: Callable[[str], tuple[Words, ...]]) -> Way:
    """Way to a line of virsh's output about a running machine, in force until it stops."""
    return Way(
        picked(program, "virsh", QUIET, *shows), writes, needs=ROOT, more=Details(seconds=0.5)
    )


def virsh(*words: str) -> Words:
    """One virsh command."""
    return ("virsh", QUIET, *words)


def of_definition(program: str, shows: Words, vm: str, writes: Callable[[str], list[str]]) -> Way:
    """Way to what a machine has at its next start; one that runs is shut down and started again."""
    return Way(
        script(f"vm=$1; shift; {DEFINITION}", vm, program, "virsh", QUIET, *shows),
        lambda value: (script(RESTART_SCRIPT, vm, *writes(value)),),
        needs=RESTART,
        more=Details(persists=True, seconds=60),
    )  # fmt: skip


def of_parameter(vm: str, name: str) -> Way:
    """One of QEMU's migration parameters, by its socket, until the machine stops."""
    return Way(
        qmp(vm, "query-migrate-parameters", asked_for=name),
        lambda value: (qmp(vm, "migrate-set-parameters", {name: int(value)}),),
        needs=ROOT,
        more=Details(seconds=0.3),
    )  # fmt: skip


def of_capability(vm: str, name: str) -> Way:
    """Whether QEMU uses one of its abilities to migrate, by its socket."""

    def tell(value: str) -> tuple[Words, ...]:
        capability = {"capability": name, "state": value == "on"}
        return (qmp(vm, "migrate-set-capabilities", {"capabilities": [capability]}),)

    return Way(
        qmp(vm, "query-migrate-capabilities", asked_for=name), tell,
        lambda text: on_or_off(text.strip() == "true"), needs=ROOT,
        more=Details(seconds=0.3),
    )  # fmt: skip


def qmp(socket: str, execute: str, arguments: object = None, asked_for: str = "") -> Words:
    """A QMP command, sent to the socket by the host's Python."""
    command = {"execute": execute} | ({"arguments": arguments} if arguments else {})
    return ("python3", "-c", QMP, socket, asked_for, json.dumps(command))
