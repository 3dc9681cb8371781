"""Two hosts of a box as a cluster: Corosync and Pacemaker, of Debian, guard a management server.

Each host's part runs in namespaces of its own: to kill their first process is to take its power.
Its configuration is in their memory. Both have a disk. A host that takes it over takes the other's
power first, by an sshd that stands in for a management board.
"""

import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from string import Template

from labkit.errors import HostError
from labkit.fleet import together
from labkit.host import Host
from labkit.machine.scripts import beside
from labkit.programs import simulator
from labkit.settings import availability
from labkit.shop import kit

PROGRAMS = ("ip", "pgrep", "python3", "ssh-keygen", "unshare")

FOLDER = "/run/labkit-cluster"
"""All that a cluster of ours is made of on a host; its log is in it, its configuration too."""
CENTER = "center"
SHARED = "/run/labkit/scratch"
AUTHORIZED = "/run/labkit/authorized_keys"
DATABASE = f"{SHARED}/inventory"
OFF, NODE = beside(__file__, "_cluster_off.sh"), beside(__file__, "_cluster_node.sh")
AGENTS = {"server": "_cluster_server.sh", "fence_labkit": "_cluster_fence.sh"}
TEMPLATES = {"corosync.conf": "_cluster_corosync.conf", "cib.xml": "_cluster_cib.xml"}
FOREIGN = "corosync|pacemakerd"
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
START = f'echo $$ > {FOLDER}/pid && exec "$@"'
ALIVE = f"read -r holder < {FOLDER}/pid && [ -d /proc/$holder ]"
NOTE = re.compile(r"^(\w+) (?:.* )?(\d+\.\d+)$", re.MULTILINE)
FAILURE = re.compile(r"^failed (.*) \d+\.\d+$", re.MULTILINE)
LOOK_SECONDS = 0.2
USUAL_RETRANSMITS = 4
"""Corosync's own default."""
ASKED = f"""\
for file in {availability.WISHES}/*; do
    [ ! -e "$file" ] || echo "${{file##*/}}=$(cat "$file")"
done"""
MARK = "labkit-cluster"
"""Ends the line of a host's authorized key, by which it is found again."""
ADMIT = f'printf "%s\\n" "$1" >> {AUTHORIZED}'
EXPEL = f"""\
grep -v ' {MARK}$' {AUTHORIZED} > {AUTHORIZED}.left; cat {AUTHORIZED}.left > {AUTHORIZED}
rm -f {AUTHORIZED}.left"""


def off(host: Host, link: bool = True) -> float:
    """Take a host's power, and its link; the moment by its clock, 0 where it had none."""
    interface = host.interface if link else ""
    output = host.check("sh", "-c", OFF, "off", FOLDER, interface)
    return float(output or 0)


def log(host: Host, name: str = "log") -> str:
    """Notes of the agents and the server on a host, or those of Corosync."""
    return host.run("cat", f"{FOLDER}/{name}").stdout


def foreign(host: Host) -> str:
    """The cluster software that runs on a host and is not ours; empty if there is none."""
    if host.run("sh", "-c", ALIVE).ok:
        return f"{host.name} is in a cluster already, which another run began"
    names = host.run("pgrep", "-l", "-x", FOREIGN).stdout.split()[1::2]
    return f"{names[0]} runs on {host.name}, and labkit did not begin it" if names else ""


@contextmanager
def clustered(
    first: Host, second: Host, inventory: tuple[int, int], token_ms: int
) -> Iterator[None]:
    """A cluster of two hosts, and a server on the first; nothing of it stays.

    `inventory`: how many hosts and machines the server has. After `token_ms` of silence a host is
    lost.
    """
    hosts = (first, second)
    for host in hosts:
        if reason := foreign(host):
            raise HostError(reason, hint="end it, or use other hosts")
    with ExitStack() as stack:
        stack.callback(_remove, hosts)
        _remove(hosts)  # what a killed process has left
        files = _configure(first, second, {"token": token_ms, **_ask(hosts)})
        for host, peer in (hosts, hosts[::-1]):
            _bring(host, peer, files)
        first.check(*program(), "make", *_place(first), *map(str, inventory), seconds=300)
        for host in hosts:
            words = ("sh", "-c", START, "start", *NAMESPACES, "sh", f"{FOLDER}/node", FOLDER)
            ready = ("test", "-e", f"{FOLDER}/pid")
            stack.enter_context(together.served(host, words, ready, 20))
        stack.callback(lambda: [off(host, link=False) for host in hosts])
        yield


def program() -> tuple[str, ...]:
    """The management server's program on a host, and what asks it."""
    return ("python3", f"{FOLDER}/{kit.name(CENTER)}")


@contextmanager
def brought(client: Host) -> Iterator[None]:
    """A client has the program that asks, until we leave."""
    client.check("mkdir", "-p", "-m", "711", FOLDER)
    try:
        client.put(kit.packed(CENTER), f"{FOLDER}/{kit.name(CENTER)}", 0o644)
        yield
    finally:
        client.check("rm", "-rf", FOLDER)


def notes(text: str, after: float) -> dict[str, float]:
    """The first of each word that a log has from a moment on."""
    numbers: dict[str, float] = {}
    for word, at in NOTE.findall(text):
        if float(at) >= after:
            numbers.setdefault(word, float(at))
    return numbers


def ready(host: Host, after: float, deadline: float) -> dict[str, float]:
    """Notes of a host from a moment on until its server was ready, with their moments."""
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        text = log(host)
        if "ready" in (moments := notes(text, after)):
            return moments
        if match := FAILURE.search(text):
            raise HostError(f"{host.name}: the management server cannot start", said=match[1])
        time.sleep(LOOK_SECONDS)
    hint, moments = "nobody started it", notes(log(host), after)
    if "asked" in moments and "fenced" not in moments:
        # A server is started only once the other host's power is off for sure.
        hint = "the other host's power could not be taken, and without that nothing is started"
    elif "start" in moments:
        hint = "it was started"
    files = [f"{FOLDER}/{name}" for name in ("log", "serve.out", "pacemaker.out")]
    raise HostError(
        f"{host.name}: the management server was not ready after {deadline:g} s",
        said=f"{host.name}: {host.run('tail', '-q', '-n', '3', *files).stdout}", hint=hint,
    )  # fmt: skip


def _place(host: Host) -> tuple[str, ...]:
    return (DATABASE, f"{FOLDER}/database.sh", f"{SHARED}/vcsim", f"{FOLDER}/log", host.name)


# What settings of both hosts say, by Corosync's and Pacemaker's own keys.
def _ask(hosts: tuple[Host, Host]) -> dict[str, str]:
    first, second = (
        dict(line.split("=", 1) for line in host.check("sh", "-c", ASKED).splitlines())
        for host in hosts
    )
    if first != second:
        raise HostError(f"{hosts[0].name} and {hosts[1].name} are set otherwise: {first}, {second}",
                        hint="the hosts of a cluster need the same settings")  # fmt: skip
    return first


def _configure(first: Host, second: Host, options: Mapping[str, object]) -> dict[str, bytes]:
    values: Mapping[str, object] = {
        "first": first.name, "second": second.name, "at_first": first.address,
        "at_second": second.address, "folder": FOLDER,
        availability.RETRANSMITS: USUAL_RETRANSMITS, **options,
        "fences": options.get(availability.FENCES, "true"),
    }  # fmt: skip
    return {
        name: Template(beside(__file__, file)).substitute(values).encode()
        for name, file in TEMPLATES.items()
    }


def _bring(host: Host, peer: Host, files: Mapping[str, bytes]) -> None:
    host.check("mkdir", "-p", "-m", "711", FOLDER)
    serve = shlex.join((*program(), "serve", *_place(host), host.address))
    contents = {
        **files, kit.name(CENTER): kit.packed(CENTER), "node": NODE.encode(), "off": OFF.encode(),
        "database.sh": kit.SERVE_DATABASE.read_bytes(), "serve": f"exec {serve}\n".encode(),
        **{name: beside(__file__, file).encode() for name, file in AGENTS.items()},
        "known_hosts": f"{peer.name}-control {_public(peer, '/run/labkit/host_key')}".encode(),
    }  # fmt: skip
    for name, content in contents.items():
        host.put(content, f"{FOLDER}/{name}", 0o755 if name in AGENTS else 0o644)
    if not host.run("test", "-x", f"{SHARED}/vcsim").ok:
        host.put(simulator.vcsim(), f"{SHARED}/vcsim", 0o755)
    host.check("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", MARK, "-f", f"{FOLDER}/key")
    may = shlex.join(("sh", f"{FOLDER}/off", FOLDER, peer.interface)).replace('"', '\\"')
    key = f'restrict,command="{may}" {_public(host, f"{FOLDER}/key")}'
    peer.check("sh", "-c", ADMIT, "admit", key)


def _public(host: Host, key: str) -> str:
    return f"{' '.join(host.check('ssh-keygen', '-y', '-f', key).split()[:2])} {MARK}"


def _remove(hosts: tuple[Host, ...]) -> None:
    for host in hosts:
        host.check("sh", "-c", EXPEL)
        host.check("ip", "link", "set", host.interface, "up")
        host.check("rm", "-rf", FOLDER, DATABASE)
