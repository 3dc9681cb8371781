"""Real programs that manage the same settings: every run that they meddle with is invalid."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from labkit.condition import Condition
from labkit.errors import SettingRefused
from labkit.gates import gate
from labkit.results import Results
from labkit.running import loop
from labkit.settings.processes import InterruptCpus
from labkit.settings.sockets import Sysctl
from labkit.study import Study
from labkit.workloads.ping import Ping
from tests.box.conftest import with_cpus

PROGRAMS = ("irqbalance", "mount", "tuned", "umount")

pytestmark = [pytest.mark.box, pytest.mark.slow]

KEY = "/proc/sys/net/core/somaxconn"
OURS, TUNED, FIRST = "1234", "777", "4096"
# A TuneD of the guest's own, whose profile has one key; /etc is read-only there. Since TuneD 2.24
# profiles have a folder of their own; before, they lay beside its settings.
PROFILE = f"""\
mount -t tmpfs tmpfs /etc/tuned && mkdir -p /etc/tuned/profiles/rival && echo {FIRST} > {KEY} &&
printf 'daemon=1\\ndynamic_tuning=0\\nsleep_interval=1\\n' > /etc/tuned/tuned-main.conf &&
printf '[sysctl]\\nnet.core.somaxconn={TUNED}\\n' > /etc/tuned/profiles/rival/tuned.conf &&
cp -R /etc/tuned/profiles/rival /etc/tuned"""
WAIT = f"""\
for _ in $(seq 300); do
    [ "$(cat {KEY})" != {TUNED} ] || exit 0
    sleep 0.1
done
cat /run/rival.log >&2
exit 1"""
START = f"""\
tuned --no-dbus --no-socket -p rival > /run/rival.log 2>&1 < /dev/null &
echo $! > /run/rival
{WAIT}"""
RELOAD = f'kill -HUP "$(cat /run/rival)"\n{WAIT}'


@dataclass(frozen=True)
class Fought(Ping):
    """Round trips, in the midst of which something happens on the guest."""

    act: str = "true"
    roles = ("client", "server", "guest")

    def run(self, hosts):
        hosts["guest"].check("sh", "-c", self.act)
        return super().run(hosts)


def runs(lab, folder, setting, act):
    """The state of each run of a study with this setting, and why; `act` is done in each."""
    study = Study(
        name="lat_ping", title="t", question="q", source="s", metric="round trip", unit="us",
        workload=Fought(count=20, interval=0.002, act=act), claims=(),
        conditions=(Condition("a", "a", "a", (setting,)),),
    )  # fmt: skip
    results = Results.begin(folder, {"study": "lat_ping", "seed": 1, "refused": {}})
    # A machine that is busy with other tests makes no run invalid here.
    lab = replace(lab, tolerates=tuple(gate.NAMES))
    with suppress(SettingRefused):
        loop.run(study, lab, results, reread_seconds=0.5, repeats=1)
    return [(run.state, run.why) for run in results.runs()]


def assert_none_counts(found, first, second, seen):
    """The first run is invalid for what was seen, and the second try is no better."""
    assert [state for state, _ in found] == [first, second], found
    assert seen in found[0][1], found


@pytest.fixture
def guest(lab):
    """The guest with a profile for TuneD."""
    if not shutil.which("tuned", path="/usr/sbin:/usr/bin"):
        pytest.skip("no tuned; to get it: make test")
    guest = lab.host("guest")
    guest.check("sh", "-c", PROFILE)
    yield guest
    guest.run("sh", "-c", "kill -KILL $(cat /run/rival); umount /etc/tuned")
    guest.check("sh", "-c", f"echo {FIRST} > {KEY}")


@pytest.mark.torture
def test_whatever_tuned_does_to_a_setting_of_ours_is_seen_and_no_such_run_counts(
    lab, guest, tmp_path
):
    setting = Sysctl("net.core.somaxconn", OURS, role="guest")
    seen = f"net.core.somaxconn became '{TUNED}'"
    # It starts: what it wrote is not what was there before, so that it is left to it.
    found = runs(lab, tmp_path / "start", setting, f"[ -e /run/rival ] || {{ {START}\n}}")
    assert_none_counts(found, "invalid", "failed", seen)
    assert "changed by somebody else" in found[1][1]
    assert guest.check("cat", KEY).strip() == TUNED
    # It is told to read its profile again: what it writes is what was there before us.
    assert_none_counts(runs(lab, tmp_path / "reload", setting, RELOAD), "invalid", "invalid", seen)


# It deals the interrupts out among the CPUs, as soon as it has counted them for a second. Those of
# a disk are the driver's own, and refuse; virtio2 is the card that SSH comes by.
BALANCE = """\
irqbalance --foreground --interval=1 > /tmp/rival.log 2>&1 < /dev/null &
tries=300 found=$(sed -n 's/^ *\\([0-9]*\\):.* virtio2.*/\\1/p' /proc/interrupts)
while tries=$((tries - 1)) && [ "$tries" -gt 0 ]; do
    for n in $found; do [ "$(cat "/proc/irq/$n/smp_affinity_list")" = 0 ] || exit 0; done
    sleep 0.1
done
cat /tmp/rival.log >&2
exit 1"""


@pytest.fixture
def two_cpus(hypervisors):
    """A lab whose guest has two CPUs."""
    if not with_cpus(hypervisors, 2).run("sh", "-c", "command -v irqbalance").ok:
        pytest.skip("no irqbalance; to get it: make test")
    return hypervisors


@pytest.mark.torture
def test_interrupts_that_irqbalance_moves_are_seen_and_no_such_run_counts(two_cpus, tmp_path):
    setting = InterruptCpus("virtio2", "0", role="guest")
    found = runs(two_cpus, tmp_path / "fought", setting, BALANCE)
    seen = "InterruptCpus of guest: virtio2 became"
    assert_none_counts(found, "invalid", "failed", seen)
