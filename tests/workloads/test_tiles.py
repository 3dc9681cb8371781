"""Tiles: what their users do, what their score is made of, and that nothing confirmed is lost."""

import imaplib
import json
import os
import re
import secrets
import shutil
import smtplib
import subprocess
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from boxes import NAME
from brought import need
from figures import figures
from leftovers import another_with_arrays
from waiting import free_port

from labkit.errors import HostError, ResultsError
from labkit.host import Host
from labkit.studies.raid_vmmark import study
from labkit.tile.users import MAIL, SHOP, SOCIAL
from labkit.transports.local import Local
from labkit.workloads import tiles as module
from labkit.workloads._sections import joined, parted
from labkit.workloads.tiles import TileLoad

PROGRAMS = ("blkid", "dmsetup", "dovecot", "fio", "mdadm", "mkfs.ext4", "nginx", "postconf")
SHORT = replace(study.workload, steps="1 2", most=2, duration=6, warm_up=1.0)


# Dovecot 2.4, as in Debian 13, reads another form of configuration.
@pytest.fixture(scope="module")
def old_dovecot():
    if subprocess.run(("sh", "-c", module.FIND_MAIL), capture_output=True).returncode:
        pytest.skip("needs dovecot")


def test_a_host_without_named_disks_is_named_first():
    bare = Host("server", "127.0.0.1", Local())
    assert "names 0 disks of server" in SHORT.lacking(dict.fromkeys(TileLoad.roles, bare))


def written(tiles, took, limit=3.0, copies=3, disk=(0, 4)):
    """The text of a run: at each number of tiles, each load's ms an answer, one answer a second."""
    parts = {"kept": json.dumps({"limit": limit, "pause": 1.0})}
    counters = [f"{100 * n} 0 0 {100 * n * disk[1]} {10 * n} 0 0 {60 * n} 0\n0" for n in (1, 2)]
    for number, (many, ms) in enumerate(zip(tiles, took, strict=True), 1):
        loads = {load: [[each] * 10 for _ in range(many)]
                 for load, each in zip((SHOP, MAIL, SOCIAL), ms, strict=True)}  # fmt: skip
        parts |= {
            f"before {number}": counters[0], f"after {number}": counters[1],
            f"users {number}": json.dumps({
                "tiles": many, "seconds": 10, "nominal": {SHOP: 1, MAIL: 2, SOCIAL: 4},
                "took": loads}),
            f"copies {number}": "".join(f"clone {2 * n} {2 * n + 1}\n" for n in range(copies)),
        }  # fmt: skip
    return joined(parts)


def test_a_score_is_the_mean_of_a_tile_s_loads_summed_and_a_fifth_is_infrastructure():
    at = figures(TileLoad, written((1, 4), [(10, 20, 30), (10, 20, 30)]))
    one = (1 * 0.5 * 0.25) ** (1 / 3)  # a request a second, of 1, 2 and 4 nominal ones
    copies = 3 / 5  # 3 from the first's beginning at 0 s to the last one's end at 5 s
    for tiles in (1, 4):
        assert at[f"score [tiles={tiles}]"] == pytest.approx(0.8 * tiles * one + 0.2 * copies)
    assert at["score"] == at["score [tiles=4]"]
    assert at["infrastructure [tiles=1]"] == pytest.approx(36)
    assert at[f"app latency [tiles=4, load={MAIL}]"] == 20
    assert at[f"app throughput [tiles=4, load={SOCIAL}]"] == 4
    assert at["guest read latency [tiles=1]"] == 4 and at["guest write latency [tiles=1]"] == 6


@pytest.mark.parametrize(("slow", "most"), [
    ((10, 20, 30), 13), ((29, 59, 89), 13), ((31, 20, 30), 1), ((10, 61, 30), 1), ((10, 20, 91), 1),
])  # fmt: skip
def test_the_slowest_load_of_all_decides_how_many_tiles_answer_in_time(slow, most):
    for tiles in ((1, 7, 13), (1, 13)):
        took = [(10, 20, 30), *[slow] * (len(tiles) - 1)]
        assert figures(TileLoad, written(tiles, took))["most tiles"] == most
    again = figures(TileLoad, written((1, 7, 13), [(10, 20, 30), slow, (10, 20, 30)]))
    assert again["most tiles"] == most  # more tiles that happen to be quick do not count


def test_a_load_that_does_nothing_makes_its_tile_worth_nothing():
    text = written((2,), [(10, 20, 30)])
    parts = parted(text)
    asked = json.loads(parts["users 1"])
    asked["took"][MAIL][1] = []
    half = figures(TileLoad, joined({**parts, "users 1": json.dumps(asked)}))
    whole, copies = figures(TileLoad, text), 0.2 * 3 / 5
    assert half["score"] - copies == pytest.approx((whole["score"] - copies) / 2)


@pytest.mark.parametrize(("part", "before", "after", "said"), [
    ("after 1", "\n0", "\n1", "lost a disk"), ("users 1", '"tiles": 1', '"tiles": 2', "too few"),
    ("users 1", "10.0", "NaN", "out of range"), ("users 1", "seconds", "s", "cannot be read"),
    ("copies 1", "clone", "clone clone", "cannot be read"), ("after 1", "200", "2", "went back"),
    ("kept", "3.0", "-1", "limits"), ("copies 1", "5", "1e999", "out of range"),
])  # fmt: skip
def test_a_run_that_says_nothing_true_is_no_figure(part, before, after, said):
    parts = parted(written((1,), [(10.0, 20.0, 30.0)]))
    assert before in parts[part]
    with pytest.raises(ResultsError, match=said):
        TileLoad.parse(joined({**parts, part: parts[part].replace(before, after, 1)}))


def test_parts_that_are_missing_or_strange_are_named():
    text = written((1, 2), [(10, 20, 30)] * 2)
    with pytest.raises(ResultsError, match="not recognized"):
        TileLoad.parse(text.replace("=== users 2", "=== usrs 2"))
    with pytest.raises(ResultsError, match="do not grow"):
        TileLoad.parse(written((2, 1), [(10, 20, 30)] * 2))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_mail_server_takes_nothing_for_others_and_shows_nothing_without_the_word(
    tmp_path, old_dovecot
):
    need("dovecot", "postconf", "setsid")
    word, port = secrets.token_hex(8), free_port()
    (tmp_path / "word").write_text(word)
    at = tempfile.mkdtemp(prefix="lk-", dir="/tmp")  # a socket's path must be short
    Path(at).chmod(0o711)
    words = ("127.0.0.1", str(port), str(free_port()), "2", str(tmp_path / "word"))
    served = subprocess.Popen(["sh", "-c", module.MAIL_SERVER, "mail", f"{at}/mail", *words])
    try:
        smtp = answered(lambda: smtplib.SMTP("127.0.0.1", port))
        with smtp:
            smtp.sendmail("tile1@tile.test", ["tile2@tile.test"], "Subject: one\r\n\r\nthe first")
            for stranger in ("tile3@tile.test", "root@example.com"):
                with pytest.raises(smtplib.SMTPRecipientsRefused):
                    smtp.sendmail("tile1@tile.test", [stranger], "no")
        with pytest.raises(imaplib.IMAP4.error):
            imaplib.IMAP4("127.0.0.1", int(words[2])).login("tile2", "another word")
        imap = imaplib.IMAP4("127.0.0.1", int(words[2]))
        imap.login("tile2", word)
        answered(lambda: int(imap.select()[1][0]) or 1 / 0)
        assert b"the first" in imap.fetch("*", "(RFC822)")[1][0][1]
        imap.logout()
    finally:
        served.terminate()
        served.wait(10)
        shutil.rmtree(at)


def answered(ask, seconds=10):
    """The first answer that is none of refused connections and empty boxes."""
    until = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except (OSError, ZeroDivisionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.fixture(scope="module")
def hosts(old_dovecot):
    """A guest with disks and all else that tiles need."""
    with another_with_arrays(f"{NAME}-til", "tiles", *PROGRAMS) as lab:
        names = {"client": "client", **study.conditions[0].roles}
        yield {role: lab.host(name) for role, name in names.items()}


@pytest.mark.box
@pytest.mark.torture
def test_a_tile_runs_on_a_pool_and_leaves_neither_files_nor_processes(hosts):
    assert SHORT.lacking(hosts) == ""
    found = figures(TileLoad, replace(SHORT, kind="pool").run(hosts))
    assert 0 < found["score [tiles=1]"] < found["score [tiles=2]"] < 3
    for load in (SHOP, MAIL, SOCIAL):
        assert found[f"app latency [tiles=1, load={load}]"] > 0
    assert found["guest read latency [tiles=1]"] > 1  # the disks take a ms longer than they do
    left = "ls /dev/mapper/labkit-* /run/labkit-array; cat /proc/[0-9]*/comm"
    found = hosts["server"].run("sh", "-c", left).stdout
    assert not re.search("labkit|postgres|dovecot|master", found)


@pytest.mark.box
@pytest.mark.torture
def test_an_array_that_is_slower_is_seen_by_who_orders_and_writes(hosts):
    short = replace(SHORT, steps="1", most=1)
    quick, slow = (figures(TileLoad, replace(short, latency=ms).run(hosts)) for ms in (0, 60))
    assert slow["guest write latency [tiles=1]"] > 2 * quick["guest write latency [tiles=1]"]
    assert (
        slow[f"app latency [tiles=1, load={SHOP}]"] > quick[f"app latency [tiles=1, load={SHOP}]"]
    )
    assert slow["score [tiles=1]"] < quick["score [tiles=1]"]


@pytest.mark.box
@pytest.mark.torture
def test_a_database_that_dies_in_the_middle_fails_the_run_and_the_next_one_works(hosts):
    kill = r"""until grep -l dovecot /proc/[0-9]*/comm; do sleep 0.5; done; sleep 20
        for at in $(grep -l postgres /proc/[0-9]*/comm | tr -c '0-9\n' ' '); do kill -9 $at; done"""
    beside = threading.Thread(
        target=lambda: hosts["server"].run("sh", "-c", kill, seconds=200), daemon=True
    )
    beside.start()
    with pytest.raises(HostError):
        replace(SHORT, duration=20).run(hosts)
    beside.join()
    assert np.isfinite(figures(TileLoad, replace(SHORT, steps="1", most=1).run(hosts))["score"])
