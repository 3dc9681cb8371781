"""The script that runs on a host: on hosts that have few tools, and in plain sh."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from knobs import SCRIPT, Bench

from labkit import journal
from labkit.frames import encoded
from labkit.host import Host
from labkit.journal import history
from labkit.transports.local import Local

OLD, NEW = {"a": "old\n", "b": "old\n"}, {"a": "new\n", "b": "new\n"}


@pytest.fixture
def bench(tmp_path):
    found = Bench(tmp_path)
    found.reset()
    yield found
    # A watch that finds no lease any more ends.
    found.reset()


def without(folder, *lacking):
    """A folder that has this machine's commands, but for some."""
    folder.mkdir()
    for place in os.environ["PATH"].split(":")[::-1]:
        for tool in os.listdir(place) if os.path.isdir(place) else ():
            if tool not in lacking:
                (folder / tool).unlink(missing_ok=True)
                (folder / tool).symlink_to(f"{place}/{tool}")
    return ("env", f"PATH={folder}")


def test_a_host_without_flock_and_setsid_is_changed_and_put_back_too(bench):
    plain = without(bench.folder / "tools", "flock", "setsid")
    done = bench.apply(before=plain)
    assert "made b" in done.stdout and bench.values() == NEW, done
    assert "held t1" in bench.restore(before=plain).stdout
    bench.restore(flags="breaking", before=plain)
    assert bench.values() == OLD and bench.left() == []


BUSYBOX = pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox; to get it: make test")


def applets(folder, *lacking):
    """A folder that has what BusyBox has, and no more."""
    folder.mkdir()
    tools = subprocess.run(["busybox", "--list"], capture_output=True, text=True).stdout.split()
    for tool in {*tools, "sh"} - {*lacking}:
        (folder / tool).symlink_to(shutil.which("busybox"))
    return ("env", f"PATH={folder}")


@BUSYBOX
def test_a_host_of_busybox_alone_is_changed_and_put_back_and_its_journal_is_the_same(
    bench, monkeypatch
):
    plain = applets(bench.folder / "tools", "cksum", "flock", "fsync")
    done = bench.apply(before=plain)
    assert "made b" in done.stdout and bench.values() == NEW, done
    monkeypatch.setenv("LABKIT_CHANGES", str(bench.changes))
    (one,) = history(Host("here", "127.0.0.1", Local()))
    assert one.damage == "" and [frame.kind for frame in one.frames][:2] == ["begin", "intent"]
    bench.restore(flags="breaking", before=plain)
    assert bench.values() == OLD and bench.left() == []


def test_a_host_on_which_no_checksum_can_be_made_is_not_changed(bench):
    done = bench.apply(before=without(bench.folder / "tools", "cksum", "od"))
    assert "neither%20cksum%20nor%20od" in done.stdout and bench.values() == OLD
    assert not bench.changes.exists()


def test_commands_find_nothing_of_the_script_in_their_way(bench):
    text = SCRIPT.read_text()
    inside = text[text.index("forget_us() {") :]
    forgotten = inside[inside.index("unset -f") : inside.index("}")].replace("\\", "").split()[2:]
    assert sorted(forgotten) == sorted(re.findall(r"^(\w+)\(\) \{", text, re.MULTILINE))
    # `look` is a function of the script; here it is a command of the host, with a [a] to expand.
    tool = bench.folder / "look"
    tool.write_text('#!/bin/sh\ncat "$@"\n')
    tool.chmod(0o755)
    reads = f"PATH={bench.folder}:$PATH; look {bench.folder}/[a]; one='x y'; printf '<%s>' $one"
    said = bench.run("show", lines=[("show", "a", "", "", reads)]).stdout
    assert f"state a is {encoded('old' + chr(10) + '<x><y>')}" in said


def test_every_part_of_the_script_is_sent_and_none_is_long():
    folder = Path(journal.__file__).with_name("changes")
    assert sorted(f"{part}.sh" for part in journal.PARTS) == sorted(os.listdir(folder))
    assert max(len(path.read_text().splitlines()) for path in folder.iterdir()) <= 400


def test_the_script_is_plain_sh():
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck")
    words = ["shellcheck", "-s", "sh", "-S", "warning", "-e", "SC2086,SC2154", str(SCRIPT)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
