"""Changes that cut the way to a host go back by themselves: a real sshd in a network of its own."""

import os
import random
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from knobs import Knob
from leftovers import BESIDE
from sshd import SSHD, keygen, reached, serving
from waiting import awaited

from labkit.changes.in_force import InForce, in_force
from labkit.changes.journal import hello, history
from labkit.changes.lease import Owner
from labkit.errors import HostError, LabkitError
from labkit.host import Host
from labkit.setting import Setting, Way
from labkit.ssh.connection import Address
from labkit.transports.local import Local
from labkit.transports.ssh import Ssh

pytestmark = pytest.mark.slow

PROGRAMS = ("ip",)

# Each process that runs tests has a subnet of its own, far from those of boxes.
NET = f"198.19.{os.getpid() % 256}"

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not SSHD or not shutil.which("ip"), reason="needs root, sshd and ip"
)
CUTS = {
    "down": ("cat /sys/class/net/mgmt1/carrier", "ip link set mgmt1 down", "ip link set mgmt1 up"),
    "route": (
        "ip route show PEER", "ip route add blackhole PEER", "ip route del blackhole PEER",
    ),
    "mtu": (
        "cat /sys/class/net/mgmt1/mtu", "ip link set mgmt1 mtu 68; ip route add blackhole default",
        "ip route del blackhole default; ip link set mgmt1 mtu 1500",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Cut(Setting):
    """One of the ways to lock oneself out."""

    role: ClassVar[str] = "server"
    name: str

    @property
    def wanted(self):
        return "cut off"

    def way(self, kind, host):
        reads, cut, mend = (words.replace("PEER", peer(host.address)) for words in CUTS[self.name])
        return Way(
            ("sh", "-c", f"{reads} 2>&1 || true"),
            lambda value: (("sh", "-c", cut if value == "cut off" else mend),),
            lambda text: text.strip() or "there",
            cuts_management=True,
        )


def peer(address):
    """The address of the other end of its link."""
    net, last = address.rsplit(".", 1)
    return f"{net}.{int(last) - 1}"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def behind_a_link(folder, number=0, name=""):
    """A host whose only way in is the link mgmt1, which it can cut; `name` is its network's."""
    name = name or f"{BESIDE}{random.randrange(10**8)}"
    address = f"{NET}.{4 * number + 2}"
    ip("netns", "add", name)
    try:
        ip("link", "add", name, "type", "veth", "peer", "mgmt1", "netns", name)
        ip("address", "add", f"{peer(address)}/30", "dev", name)
        ip("link", "set", name, "up")
        ip("-n", name, "address", "add", f"{address}/30", "dev", "mgmt1")
        ip("-n", name, "link", "set", "mgmt1", "up")
        with listening(folder, name, address) as at:
            yield Host(f"far{number}", address, Ssh(at))
    finally:
        # A session that was cut off would wait there for hours, and keep the namespace.
        result = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        subprocess.run(["kill", "-KILL", *result.stdout.split()], capture_output=True)
        ip("netns", "delete", name)
        subprocess.run(["ip", "link", "delete", name], capture_output=True)


@contextmanager
def listening(folder, name, address):
    (folder / "authorized").write_text(keygen(folder / "user"))
    public = keygen(folder / "host")
    (folder / "known_hosts").write_text(f"{address} {public}")
    (folder / "sshd_config").write_text(
        f"ListenAddress {address}\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile {folder}/authorized\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
        f"SetEnv LABKIT_CHANGES={folder}/changes\n"
    )
    words = ["ip", "netns", "exec", name, SSHD, "-D", "-e", "-f", folder / "sshd_config"]
    sshd = subprocess.Popen(words, stderr=(folder / "log").open("w"))
    try:
        time.sleep(0.5)
        yield Address(
            "far", address, 22, "root", str(folder / "user"), (str(folder / "known_hosts"),)
        )
    finally:
        sshd.terminate()
        sshd.wait(10)


class Watched(threading.Thread):
    """Looks into a host's journal: `seconds` from the arming of a dead-man to the way back."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.seconds = folder, None
        self.start()

    def run(self):
        while not self.armed():
            time.sleep(0.02)
        start = time.monotonic()
        while self.armed():
            time.sleep(0.02)
        self.seconds = time.monotonic() - start

    def armed(self):
        return [*(self.folder / "changes").glob("*.armed")]


def cut_off_and_back(folder, host, cut, deadman):
    """How long the host took to put the cut back; and what it then says."""
    begun, watched = time.monotonic(), Watched(folder)
    with pytest.raises(LabkitError), in_force({"server": host}, deadman=deadman) as changes:
        changes.move_to([Cut(cut)])
        pytest.fail("a change that cut the host off was taken for confirmed")
    while True:
        host.close()
        try:
            greeting = hello(host)
        except HostError:
            assert time.monotonic() - begun < deadman + 60
            continue
        watched.join(30)
        return watched.seconds, greeting


@needs_root
@pytest.mark.parametrize("cut", CUTS)
def test_a_change_that_cuts_the_host_off_goes_back_by_itself(tmp_path, cut):
    with behind_a_link(tmp_path) as host:
        seconds, greeting = cut_off_and_back(tmp_path, host, cut, 3)
        assert seconds < 3 + 10 and greeting.open == ()
        kinds = [frame.kind for frame in history(host)[-1].frames]
        assert "armed" in kinds and "confirmed" not in kinds and kinds[-1] == "closed"


@needs_root
@pytest.mark.torture
def test_a_hundred_of_a_hundred_come_back(tmp_path):
    seed = int(os.environ.get("LABKIT_SEED", random.randrange(2**32)))
    print(f"LABKIT_SEED={seed}")

    def ten(number):
        chance, took = random.Random(f"{seed}/{number}"), []
        (folder := tmp_path / str(number)).mkdir()
        with behind_a_link(folder, number) as host:
            for _ in range(10):
                deadman, cut = chance.randint(1, 8), chance.choice(list(CUTS))
                seconds, greeting = cut_off_and_back(folder, host, cut, deadman)
                took.append((seconds - deadman, greeting.open))
        return took

    with ThreadPoolExecutor(10) as pool:
        took = [one for ten in pool.map(ten, range(10)) for one in ten]
    late = [one for one in took if one[0] >= 10 or one[1]]
    print(f"{len(took) - len(late)} of {len(took)}; the latest {max(took)[0]:.1f} s after its time")
    assert len(took) == 100 and not late


def test_a_change_that_could_cut_but_does_not_is_confirmed_over_a_new_connection(tmp_path):
    (tmp_path / "a").write_text("old\n")
    wanted = Knob(str(tmp_path / "a"), "new", (("cuts_management", True),))
    with serving(tmp_path) as server, reached(server.address()) as host:
        with in_force({"server": host}, deadman=2) as changes:
            changes.move_to([wanted])
            time.sleep(3)
            assert (tmp_path / "a").read_text() == "new\n"
        kinds = [frame.kind for frame in history(host)[-1].frames]
        assert kinds.index("armed") < kinds.index("writing") < kinds.index("confirmed")
        assert (tmp_path / "a").read_text() == "old\n"


def test_a_host_that_hears_nothing_any_more_puts_all_back_by_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CHANGES", str(tmp_path / "changes"))
    (tmp_path / "a").write_text("old\n")
    hosts = {"server": Host("here", "127.0.0.1", Local())}
    owner = replace(Owner.me("x"), controller="a machine that is off now")
    silent = InForce(hosts, owner, silence=5)
    silent.move_to([Knob(str(tmp_path / "a"), "new")])
    awaited(lambda: (tmp_path / "a").read_text() != "new\n", pause=0.5)
    time.sleep(0.5)
    assert hello(hosts["server"]).open == () and hello(hosts["server"]).lease is None
    with pytest.raises(LabkitError, match="lease has ended"):
        silent.move_to([])
        silent.check([Knob(str(tmp_path / "a"), "new")])
