"""Hosts over a real sshd on this machine, and without one: both answer alike."""

import hashlib
import os
import re
import secrets
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sshd import reached, tell

from labkit.errors import (
    BadInput,
    CommandFailed,
    HostError,
    OutcomeUnknown,
    TimedOut,
    Unreachable,
)
from labkit.host import Host
from labkit.transports.local import Local

MIB = 1 << 20
HOSTILE = [
    "", " ", "a b", "'", '"', "\\", "$HOME", "`id`", "$(id)", "a\nb", "\t", "*", "~", ";", "&", "|",
    ">x", "<x", "#", "!", "{a,b}", "-n", "--", "é漢\u202e", "\x1b[2J", "a'b\"c$d`e\\f", "\r", "%s",
    "\udcff\udc80",
]  # fmt: skip


@pytest.fixture(params=["ssh", "local"], scope="module")
def host(request):
    if request.param == "local":
        yield Host("here", "127.0.0.1", Local())
        return
    with reached(request.getfixturevalue("server").address()) as found:
        yield found


# --- commands, however the host is reached --------------------------------------------------


def test_run_reports_code_streams_and_time(host):
    done = host.run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert not done.ok and 0 < done.seconds < 10


def test_check_insists_and_shows_the_last_words(host):
    assert host.check("echo", "hello") == "hello\n"
    with pytest.raises(CommandFailed, match="ended with code 4") as failed:
        host.check("sh", "-c", "echo no such thing >&2; exit 4")
    assert "no such thing" in str(failed.value)


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 255])
def test_every_code_arrives(host, code):
    assert host.run("sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV"])
def test_an_end_by_a_signal_counts_as_a_shell_counts_it(host, name):
    number = signal.Signals[f"SIG{name}"]
    assert host.run("sh", "-c", f"kill -{name} $$").code == 128 + number


def test_an_absent_program_is_code_127_with_a_hint(host):
    with pytest.raises(CommandFailed, match="is `no-such-program` installed"):
        host.check("no-such-program")


def test_what_a_command_says_on_its_error_stream_is_its_own(host):
    done = host.run("sh", "-c", "printf 'labkit-process:12\\nno end of line' >&2")
    assert done.stderr == "labkit-process:12\nno end of line"


def test_a_file_that_may_not_be_run_is_code_126(host, tmp_path):
    (tmp_path / "text").write_text("x")
    assert host.run(str(tmp_path / "text")).code == 126


def test_eight_megabytes_on_each_stream_at_once(host):
    fill = f"head -c {8 * MIB} /dev/zero | tr '\\0'"
    done = host.run("sh", "-c", f"{fill} e >&2 & {fill} o; wait")
    assert (len(done.stdout), len(done.stderr)) == (8 * MIB, 8 * MIB)
    assert set(done.stdout) == {"o"} and set(done.stderr) == {"e"}


def test_standard_input_arrives_whole_and_ends(host):
    sent = os.urandom(3 * MIB)
    assert host.check("sha256sum", stdin=sent).split()[0] == hashlib.sha256(sent).hexdigest()
    assert host.check("wc", "-c").strip() == "0"


def test_a_command_that_reads_none_of_its_input_is_no_failure(host):
    assert host.run("true", stdin=bytes(8 * MIB)).code == 0
    assert host.run("sh", "-c", "head -c 1 >/dev/null; exit 7", stdin=bytes(8 * MIB)).code == 7


@pytest.mark.parametrize("word", HOSTILE, ids=ascii)
def test_every_word_arrives_byte_for_byte(host, word):
    done = host.check("sh", "-c", 'printf "%s" "$1" | od -An -v -tx1', "sh", word)
    assert bytes.fromhex(done) == os.fsencode(word)


@pytest.mark.parametrize("words", [("until",), ("A=b", "true"), ("if",), ("exit 5",)])
def test_the_first_word_is_a_program_and_never_a_word_of_the_shell(host, words):
    assert host.run(*words).code == 127


@pytest.mark.parametrize("words", [(), ("echo", "a\0b")])
def test_what_cannot_be_a_command_is_refused(host, words):
    with pytest.raises(BadInput, match="cannot be a command"):
        host.run(*words)


def test_bytes_that_are_no_text_do_not_stop_a_command(host):
    assert host.check("printf", r"a\377b") == "a\ufffdb"


def test_tools_speak_the_c_locale(host):
    assert host.check("sh", "-c", "echo $LC_ALL") == "C\n"


def test_a_command_is_told_to_end_at_its_deadline(host, tmp_path):
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"had not ended after 0\.3 s"):
        host.run("sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60", seconds=0.3)
    assert time.monotonic() - begun < 5
    assert_gone(int((tmp_path / "pid").read_text()))
    assert host.check("echo", "still here") == "still here\n"


def test_a_command_that_never_stops_printing_meets_its_deadline_too(host):
    with pytest.raises(TimedOut):
        host.run("yes", seconds=0.4)


def test_a_command_that_ignores_the_first_word_is_killed(host, tmp_path):
    script = f"trap '' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 0.1; done"
    with pytest.raises(TimedOut):
        host.run("sh", "-c", script, seconds=0.3)
    assert_gone(int((tmp_path / "pid").read_text()))


def assert_gone(pid):
    end = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


# --- what a command may print, leave behind, and do to its shell ------------------------------


def test_a_result_says_when_and_how_long_on_both_clocks(host):
    before = datetime.now(UTC)
    done = host.run("sleep", "0.3")
    assert before <= done.begun < done.ended <= datetime.now(UTC)
    assert 0.3 <= done.seconds < 5 and 0.28 <= done.host_seconds <= done.seconds + 0.02
    assert (done.ended - done.begun).total_seconds() == pytest.approx(done.seconds, abs=0.01)


@pytest.mark.parametrize(
    ("script", "code", "name"),
    [("kill -SEGV $$", 139, "SEGV"), ("kill -ABRT $$", 134, "ABRT"), ("kill -9 $$", 137, "KILL"),
     ("exit 255", 255, ""), ("exit 0", 0, ""), ("exit 128", 128, "")],
)  # fmt: skip
def test_ends_by_signals_and_codes_are_told_apart(host, script, code, name):
    done = host.run("sh", "-c", script)
    assert (done.code, done.signal, done.stderr) == (code, name, "")


def test_all_bytes_arrive_as_they_are_on_both_streams(host, tmp_path):
    content = bytes(range(256)) * 40 + b"\r50%\r100%\x00\xff\xfe no end of line"
    (tmp_path / "bytes").write_bytes(content)
    done = host.run("sh", "-c", f"cat {tmp_path}/bytes; cat {tmp_path}/bytes >&2")
    assert done.stdout_bytes == done.stderr_bytes == content
    assert not done.truncated


def test_more_than_the_cap_is_read_counted_and_dropped(host):
    fill = f"head -c {8 * MIB} /dev/zero"
    done = host.run("sh", "-c", f"printf begin; {fill}; {fill} >&2; exit 4", cap=MIB)
    assert (done.stdout_size, done.stderr_size, done.code) == (8 * MIB + 5, 8 * MIB, 4)
    assert done.truncated and done.stdout_bytes == b"begin" + bytes(MIB - 5)
    with pytest.raises(HostError, match="printed 100 bytes; 10 were kept"):
        host.check("head", "-c", "100", "/dev/zero", cap=10)
    assert host.run("printf", "0123456789", cap=10).truncated is False


def test_forged_ends_are_only_text(host):
    forged = "0" * 32 + " 1 0 1.0 2.0 \n"
    script = "for n in 1 2 3; do echo labkit $n 0; echo labkit $n 0 >&2; done; printf '%s' \"$1\""
    done = host.run("sh", "-c", f"{script}; exit 5", "sh", forged * 3)
    assert done.code == 5
    assert done.stdout == "labkit 1 0\nlabkit 2 0\nlabkit 3 0\n" + forged * 3
    assert host.check("echo", "next") == "next\n"


def test_the_mark_is_in_no_list_of_processes_and_no_environment(host, monkeypatch):
    made = []
    monkeypatch.setattr(secrets, "token_hex", lambda size: made.append(f"{size:032}") or made[-1])
    host.close()
    look = "cat /proc/$PPID/environ /proc/$PPID/cmdline /proc/self/environ | tr '\\0' '\\n'"
    said = host.check("sh", "-c", look)
    assert "PATH=" in said and made and not any(mark in said for mark in made)
    assert not re.search("^labkit", said, re.MULTILINE)


def test_a_command_that_closes_its_streams_ends_as_usual(host):
    assert host.run("sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 6").code == 6


@pytest.mark.slow
def test_what_holds_the_output_at_the_end_is_said_and_not_waited_for(host, tmp_path):
    begun = time.monotonic()
    late = f"trap '' PIPE; sleep 1; echo late; echo late >&2; touch {tmp_path}/done"
    done = host.run("sh", "-c", f"({late}) & echo first")
    assert time.monotonic() - begun < 1
    assert done.left_behind and done.stdout == "first\n"
    seen = ""
    while not (tmp_path / "done").exists():
        after = host.run("sh", "-c", "sleep 0.05; echo next")
        seen += after.stdout + after.stderr
        assert time.monotonic() - begun < 10
    assert set(seen.split()) == {"next"}


@pytest.mark.parametrize("how", ["", "setsid ", "nohup setsid "])
def test_a_daemon_that_let_go_of_its_output_is_nothing_left_behind(host, tmp_path, how):
    script = f"{how}sh -c 'echo $$ >{tmp_path}/pid; exec sleep 30' </dev/null >/dev/null 2>&1 &"
    done = host.run("sh", "-c", script)
    assert not done.left_behind and done.seconds < 2
    wait_for(tmp_path / "pid")
    pid = int((tmp_path / "pid").read_text())
    assert host.check("echo", "on") == "on\n"
    assert Path(f"/proc/{pid}").exists()
    tell([pid], signal.SIGKILL)


@pytest.mark.slow
def test_an_orphan_in_a_session_of_its_own_never_writes_into_the_next_result(host, tmp_path):
    late = f"trap '' PIPE; sleep 0.3; echo LATE; echo LATE >&2; touch {tmp_path}/done"
    assert host.run("sh", "-c", 'setsid sh -c "$1" &', "sh", late).left_behind
    done = host.run("sleep", "0.5")
    assert (tmp_path / "done").exists()
    assert (done.stdout, done.stderr) == ("", "")


def test_a_command_that_kills_its_shell_has_no_known_end(host):
    with pytest.raises(OutcomeUnknown, match="its shell was ended") as unknown:
        host.run("sh", "-c", "echo said; kill -9 $PPID; sleep 0.2")
    assert "unknown" in unknown.value.hint and "said" in unknown.value.said
    assert host.check("echo", "on") == "on\n"


def test_hostile_output_never_reaches_the_terminal_in_an_error(host):
    with pytest.raises(CommandFailed) as failed:
        host.check("sh", "-c", "printf '\\033]0;owned\\007\\033[2Jno' >&2; exit 1")
    assert "\x1b" not in str(failed.value) and "\\x1b[2Jno" in str(failed.value)


# --- input, environment, big words ------------------------------------------------------------


def test_input_can_be_a_file(host, tmp_path):
    (tmp_path / "in").write_bytes(bytes(range(256)) * 5000)
    assert host.run("cat", stdin=tmp_path / "in").stdout_bytes == (tmp_path / "in").read_bytes()
    (tmp_path / "empty").touch()
    assert host.check("wc", "-c", stdin=tmp_path / "empty").strip() == "0"
    with pytest.raises(BadInput, match="cannot read"):
        host.run("cat", stdin=tmp_path / "absent")


def test_the_environment_of_a_command_is_its_own(host):
    value = "a'b\"c $d `e`\n\\f \udcff"
    for stdin in (b"", b"x"):
        done = host.run("sh", "-c", 'printf "%s" "$LAB_X"', env={"LAB_X": value}, stdin=stdin)
        assert done.stdout_bytes == os.fsencode(value)
    assert host.run("sh", "-c", "[ -z ${LAB_X+set} ]").ok
    assert host.check("sh", "-c", "echo $LC_ALL", env={"LC_ALL": "POSIX"}) == "POSIX\n"


@pytest.mark.parametrize("name", ["", "1A", "A B", "A;b", "é", "UID", "A=B"])
def test_a_name_that_no_variable_can_have_is_refused(host, name):
    with pytest.raises(BadInput, match="the environment cannot hold"):
        host.run("true", env={name: "x"})


def test_words_of_a_hundred_thousand_bytes_arrive(host):
    words = ["a\n'b" * 25_000, "x" * 100_000]
    done = host.run("sh", "-c", 'printf "%s" "$@"', "sh", *words)
    assert done.stdout == "".join(words)


def test_every_byte_in_a_word_arrives_with_input_and_without(host):
    word = os.fsdecode(bytes(range(1, 256)))
    for stdin in (b"", b"x"):
        done = host.run("printf", "%s", word, stdin=stdin)
        assert done.stdout_bytes == os.fsencode(word)


@pytest.mark.parametrize("first", ["-c", "-n", "--", "-a"])
def test_a_first_word_with_a_dash_is_no_option_of_the_shell(host, first):
    assert host.run(first, "true").code in (125, 126, 127)


# --- batches and streams ----------------------------------------------------------------------


def test_a_batch_answers_in_order_whatever_the_codes(host):
    commands = [("sh", "-c", f"echo {n}; echo e{n} >&2; exit {n % 3}") for n in range(20)]
    found = host.batch(commands)
    assert [(d.code, d.stdout, d.stderr) for d in found] == [
        (n % 3, f"{n}\n", f"e{n}\n") for n in range(20)
    ]
    assert [done.words for done in found] == commands
    assert host.batch([]) == []


def test_a_batch_goes_on_after_a_command_that_leaves_something_behind(host, tmp_path):
    log = tmp_path / "log"
    leave = f"echo ran >>{log}; sleep 1 &"
    found = host.batch([("true",), ("sh", "-c", leave), ("echo", "b"), ("sh", "-c", leave)])
    assert [done.left_behind for done in found] == [False, True, False, True]
    assert found[2].stdout == "b\n" and log.read_text() == "ran\n" * 2


@pytest.mark.slow
def test_a_batch_that_fails_keeps_the_results_before_and_runs_nothing_after(host, tmp_path):
    after = ("touch", str(tmp_path / "after"))
    with pytest.raises(TimedOut, match="sleep 60") as late:
        host.batch([("echo", "a"), ("sleep", "60"), after], seconds=0.4)
    with pytest.raises(OutcomeUnknown) as unknown:
        host.batch([("echo", "a"), ("sh", "-c", "kill -9 $PPID; sleep 0.1"), after])
    for failed in (late, unknown):
        assert [done.stdout for done in failed.value.completed] == ["a\n"]
    assert not (tmp_path / "after").exists()
    with pytest.raises(BadInput):
        host.batch([after, ()])
    assert not (tmp_path / "after").exists()


def test_a_batch_longer_than_what_is_sent_at_once(host):
    found = host.batch([("echo", f"{n:0400}") for n in range(100)])
    assert [done.stdout for done in found] == [f"{n:0400}\n" for n in range(100)]
    found = host.batch([("printf", "%s", "x" * 15_000 + str(n)) for n in range(6)])
    assert [done.stdout[-1] for done in found] == list("012345")


def test_lines_come_while_the_command_runs(host):
    script = "echo one; echo two >&2; read x; echo $x; printf end; exit 3"
    with host.stream("sh", "-c", script, stdin=b"given\n") as running:
        found = [(line.stream, line.text) for line in running]
        assert sorted(found) == [
            ("stderr", "two"), ("stdout", "end"), ("stdout", "given"), ("stdout", "one"),
        ]  # fmt: skip
        assert running.done.code == 3 and running.done.stdout == "one\ngiven\nend"
    begun = time.monotonic()
    with host.stream("sh", "-c", "echo now; sleep 20") as running:
        assert next(iter(running)).text == "now"
    assert time.monotonic() - begun < 8


def test_a_stream_that_is_left_early_ends_its_command(host, tmp_path):
    with host.stream("sh", "-c", f"echo $$ >{tmp_path}/pid; exec yes") as running:
        lines = iter(running)
        assert [next(lines).text for _ in range(100)] == ["y"] * 100
    assert_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
def test_a_stream_has_a_deadline_and_its_result_can_be_had_without_its_lines(host):
    with (
        host.stream("sh", "-c", "echo a; sleep 60", seconds=0.4) as running,
        pytest.raises(TimedOut),
    ):
        list(running)
    with host.stream("sh", "-c", f"head -c {8 * MIB} /dev/zero; exit 2", cap=10) as running:
        assert (running.done.code, running.done.stdout_size) == (2, 8 * MIB)


def test_a_line_without_end_comes_in_parts(host):
    with host.stream("sh", "-c", f"head -c {3 * MIB} /dev/zero; printf '\\nx\\n\\ny'") as running:
        *parts, x, empty, y = [line.text for line in running]
    assert sum(map(len, parts)) == 3 * MIB and max(map(len, parts)) <= 1 << 16
    assert (x, empty, y) == ("x", "", "y")


def wait_for(path):
    end = time.monotonic() + 5
    while not path.exists() or not path.read_text():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


# --- files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 70_000, 5 * MIB])
def test_files_arrive_byte_for_byte_in_both_directions(host, tmp_path, size):
    content = os.urandom(size)
    path = str(tmp_path / "a file with 'odd' name")
    host.put(content, path, mode=0o640)
    assert Path(path).read_bytes() == content
    assert Path(path).stat().st_mode & 0o777 == 0o640
    assert host.get(path) == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["a file with 'odd' name"]


def test_a_local_file_can_be_put(host, tmp_path):
    (tmp_path / "from").write_bytes(b"\0\xff")
    host.put(tmp_path / "from", str(tmp_path / "to"))
    assert (tmp_path / "to").read_bytes() == b"\0\xff"


def test_a_reader_sees_the_old_file_or_the_new_one_and_nothing_between(host, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * MIB)
    seen, done = set(), threading.Event()

    def look():
        while not done.is_set():
            content = path.read_bytes()
            seen.add((content[:1], len(content), content[-1:]))

    looker = threading.Thread(target=look)
    looker.start()
    for letter in (b"b", b"c", b"d"):
        host.put(letter * MIB, str(path))
    done.set()
    looker.join()
    assert seen <= {(c, MIB, c) for c in (b"a", b"b", b"c", b"d")}


def test_what_cannot_be_written_or_read_is_named(host, tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "absent/file", tmp_path / "folder"):
        with pytest.raises(HostError, match=f"cannot write {path}"):
            host.put(b"x", str(path))
        with pytest.raises(HostError, match=f"cannot read {path}"):
            host.get(str(path))
    assert [entry.name for entry in tmp_path.rglob("*")] == ["folder"]


def test_files_of_the_kernel_can_be_read_though_they_have_no_size(host):
    assert b"Linux" in host.get("/proc/version")


# --- many at once, and connections that break -----------------------------------------------


def test_eight_threads_share_one_connection(ssh, server):
    before = set(server.sessions())

    def work(thread):
        return [ssh.check("echo", f"{thread}-{turn}") for turn in range(50)]

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(work, range(8)))
    assert said == [[f"{thread}-{turn}\n" for turn in range(50)] for thread in range(8)]
    assert len(set(server.sessions()) - before) == 1


def test_more_threads_than_sessions_wait_their_turn(ssh):
    with ThreadPoolExecutor(24) as pool:
        codes = list(
            pool.map(lambda n: ssh.run("sh", "-c", f"sleep 0.1; exit {n}").code, range(24))
        )
    assert codes == list(range(24))


def test_a_session_that_the_server_ended_is_opened_again(ssh, server):
    assert ssh.check("echo", "one") == "one\n"
    ended = server.processes()
    end_sessions(server)
    for pid in ended:
        assert_gone(pid)
    assert ssh.check("echo", "two") == "two\n"


def test_a_command_that_lost_its_connection_is_never_run_twice(ssh, server, tmp_path):
    ssh.check("true")
    killer = threading.Timer(0.5, end_sessions, [server])
    killer.start()
    with pytest.raises(Unreachable, match="connection was lost") as lost:
        ssh.run("sh", "-c", f"echo ran >>{tmp_path}/log; sleep 5")
    killer.join()
    assert "unknown" in lost.value.hint
    assert (tmp_path / "log").read_text() == "ran\n"
    assert ssh.check("echo", "again") == "again\n"


def test_half_a_file_is_never_put_in_place(ssh, server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    ssh.check("true")
    killer = threading.Timer(0.1, end_sessions, [server])
    killer.start()
    try:
        ssh.put(bytes(200 * MIB), str(path))
    except HostError:
        assert path.read_bytes() == b"old"
    killer.join()
    assert path.stat().st_size in (3, 200 * MIB)


@contextmanager
def hung(pids):
    tell(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        tell(pids, signal.SIGCONT)


def test_a_connection_that_hangs_is_replaced_as_nothing_ran_on_it(server, monkeypatch):
    monkeypatch.setattr("labkit.transports.ssh.IDLE_SECONDS", 0)
    before = set(server.processes())
    with reached(server.address()) as host:
        host.check("true")
        with hung(set(server.processes()) - before):
            begun = time.monotonic()
            assert host.check("echo", "new", seconds=1) == "new\n"
            assert time.monotonic() - begun < 5


def test_a_connection_that_hangs_under_a_command_costs_no_more_than_the_deadline(server):
    before = set(server.processes())
    with reached(server.address()) as host, ThreadPoolExecutor(1) as pool:
        host.check("true")
        mine = set(server.processes()) - before
        begun = time.monotonic()
        running = pool.submit(host.run, "sleep", "30", seconds=1)
        time.sleep(0.3)
        with hung(mine), pytest.raises(TimedOut):
            running.result()
        assert time.monotonic() - begun < 6


def end_sessions(server):
    tell(server.processes(), signal.SIGKILL)
