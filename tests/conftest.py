"""What the marked tests need of the machine: where it is lacking they are skipped, and say why."""

from __future__ import annotations

import pytest
from sshd import SSHD, reached, serving

from labkit import doctor


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
        # Boxes share the machine's CPUs and links, so one process has all of them, one by one.
        if any(item.get_closest_marker(name) for name in ("box", "browser")):
            item.add_marker(pytest.mark.xdist_group("machine"))
    items.sort(key=lambda item: [bool(item.get_closest_marker(m)) for m in ("browser", "box")])


@pytest.fixture(autouse=True)
def _journals_of_their_own(tmp_path_factory, monkeypatch):
    """This machine is a host of many tests: their journals are apart from a real one."""
    monkeypatch.setenv("LABKIT_CHANGES", str(tmp_path_factory.mktemp("changes")))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """An sshd of our own, with two kinds of host key."""
    if not SSHD:
        pytest.skip("no sshd; to get it: make system")
    with serving(tmp_path_factory.mktemp("sshd"), kinds=("ed25519", "rsa")) as found:
        yield found


@pytest.fixture
def ssh(server):
    """A host that is reached through it."""
    with reached(server.address()) as found:
        yield found
