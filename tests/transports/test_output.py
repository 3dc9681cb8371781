"""What commands print, leave behind and do to their shell; and lines as they come."""

import _thread
import re
import secrets
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sshd import gone_soon, tell, written

from labkit.errors import CommandFailed, HostError, OutcomeUnknown, TimedOut

PROGRAMS = ("setsid",)

MIB = 1 << 20


# --- what a command may print, leave behind, and do to its shell ------------------------------


@pytest.mark.slow
def test_a_result_says_when_and_how_long(host):
    before = datetime.now(UTC)
    result = host.run("sleep", "0.3")
    assert before <= result.begun < result.ended <= datetime.now(UTC)
    assert 0.3 <= result.seconds < 5
    assert (result.ended - result.begun).total_seconds() == pytest.approx(result.seconds, abs=0.01)


@pytest.mark.parametrize(
    ("script", "code", "name"),
    [("kill -SEGV $$", 139, "SEGV"), ("kill -ABRT $$", 134, "ABRT"), ("kill -9 $$", 137, "KILL"),
     ("kill -TERM $$", 143, "TERM"),
     *((f"exit {code}", code, "") for code in (0, 1, 2, 126, 127, 128, 255))],
)  # fmt: skip
def test_ends_by_signals_and_codes_are_told_apart(host, script, code, name):
    result = host.run("sh", "-c", script)
    assert (result.code, result.signal, result.stderr) == (code, name, "")


def test_all_bytes_arrive_as_they_are_on_both_streams(host, tmp_path):
    content = bytes(range(256)) * 40 + b"\r50%\r100%\x00\xff\xfe no end of line"
    (tmp_path / "bytes").write_bytes(content)
    result = host.run("sh", "-c", f"cat {tmp_path}/bytes; cat {tmp_path}/bytes >&2")
    assert result.stdout_bytes == result.stderr_bytes == content
    assert not result.truncated


def test_more_than_the_cap_is_read_counted_and_dropped(host):
    fill = f"head -c {8 * MIB} /dev/zero"
    result = host.run("sh", "-c", f"printf begin; {fill}; {fill} >&2; exit 4", cap=MIB)
    assert (result.stdout_size, result.stderr_size, result.code) == (8 * MIB + 5, 8 * MIB, 4)
    assert result.truncated and result.stdout_bytes == b"begin" + bytes(MIB - 5)
    with pytest.raises(HostError, match="printed 100 bytes; 10 were kept"):
        host.check("head", "-c", "100", "/dev/zero", cap=10)
    assert host.run("printf", "0123456789", cap=10).truncated is False


def test_forged_ends_are_only_text(host):
    forged = "0" * 32 + " 1 0 1.0 2.0 \n"
    script = "for n in 1 2 3; do echo labkit $n 0; echo labkit $n 0 >&2; done; printf '%s' \"$1\""
    result = host.run("sh", "-c", f"{script}; exit 5", "sh", forged * 3)
    assert result.code == 5
    assert result.stdout == "labkit 1 0\nlabkit 2 0\nlabkit 3 0\n" + forged * 3
    assert host.check("echo", "next") == "next\n"


def test_the_mark_is_in_no_list_of_processes_and_no_environment(host, monkeypatch):
    made = []
    monkeypatch.setattr(secrets, "token_hex", lambda size: made.append(f"{size:032}") or made[-1])
    host.close()
    look = "cat /proc/$PPID/environ /proc/$PPID/cmdline /proc/self/environ | tr '\\0' '\\n'"
    output = host.check("sh", "-c", look)
    assert "PATH=" in output and made and not any(mark in output for mark in made)
    assert not re.search("^labkit", output, re.MULTILINE)


def test_a_command_that_closes_its_streams_ends_as_usual(host):
    assert host.run("sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 6").code == 6


@pytest.mark.slow
def test_what_holds_the_output_at_the_end_is_said_and_not_waited_for(host, tmp_path):
    start = time.monotonic()
    late = f"trap '' PIPE; sleep 2; echo late; echo late >&2; touch {tmp_path}/done"
    result = host.run("sh", "-c", f"({late}) & echo first")
    assert not (tmp_path / "done").exists()
    assert result.left_behind and result.stdout == "first\n"
    seen = ""
    while not (tmp_path / "done").exists():
        after = host.run("sh", "-c", "sleep 0.05; echo next")
        seen += after.stdout + after.stderr
        assert time.monotonic() - start < 30
    assert set(seen.split()) == {"next"}


@pytest.mark.parametrize("how", ["", "setsid ", "nohup setsid "])
def test_a_daemon_that_let_go_of_its_output_is_nothing_left_behind(host, tmp_path, how):
    script = f"{how}sh -c 'echo $$ >{tmp_path}/pid; exec sleep 30' </dev/null >/dev/null 2>&1 &"
    result = host.run("sh", "-c", script)
    assert not result.left_behind and result.seconds < 2
    written(tmp_path / "pid")
    pid = int((tmp_path / "pid").read_text())
    assert host.check("echo", "on") == "on\n"
    assert Path(f"/proc/{pid}").exists()
    tell([pid], signal.SIGKILL)


@pytest.mark.slow
def test_an_orphan_in_a_session_of_its_own_never_writes_into_the_next_result(host, tmp_path):
    late = f"trap '' PIPE; sleep 0.3; echo LATE; echo LATE >&2; touch {tmp_path}/done"
    assert host.run("sh", "-c", 'setsid sh -c "$1" &', "sh", late).left_behind
    result = host.run("sleep", "0.5")
    assert (tmp_path / "done").exists()
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.slow
def test_a_command_that_kills_its_shell_has_no_known_end(host):
    with pytest.raises(OutcomeUnknown, match="its shell was ended") as unknown:
        host.run("sh", "-c", "echo said; kill -9 $PPID; sleep 0.2")
    assert "may have ended or not" in unknown.value.hint and "said" in unknown.value.said
    assert host.check("echo", "on") == "on\n"


def test_hostile_output_never_reaches_the_terminal_in_an_error(host):
    with pytest.raises(CommandFailed) as error:
        host.check("sh", "-c", "printf '\\033]0;owned\\007\\033[2Jno' >&2; exit 1")
    assert "\x1b" not in str(error.value) and "\\x1b[2Jno" in str(error.value)


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_lines_come_while_the_command_runs(host):
    script = "echo one; echo two >&2; read x; echo $x; printf end; exit 3"
    with host.stream("sh", "-c", script, stdin=b"given\n") as running:
        found = [(line.stream, line.text) for line in running]
        assert sorted(found) == [
            ("stderr", "two"), ("stdout", "end"), ("stdout", "given"), ("stdout", "one"),
        ]  # fmt: skip
        assert running.done.code == 3 and running.done.stdout == "one\ngiven\nend"
    start = time.monotonic()
    with host.stream("sh", "-c", "echo now; sleep 20") as running:
        assert next(iter(running)).text == "now"
    assert time.monotonic() - start < 8


@pytest.mark.slow
def test_a_stream_that_is_left_early_ends_its_command(host, tmp_path):
    with host.stream("sh", "-c", f"echo $$ >{tmp_path}/pid; exec yes") as running:
        lines = iter(running)
        assert [next(lines).text for _ in range(100)] == ["y"] * 100
    gone_soon(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
def test_a_stream_has_a_deadline_and_its_result_can_be_had_without_its_lines(host):
    with (
        host.stream("sh", "-c", "echo a; sleep 60", seconds=0.4) as running,
        pytest.raises(TimedOut),
    ):
        list(running)
    with host.stream("sh", "-c", f"head -c {8 * MIB} /dev/zero; exit 2", cap=10) as running:
        assert (running.done.code, running.done.stdout_size) == (2, 8 * MIB)


@pytest.mark.slow
def test_ctrl_c_that_ends_no_wait_of_the_system_is_heard_all_the_same(interruptible, host):
    host.check("true")
    # As a signal does that comes in the moment before a thread waits.
    threading.Timer(0.3, _thread.interrupt_main).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        host.run("sleep", "60")
    assert time.monotonic() - start < 30
    assert host.check("echo", "on") == "on\n"


def test_a_line_without_end_comes_in_parts(host):
    with host.stream("sh", "-c", f"head -c {3 * MIB} /dev/zero; printf '\\nx\\n\\ny'") as running:
        *parts, x, empty, y = [line.text for line in running]
    assert sum(map(len, parts)) == 3 * MIB and max(map(len, parts)) <= 1 << 16
    assert (x, empty, y) == ("x", "", "y")
