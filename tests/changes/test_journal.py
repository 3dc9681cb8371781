"""The journal of a host, and what puts things back by it: on real files, by the real script."""

import os
import shutil
import subprocess
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knobs import HERE, NEW, OLD, Bench, Knob, refused
from waiting import awaited

from labkit.changes.in_force import BEAT_SECONDS, InForce, applied, in_force
from labkit.changes.journal import given_up, hello, history, lines_of
from labkit.changes.journal_lines import cksum, decoded, encoded
from labkit.changes.lease import Owner
from labkit.changes.plan import plan
from labkit.changes.restore import restore
from labkit.errors import (
    HostError,
    JournalDamaged,
    ResultsError,
    SettingRefused,
    Unfinished,
)
from labkit.host import Host
from labkit.setting import Way
from labkit.transports.local import Local
from tests.changes.test_in_force import Counting


@pytest.mark.slow
@given(st.text())
def test_any_text_becomes_one_field_and_comes_back(text):
    field = encoded(text)
    assert field and not set(field) & set(" \t\r\n") and decoded(field) == text


@pytest.mark.slow
def test_the_script_and_labkit_agree_on_every_field(bench):
    odd = ["", " ", "%", "%20", "a\tb\n\n", "é\x01'\"$(touch x)`", "\\n*?[a]", "-n", "\r\n"]
    for text in odd:
        (bench.folder / "a").write_text(text, newline="")
        (step,) = plan([bench.knob("a")], {"server": HERE}).steps
        assert step.text == text


@pytest.mark.slow
@given(st.binary(max_size=300))
def test_the_checksum_is_the_one_of_cksum(whole):
    text = subprocess.run(["cksum"], input=whole, capture_output=True).stdout.decode()
    assert cksum(whole.decode("utf-8", "surrogateescape")) == text.strip() or not whole


@pytest.mark.slow
def test_what_was_there_before_is_on_the_disk_before_anything_is_written(bench, hosts):
    with applied([bench.knob("a"), bench.knob("b")], hosts):
        (one,) = history(hosts["server"])
        kinds = [frame.kind for frame in one.frames]
        assert kinds == ["begin", "intent", "writing", "wrote", "writing", "wrote"]
        assert one.name == "1.open" and "old\n" in one.frames[1].fields
    (chapter,) = history(hosts["server"])
    assert chapter.name == "1.closed" and bench.values() == OLD
    assert given_up(chapter) == () and lines_of(chapter)[0].endswith("put back")


def test_a_journal_that_is_gone_is_named_by_the_copy_until_it_is_forgotten(bench, hosts):
    kept = bench.folder / "kept"
    words = r"(?s)did not go back.*closed or gone"
    with pytest.raises(SettingRefused, match=words), applied([bench.knob("a")], hosts):
        (copy,) = (bench.folder / "out/journal/here").glob("*.log")
        shutil.copytree(bench.changes, kept)
        shutil.rmtree(bench.changes)
    assert bench.values()["a"] == "new\n"
    done = restore(hosts["server"])
    (line,) = done.lines
    assert not done.ok and str(copy) in line and f"{bench.folder}/a was 'old'" in line
    shutil.rmtree(bench.changes, ignore_errors=True)
    shutil.copytree(kept, bench.changes)
    (bench.changes / "lease").unlink(missing_ok=True)
    assert restore(hosts["server"]).ok and bench.values()["a"] == "old\n"
    shutil.rmtree(bench.changes)
    assert not restore(hosts["server"], forgetting=True).ok
    assert restore(hosts["server"]).ok


def test_without_room_for_the_copy_nothing_is_changed(bench, hosts):
    changes = InForce(hosts, Owner.me("x"))
    log = bench.folder / f"out/journal/here/{changes.owner.token}.log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    with pytest.raises(ResultsError, match=r"(?s)no copy .*No space left on device.*LABKIT_OUT"):
        changes.move_to([bench.knob("a")])
    assert bench.values() == OLD and not bench.changes.exists()


def test_a_disk_that_is_full_in_the_midst_of_it_keeps_nothing_from_going_back(bench, hosts):
    owner, a = Owner.me("x"), bench.folder / "a"
    log = bench.folder / f"out/journal/here/{owner.token}.log"

    def fill(value):
        return (("ln", "-sf", "/dev/full", str(log)), ("sh", "-c", f"echo {value} > {a}"))

    changes = InForce(hosts, owner)
    with pytest.raises(ResultsError, match="No space left"):
        changes.move_to([Odd(str(a), "new", fill)])
    assert bench.values() == {"a": "new\n", "b": "old\n"}
    changes.put_back()
    assert bench.values() == OLD and bench.left() == []


def test_a_process_that_knows_nothing_of_the_settings_puts_all_back_and_may_do_it_twice(bench):
    bench.apply()
    assert bench.values() == NEW
    for _ in range(2):
        bench.restore(flags="breaking")
        assert bench.values() == OLD and bench.left() == []


def test_a_host_puts_itself_back_by_hand_with_nothing_but_sh(bench):
    bench.apply()
    words = ["sh", str(bench.changes / "labkit.sh"), "restore"]
    asked = {"env": {**os.environ, "LABKIT_CHANGES": str(bench.changes)},
             "capture_output": True, "text": True}  # fmt: skip
    held = subprocess.run(words, **asked)
    assert held.returncode == 1 and bench.values() == NEW
    assert held.stdout.startswith("me on here (process ") and "nothing was put back" in held.stdout
    (bench.changes / "lease").unlink()
    result = subprocess.run(words, **asked)
    assert result.returncode == 0 and bench.values() == OLD
    assert result.stdout == "b: restored\na: restored\nchange set #1 is put back\n"


def test_the_next_who_comes_is_told_of_an_unfinished_change_set(bench, hosts):
    bench.apply()
    (bench.changes / "lease").unlink()
    words = r"(?s)#1 by me on here.*labkit restore here"
    refused(Unfinished, words, [bench.knob("a", "newer")], hosts)
    assert bench.values() == NEW
    assert str(hello(hosts["server"]).open[0]).startswith("change set #1 by me")


def test_a_stale_plan_is_refused_with_what_differs(bench, hosts):
    changes = InForce(hosts, Owner.me("x"))
    changes.learn([bench.knob("a"), bench.knob("b")])
    (bench.folder / "b").write_text("theirs\n")
    with pytest.raises(SettingRefused, match=r"(?s)plan is stale.*was 'old.*is 'theirs"):
        changes.move_to([bench.knob("a"), bench.knob("b")])
    changes.put_back()
    assert bench.values() == {"a": "old\n", "b": "theirs\n"} and bench.left() == []


@pytest.mark.parametrize("by", ["owner", "stranger"])
def test_a_third_value_is_left_alone_and_reported(bench, hosts, by):
    bench.apply()
    (bench.folder / "a").write_text("theirs\n")
    flags = {"token": "t1", "flags": "joining"} if by == "owner" else {"flags": "breaking"}
    done = bench.restore(**flags)
    assert "back 1 a left theirs%0A old%0A" in done.stdout
    assert bench.values() == {"a": "theirs\n", "b": "old\n"} and bench.left() == []


def spoil(bench, how):
    """A device that is gone, or one that takes no more."""
    if how == "lacking":
        (bench.folder / "a").unlink()
    else:
        (bench.folder / "a.stuck").touch()


@pytest.mark.slow
@pytest.mark.parametrize("how, words", [
    ("lacking", "cannot be read any more"), ("failed", "does not go back to 'old': no more"),
])  # fmt: skip
def test_what_does_not_go_back_stays_in_the_journal_until_it_does(bench, hosts, how, words):
    asked = applied([bench.knob("b"), bench.knob("a")], hosts)
    with pytest.raises(SettingRefused, match=f"(?s)1 of 2 .*did not go back.* {words}"), asked:
        spoil(bench, how)
    assert (bench.folder / "b").read_text() == "old\n"
    for _ in range(2):
        assert not restore(hosts["server"]).ok and bench.left() == ["1.open"]
    (bench.folder / "a.stuck").unlink(missing_ok=True)
    (bench.folder / "a").write_text("new\n")
    assert restore(hosts["server"]).ok and bench.left() == [] and bench.values() == OLD


@pytest.mark.slow
@pytest.mark.parametrize("how", ["lacking", "failed"])
def test_what_was_given_up_stays_visible_in_the_journal(bench, hosts, how):
    """Not only what `--forget` notes now: also a set that an older labkit closed so."""
    with pytest.raises(SettingRefused, match="did not go back"), in_force(hosts) as changes:
        changes.move_to([bench.knob("a")])
        spoil(bench, how)
    assert not restore(hosts["server"], forgetting=True).ok
    (chapter,) = history(hosts["server"])
    (lost,) = given_up(chapter)
    assert bench.left() == []
    head, *lines = lines_of(chapter)
    assert head == f"change set #1, closed, and NOT put back: {lost} (given up)"
    assert any(f"{lost}: given up" in line for line in lines)
    older = replace(chapter, frames=tuple(f for f in chapter.frames if f.kind != "given-up"))
    assert given_up(older) == (lost,)


@pytest.mark.slow
def test_a_clamped_an_ignored_and_a_slow_value_are_told_apart(bench, hosts):
    a = bench.folder / "a"

    def clamp(value):
        write = {"9": f"echo 7 > {a}", "old": f"echo old > {a}"}.get(value, "true")
        return (("sh", "-c", write),)

    def slow(value):
        return (("sh", "-c", f"(sleep 0.5; echo {value} > {a}) >/dev/null &"),)

    for wanted, settle, words in (
        ("9", 0, "became something else: wanted '9', reads back as '7'"),
        ("8", 0.3, "was ignored after 0.4 s: wanted '8', reads back as 'old'"),
    ):
        asked = [bench.knob("b"), Odd(str(a), wanted, clamp, settle)]
        refused(SettingRefused, words, asked, hosts)
        assert bench.values() == OLD, "the one before it went back"
    with applied([Odd(str(a), "8", slow, 5)], hosts):
        assert a.read_text() == "8\n"
    assert a.read_text() == "old\n"


class Odd(Knob):
    """A knob with a writer of its own."""

    def __init__(self, path, value, writer, settle=0):
        super().__init__(path, value)
        object.__setattr__(self, "writer", (writer, settle))

    def way(self, kind, host):
        return Way(("cat", self.path), self.writer[0], settle_seconds=self.writer[1])


@pytest.mark.slow
def test_a_host_of_which_nothing_is_read_again_hears_us_after_runs(bench, hosts):
    with in_force(hosts, period=0.05) as changes:
        changes.move_to([bench.knob("a")])
        changes.move_to([])
        heard = (bench.changes / "beat").read_text
        before = heard()
        time.sleep(0.5)
        assert heard() == before
        changes.drifted([])
        after = heard()
        assert after != before
        changes.sets["server"].heard -= BEAT_SECONDS
        awaited(lambda: heard() != after)


@pytest.mark.slow
def test_a_thing_that_is_left_stays_as_it_is_until_another_move(bench, hosts):
    a, b = bench.knob("a"), bench.knob("b")
    with in_force(hosts) as changes:
        changes.move_to([a, b])
        changes.move_to([a], [b.thing])
        assert bench.values() == NEW
        changes.move_to([a])
        assert bench.values() == {"a": "new\n", "b": "old\n"}
        changes.move_to([b], [a.thing])
    assert bench.values() == OLD and bench.left() == []


@pytest.mark.slow
def test_a_journal_that_is_as_we_left_it_is_believed_and_one_that_is_not_is_read_anew(bench, hosts):
    a, b = bench.knob("a"), bench.knob("b")
    with pytest.raises(SettingRefused, match="did not go back"), in_force(hosts) as changes:
        changes.move_to([a])
        (journal,) = bench.changes.glob("*.open")
        result = subprocess.run(["cksum"], stdin=journal.open(), capture_output=True, text=True)
        assert list(changes.sets["server"].whole) == result.stdout.split()
        changes.move_to([b])
        content = journal.read_bytes()
        journal.write_bytes(content.replace(b"new", b"nev", 1))
        with pytest.raises(JournalDamaged):
            changes.move_to([a, b])
    journal.write_bytes(content)
    assert restore(hosts["server"]).ok and bench.values() == OLD


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=6))
def test_a_shell_that_prints_noise_is_not_believed(noise):
    text = "\n".join(f"={'0' * 16} token {word}" for word in noise)

    class Noisy(Local):
        def run(self, words, **more):
            done = super().run(words, **more)
            noisy = text.encode() + b"\n" + done.stdout_bytes
            return replace(done, stdout_bytes=noisy, stdout_size=len(noisy))

    assert hello(Host("here", "127.0.0.1", Noisy())).lives in ("free", "alive", "silent")


def test_a_journal_without_a_place_changes_nothing(bench, hosts, monkeypatch):
    (bench.folder / "wall").write_text("")
    monkeypatch.setenv("LABKIT_CHANGES", str(bench.folder / "wall" / "changes"))
    words = r"(?s)nothing more was changed.*Not a directory"
    refused(HostError, words, [bench.knob("a")], hosts)
    assert bench.values() == OLD


@pytest.mark.slow
def test_twenty_settings_cost_at_most_six_round_trips(bench, hosts):
    many, counting = Bench(bench.folder, tuple(f"k{n}" for n in range(20))), Counting()
    many.reset()
    with in_force({"server": Host("here", "127.0.0.1", counting)}) as changes:
        wanted = [bench.knob(name) for name in many.names]
        changes.move_to(wanted)
        changes.check(wanted)
        assert set(many.values().values()) == {"new\n"}
    assert set(many.values().values()) == {"old\n"}
    assert len(counting.given) <= 6
