"""The script that runs on a host: on hosts that have few tools, and in plain sh."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from knobs import HERE, NEW, OLD, SCRIPT, Bench

from labkit.changes import journal
from labkit.changes.journal import history
from labkit.changes.journal_lines import decoded, encoded

PROGRAMS = ("busybox", "shellcheck")


def without(folder, *lacking):
    """A folder that has this machine's commands, but for some."""
    folder.mkdir()
    for place in os.environ["PATH"].split(":")[::-1]:
        for tool in os.listdir(place) if os.path.isdir(place) else ():
            if tool not in lacking:
                (folder / tool).unlink(missing_ok=True)
                (folder / tool).symlink_to(f"{place}/{tool}")
    return ("env", f"PATH={folder}")


@pytest.mark.slow
def test_a_host_without_flock_and_setsid_is_changed_and_put_back_too(bench):
    plain = without(bench.folder / "tools", "flock", "setsid")
    done = bench.apply(before=plain)
    assert "made b" in done.stdout and bench.values() == NEW, done
    assert "held t1" in bench.restore(before=plain).stdout
    bench.restore(flags="breaking", before=plain)
    assert bench.values() == OLD and bench.left() == []


@pytest.mark.slow
def test_of_many_that_come_at_once_to_a_host_without_flock_one_gets_it(bench):
    plain = without(bench.folder / "tools", "flock")
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: bench.apply(token=f"t{n}", before=plain).stdout, range(4)))
    assert sorted(("made b" in one, "held t" in one) for one in done) == [
        (False, True), (False, True), (False, True), (True, False)
    ]  # fmt: skip


BOOT, ME = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.getpid()


# What a process leaves that was killed, then a later one with its number, then the host's reboot.
@pytest.mark.slow
@pytest.mark.parametrize("turn", [
    f"{BOOT} 999999999 1", f"{BOOT} {ME} 1", f"before {ME} 1",
], ids=["killed", "another now", "rebooted"])  # fmt: skip
def test_a_turn_of_a_process_that_has_ended_is_over(bench, turn):
    plain = without(bench.folder / "tools", "flock")
    bench.changes.mkdir()
    (bench.changes / "7.turn").symlink_to(turn)
    assert "made b" in bench.apply(before=plain).stdout
    assert [path.name for path in bench.changes.glob("*.turn")] == ["8.turn"]


@pytest.mark.slow
def test_a_turn_of_a_process_that_runs_is_waited_for(bench):
    plain = without(bench.folder / "tools", "flock")
    bench.changes.mkdir()
    hasty = bench.folder / "hasty.sh"
    hasty.write_text(SCRIPT.read_text().replace('"$tries" -le 20', '"$tries" -le 1'))
    with subprocess.Popen(["sleep", "100"]) as other:
        born = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19]
        (bench.changes / "1.turn").symlink_to(f"{BOOT} {other.pid} {born}")
        said = decoded(bench.apply(before=plain, script=hasty).stdout)
        other.kill()
    assert f"at work on this host: process {other.pid}" in said and bench.values() == OLD
    assert "made b" in bench.apply(before=plain).stdout


BUSYBOX = pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox; to get it: make test")


def applets(folder, *lacking):
    """A folder that has what BusyBox has, and no more."""
    folder.mkdir()
    tools = subprocess.run(["busybox", "--list"], capture_output=True, text=True).stdout.split()
    for tool in {*tools, "sh"} - {*lacking}:
        (folder / tool).symlink_to(shutil.which("busybox"))
    return ("env", f"PATH={folder}")


@pytest.mark.slow
@BUSYBOX
def test_a_host_of_busybox_alone_is_changed_and_put_back(bench, monkeypatch):
    plain = applets(bench.folder / "tools", "cksum", "flock", "fsync")
    done = bench.apply(before=plain)
    assert "made b" in done.stdout and bench.values() == NEW, done
    monkeypatch.setenv("LABKIT_CHANGES", str(bench.changes))
    (one,) = history(HERE)
    assert one.damage == "" and [frame.kind for frame in one.frames][:2] == ["begin", "intent"]
    bench.restore(flags="breaking", before=plain)
    assert bench.values() == OLD and bench.left() == []


@pytest.mark.slow
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
    output = bench.run("show", lines=[("show", "a", "", "", reads)]).stdout
    assert f"state a is {encoded('old' + chr(10) + '<x><y>')}" in output


def test_every_part_of_the_script_is_sent_and_none_is_long():
    folder = Path(journal.__file__).parent
    parts = (*journal.PARTS, journal.BEAT, "run_kept")
    assert sorted(parts) == sorted(path.stem for path in folder.glob("*.sh"))
    assert max(len(path.read_text().splitlines()) for path in folder.glob("*.sh")) <= 400


@pytest.mark.slow
def test_the_script_is_plain_sh():
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck")
    words = ["shellcheck", "-s", "sh", "-S", "warning", "-e", "SC2086,SC2154", str(SCRIPT)]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def in_one_round(bench, command):
    """All knobs made `new` in one round, each by a command that may look at those of the others."""
    holds = bench.lines("hold")
    makes = [(*line[:6], command.format(file=bench.folder / line[1], folder=bench.folder), "1")
             for line in bench.lines("make")]  # fmt: skip
    return bench.run("change", lines=[("set", "new"), *holds, *makes])


@pytest.mark.slow
def test_what_is_apart_is_made_at_the_same_time(tmp_path):
    bench = Bench(tmp_path, ("a", "b", "c"))
    bench.reset()
    # Each waits for all others to have begun: in turn, none of them would ever end well.
    met = (
        "touch {file}.begun; n=0; until [ $(ls {folder}/*.begun | wc -l) = 3 ]; do"
        " n=$((n + 1)); [ $n -lt 500 ] || exit 1; sleep 0.02; done; echo new > {file}"
    )
    said = decoded(in_one_round(bench, met).stdout)
    assert [line.split()[2] for line in said.splitlines() if " made " in line] == ["a", "b", "c"]
    assert set(bench.values().values()) == {"new\n"} and not list(bench.changes.glob("said-*"))
    bench.restore(flags="breaking")
    assert set(bench.values().values()) == {"old\n"} and not bench.left()


@pytest.mark.slow
def test_of_what_is_made_at_the_same_time_each_says_what_became_of_it(tmp_path):
    bench = Bench(tmp_path, ("a", "b", "c"))
    bench.reset()
    refused = 'case {file} in */b) echo "not b"; exit 3 ;; esac; echo new > {file}'
    done = in_one_round(bench, refused)
    said = decoded(done.stdout)
    assert done.returncode == 1 and "refused b not b" in said
    assert "made a new" in said and "made c new" in said
    assert bench.values() == {"a": "new\n", "b": "old\n", "c": "new\n"}
    bench.restore(flags="breaking")
    assert set(bench.values().values()) == {"old\n"} and not bench.left()
