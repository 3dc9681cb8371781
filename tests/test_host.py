"""Hosts over a real sshd on this machine, and without one: both answer alike."""

import hashlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sshd import reached, tell

from labkit.errors import (
    BadInput,
    CommandFailed,
    HostError,
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
