"""What the marked tests need of the machine: where it is lacking they are skipped, and say why."""

import gc
import itertools
import json
import os
import re
import signal

import pytest
from changed import UNCHANGED, meant, whole
from hypothesis import HealthCheck, settings
from knobs import Bench
from sshd import reached, serving, sshd
from watches import end_below

from labkit.box import this_machine as doctor
from labkit.cli import main
from labkit.host import Host
from labkit.machine.lean import start_lean
from labkit.transports.local import Local

pytest_plugins = ["boxes", "skips"]

# Seconds in each process of the tests, which are labkit's own; `house/test_import.py` looks at the
# processes of users.
start_lean()

# The same cases each time, so that a change fails for what it changed; `make torture` draws others.
# How fast cases are made, and how long one takes, says something of the machine alone, where others
# work too.
settings.register_profile(
    "same", derandomize=True, database=None, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.register_profile("other", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("LABKIT_CASES", "same"))

BROWSER, SETTINGS, HOUSE = "tests/browser/", "tests/settings/", "tests/house/"
CLUSTER = "tests/campaign/test_cluster.py"
OF_THE_MACHINE = (
    "tests/box/", "tests/studies/test_on_the_box.py", "tests/running/test_noise.py",
    "tests/gates/test_gates.py",
)  # fmt: skip
# These have machines of their own, or none, or a box that they only want to come up and go.
APART = tuple(f"tests/box/test_{name}.py" for name in ("recorded", "reborn", "power"))
# These have mostly boxes and machines of their own, and none compares times.
OWN = tuple(
    f"tests/box/test_{name}.py" for name in (
        "containers", "disks", "hung", "labs", "moving", "narrow", "own_hosts", "rootless",
        "topologies",
    )
)  # fmt: skip
# These use the pair of boxes and compare no times, so that others may measure beside them.
UNTIMED = tuple(
    f"tests/box/test_{name}.py" for name in (
        "guest_settings", "host_settings", "hosts", "jobs", "killed_kernel", "life",
        "shared_devices",
    )
)  # fmt: skip


OF_ALL = re.compile(r"^pytestmark = (\[[^]]*\]|.*)", re.MULTILINE)
MARK = re.compile(r"pytest\.mark\.(\w+)")


def pytest_ignore_collect(collection_path, config):
    """Leave out a file all of whose tests are left out, as by `-m "not slow and not box"`."""
    parts = config.getoption("markexpr").split(" and ")
    if collection_path.name.startswith("test_") and all(part.startswith("not ") for part in parts):
        match = OF_ALL.search(collection_path.read_text("utf-8"))
        out = {part.removeprefix("not ") for part in parts}
        return bool(match and out & {*MARK.findall(match[1])}) or None
    return None


# Modules and tests stay to the end; to look for garbage among them takes seconds.
@pytest.hookimpl(tryfirst=True)
def pytest_collection():
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    gc.freeze()
    gc.enable()


def scope(nodeid):
    """What runs one by one in one process.

    All that measures on boxes, what uses boxes and measures nothing, what has boxes of its own, all
    in a browser, all that has a libvirt or Docker of its own, and all that reads the whole tree.
    """
    file = nodeid.partition("::")[0]
    for folder in (BROWSER, SETTINGS, HOUSE):
        if file.startswith(folder):
            return folder
    if file in OWN:
        return "own boxes"
    if file in UNTIMED:
        return "untimed"
    return "machine" if file.startswith(OF_THE_MACHINE) and file not in APART else file


# Boxes share the machine's CPUs and links, so two processes have nearly all of them. (xdist 3.8
# sets the group of a test in a way that pytest 9.2 no longer reads; folders do.)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    # By default it begins with the scopes that have the most tests, however short they are.
    config.option.loadscopereorder = False

    class OneForTheMachine(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return scope(nodeid)

        # A process that has had a browser has a loop of asyncio for good, and other tests begin
        # theirs. So it ends with it, and the others have the machine's CPUs.
        def _reschedule(self, node):
            if BROWSER not in self.assigned_work.get(node, {}):
                super()._reschedule(node)
            elif not node.shutting_down:
                node.shutdown()

    return OneForTheMachine(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_collection_modifyitems(config, items):
    asked = config.getoption("markexpr")
    lacking = {} if "torture" in asked else {"torture": "takes minutes to hours: make torture"}
    if any(item.get_closest_marker("box") for item in items):
        report = doctor.examine()
        if report.tier != "root":
            lacking["box"] = f"no lab in a box here; to get it: {report.next}"
    for item in items:
        for marker, why in lacking.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=why))
    if whole(config) and "when_changed" not in asked:
        for item in items:
            if not meant(item):
                item.add_marker(pytest.mark.skip(reason=UNCHANGED))
    one_of_some = hasattr(config, "workerinput")
    items.sort(key=long_first if one_of_some else late)


def late(item):
    """What takes long comes last, where nothing runs beside it."""
    return [bool(item.get_closest_marker(marker)) for marker in ("browser", "box")]


SCOPES = ("untimed", "machine", BROWSER, "own boxes", CLUSTER, SETTINGS)


# So that all processes end at about the same time. One that has begun a scope takes the next, too.
def long_first(item):
    """Scopes by what they take, the minutes first."""
    of = scope(item.nodeid)
    first = [of != one for one in SCOPES]
    return [*first, not of.startswith("tests/box/"), *late(item)]


# The first fixture of all ends last.
@pytest.fixture(scope="session", autouse=True)
def _no_watch_outlives_the_tests(tmp_path_factory):
    yield
    end_below(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def _journals(tmp_path_factory):
    return tmp_path_factory.mktemp("changes"), itertools.count()


# pytest would look through all folders of earlier tests to number the next one.
@pytest.fixture(autouse=True)
def _journals_of_their_own(_journals, monkeypatch):
    """This machine is a host of many tests: their journals are apart from a real one."""
    folder, numbers = _journals
    own = folder / str(next(numbers))
    monkeypatch.setenv("LABKIT_CHANGES", str(own))
    yield
    # A watch that finds no lease any more ends.
    (own / "lease").unlink(missing_ok=True)


FIRST_STATES = {}


# `state` is a copy each time that it is asked for.
@pytest.fixture(autouse=True)
def _drawn_anew(request):
    """A test that draws from its file's RNG draws the same numbers, whatever ran before it."""
    if rng := getattr(request.module, "RNG", None):
        first = FIRST_STATES.setdefault(request.module.__name__, rng.bit_generator.state)
        rng.bit_generator.state = first


@pytest.fixture
def typed(capsys):
    """The command line: what it prints, as JSON if that is asked for; errors too if it fails."""

    def call(*words, code=0):
        capsys.readouterr()
        assert main([*map(str, words)]) == code
        output = capsys.readouterr()
        if "--json" in words and output.out:
            return json.loads(output.out)
        return output.out + (output.err if code else "")

    return call


@pytest.fixture
def interruptible():
    """Ctrl-C is heard, also where the tests run in the background: a shell has it ignored there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """An sshd of our own, with two kinds of host key."""
    with serving(tmp_path_factory.mktemp("sshd"), kinds=("ed25519", "rsa")) as found:
        yield found


@pytest.fixture
def ssh(server):
    """A host that is reached through it."""
    with reached(server.address()) as found:
        yield found


@pytest.fixture(params=["ssh", "local"], scope="module")
def host(request):
    """A host through that sshd, and this machine itself: they answer alike."""
    if request.param == "local":
        yield Host("here", "127.0.0.1", Local())
        return
    with reached(request.getfixturevalue("server").address()) as found:
        yield found


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """An sshd of one file of tests, which shows its log and its processes."""
    with sshd(tmp_path_factory.mktemp("own")) as server:
        yield server


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Refused logins are remembered for a minute: in each test anew."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Knobs of a test's own; what labkit does on this machine goes into their journal."""
    found = Bench(tmp_path)
    found.reset()
    monkeypatch.setenv("LABKIT_CHANGES", str(found.changes))
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    yield found
    found.reset()


@pytest.fixture
def own_out(tmp_path, monkeypatch):
    """A folder of its own for what labkit writes."""
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    return tmp_path / "out"
