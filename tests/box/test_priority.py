"""Real-time priority for a guest in a user namespace: a limit gives it, and nothing else does.

The machine of these tests may have no root that raises limits, so it is tried in the box's guest,
which is a machine with a kernel and a root of its own.
"""

from importlib.resources import files

import pytest

PROGRAMS = ("perl", "prlimit", "setpriv", "unshare")

pytestmark = pytest.mark.box

HOME, BIN = "/run/labkit/guests/inner", "/run/labkit/bin"
# A plain user's namespace as `labkit box up` has it: its root is that user, and the guest runs as
# another of its users. The machine's root gives the numbers and the limit, as newuidmap and pam do.
SCRIPT = """\
set -e
limit=$1 go=/tmp/$$
cleaned() { kill -KILL "$keeper" 2>/dev/null || true; rm -f "$go"; }
trap cleaned EXIT
mkfifo -m 666 "$go"
chown -R 64100 /run/labkit/guests
prlimit --rtprio="$limit:$limit" setpriv --reuid=64100 --regid=64100 --clear-groups \\
    unshare --user sh -c 'read -r _ < "$1"; exec sh -c "$2"' inner "$go" "$2" &
keeper=$!
until [ "$(readlink /proc/$keeper/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do
    sleep 0.02
done
for map in uid_map gid_map; do printf '0 64100 1\\n1 165536 100\\n' > /proc/$keeper/$map; done
echo > "$go"
wait "$keeper"
"""
INSIDE = """\
setpriv --reuid=7 --regid=7 --clear-groups sleep 100 &
trap "kill -KILL $!" EXIT
until [ "$(stat -c %u /proc/$!)" = 7 ]; do sleep 0.02; done
for policy in fifo other; do
    perl /run/labkit/bin/guest.pl set policy=$policy
    perl /run/labkit/bin/guest.pl placement
done
"""
REFUSED = "guest: its threads did not all move: Operation not permitted\n"


@pytest.fixture
def machine(lab):
    """The guest, with the command `guest` and what describes a guest of its own."""
    machine = lab.host("guest")
    machine.check("mkdir", "-p", HOME, BIN)
    for name in ("guest.pl", "guest_changes.pl"):
        machine.put(files("labkit.box.guests").joinpath(name).read_bytes(), f"{BIN}/{name}", 0o644)
    for name in ("running", "description"):
        machine.put(b"nic=bridge\nbatch=128\nlro=on\ncpus=0\npolicy=other\n", f"{HOME}/{name}")
    machine.put(b"user=7\naccelerator=uml\n", f"{HOME}/wires")
    yield machine
    machine.check("rm", "-r", "/run/labkit/guests", BIN)


@pytest.mark.parametrize(
    ("limit", "placed", "said"),
    [("1", "0 fifo\n0 other\n", ""), ("0", "0 other\n0 other\n", REFUSED)],
)
def test_a_guest_of_a_user_has_real_time_priority_where_the_limit_allows_it(
    machine, limit, placed, said
):
    done = machine.run("sh", "-c", SCRIPT, "machine", limit, INSIDE)
    assert (done.code, done.stdout) == (0, placed), done.stderr
    assert done.stderr == said
