"""Commands on hosts over a real sshd on this machine, and without one: both answer alike."""

import hashlib
import os
import time
from random import Random

import pytest
from sshd import gone_soon

from labkit.errors import BadInput, CommandFailed, TimedOut

MIB = 1 << 20
HOSTILE = [
    "", " ", "a b", "'", '"', "\\", "$HOME", "`id`", "$(id)", "a\nb", "\t", "*", "~", ";", "&", "|",
    ">x", "<x", "#", "!", "{a,b}", "-n", "--", "é漢\u202e", "\x1b[2J", "a'b\"c$d`e\\f", "\r", "%s",
    "\udcff\udc80",
]  # fmt: skip


def test_run_reports_code_streams_and_time(host):
    result = host.run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.ok and 0 < result.seconds < 10


def test_check_insists_and_shows_the_last_words(host):
    assert host.check("echo", "hello") == "hello\n"
    with pytest.raises(CommandFailed, match="ended with code 4") as error:
        host.check("sh", "-c", "echo no such thing >&2; exit 4")
    assert "no such thing" in str(error.value)


def test_an_absent_program_is_code_127_with_a_hint(host):
    with pytest.raises(CommandFailed, match="is `no-such-program` installed"):
        host.check("no-such-program")


def test_a_file_that_may_not_be_run_is_code_126(host, tmp_path):
    (tmp_path / "text").write_text("x")
    assert host.run(str(tmp_path / "text")).code == 126


@pytest.mark.slow
def test_eight_megabytes_on_each_stream_at_once(host):
    fill = f"head -c {8 * MIB} /dev/zero | tr '\\0'"
    result = host.run("sh", "-c", f"{fill} e >&2 & {fill} o; wait")
    assert (len(result.stdout), len(result.stderr)) == (8 * MIB, 8 * MIB)
    assert set(result.stdout) == {"o"} and set(result.stderr) == {"e"}


@pytest.mark.slow
def test_standard_input_arrives_whole_and_ends(host):
    sent = os.urandom(3 * MIB)
    assert host.check("sha256sum", stdin=sent).split()[0] == hashlib.sha256(sent).hexdigest()
    assert host.check("wc", "-c").strip() == "0"


def test_a_command_that_reads_none_of_its_input_is_no_failure(host):
    assert host.run("true", stdin=bytes(8 * MIB)).code == 0
    assert host.run("sh", "-c", "head -c 1 >/dev/null; exit 7", stdin=bytes(8 * MIB)).code == 7


@pytest.mark.parametrize("word", HOSTILE, ids=ascii)
def test_every_word_arrives_byte_for_byte(host, word):
    output = host.check("sh", "-c", 'printf "%s" "$1" | od -An -v -tx1', "sh", word)
    assert bytes.fromhex(output) == os.fsencode(word)


PARTS = [*HOSTILE, *"azAZ09é漢 \t\n\r'\"\\$`|&;<>(){}[]*?!#~=%-", "\x1b]0;x\a", "labkit", "eval "]


@pytest.mark.slow
def test_ten_thousand_random_words_arrive_byte_for_byte_whatever_carries_them(host):
    """F77: as words, in the environment and beside standard input."""
    pick = Random(77)
    for _ in range(10):
        words = ["".join(pick.choices(PARTS, k=pick.randrange(9))) for _ in range(1000)]
        text = b"".join(os.fsencode(word) + b"\0" for word in words)
        show = ("sh", "-c", 'printf "%s\\0" "$@"', "sh")
        assert (
            host.run(*show, *words[:470]).stdout_bytes
            + host.run(*show, *words[470:990], stdin=b"x").stdout_bytes
            + b"".join(
                host.run("sh", "-c", 'printf "%s\\0" "$X"', env={"X": word}).stdout_bytes
                for word in words[990:]
            )
            == text
        )


@pytest.mark.parametrize("words", [("until",), ("A=b", "true"), ("if",), ("exit 5",)])
def test_the_first_word_is_a_program_and_never_a_word_of_the_shell(host, words):
    assert host.run(*words).code == 127


@pytest.mark.parametrize("words", [(), ("echo", "a\0b"), ("echo", "\ud800"), ("echo", 5)])
def test_what_cannot_be_a_command_is_refused(host, words):
    with pytest.raises(BadInput, match="cannot be a command"):
        host.run(*words)


def test_what_is_no_time_is_refused_before_anything_runs(host, tmp_path):
    with pytest.raises(BadInput, match="cannot be a time"):
        host.run("touch", str(tmp_path / "ran"), seconds=float("nan"))
    assert not (tmp_path / "ran").exists()


def test_bytes_that_are_no_text_do_not_stop_a_command(host):
    assert host.check("printf", r"a\377b") == "a\ufffdb"


def test_tools_speak_the_c_locale(host):
    assert host.check("sh", "-c", "echo $LC_ALL") == "C\n"


@pytest.mark.slow
def test_a_command_is_told_to_end_at_its_deadline(host, tmp_path):
    start = time.monotonic()
    with pytest.raises(TimedOut, match=r"had not ended after 1 s"):
        host.run("sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60", seconds=1)
    assert time.monotonic() - start < 20
    gone_soon(int((tmp_path / "pid").read_text()))
    assert host.check("echo", "still here") == "still here\n"


@pytest.mark.slow
def test_a_command_that_never_stops_printing_meets_its_deadline_too(host):
    with pytest.raises(TimedOut):
        host.run("yes", seconds=0.4)


@pytest.mark.slow
def test_a_command_that_ignores_the_first_word_is_killed(host, tmp_path):
    script = f"trap '' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 0.1; done"
    with pytest.raises(TimedOut):
        host.run("sh", "-c", script, seconds=1)
    gone_soon(int((tmp_path / "pid").read_text()))


# --- input, environment, big words ------------------------------------------------------------


def test_input_can_be_a_file(host, tmp_path):
    (tmp_path / "in").write_bytes(bytes(range(256)) * 5000)
    assert host.run("cat", stdin=tmp_path / "in").stdout_bytes == (tmp_path / "in").read_bytes()
    (tmp_path / "empty").touch()
    assert host.check("wc", "-c", stdin=tmp_path / "empty").strip() == "0"
    with pytest.raises(BadInput, match="cannot read"):
        host.run("cat", stdin=tmp_path / "absent")


def test_what_could_be_read_without_end_is_no_input(host, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, "text"):
        with pytest.raises(BadInput, match="cannot be input"):
            host.run("cat", stdin=odd)


def test_the_environment_of_a_command_is_its_own(host):
    value = "a'b\"c $d `e`\n\\f \udcff"
    for stdin in (b"", b"x"):
        result = host.run("sh", "-c", 'printf "%s" "$LAB_X"', env={"LAB_X": value}, stdin=stdin)
        assert result.stdout_bytes == os.fsencode(value)
    assert host.run("sh", "-c", "[ -z ${LAB_X+set} ]").ok
    assert host.check("sh", "-c", "echo $LC_ALL", env={"LC_ALL": "POSIX"}) == "POSIX\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, "x") for name in ("", "1A", "A B", "A;b", "é", "UID", "A=B")),
     *(("A", value) for value in ("a\0b", "\ud800", 5))],
)  # fmt: skip
def test_what_no_variable_can_be_is_refused(host, name, value):
    with pytest.raises(BadInput, match="the environment cannot hold"):
        host.run("true", env={name: value})


@pytest.mark.slow
def test_words_of_a_hundred_thousand_bytes_arrive(host):
    words = ["a\n'b" * 25_000, "x" * 100_000]
    result = host.run("sh", "-c", 'printf "%s" "$@"', "sh", *words)
    assert result.stdout == "".join(words)


@pytest.mark.parametrize("first", ["-c", "-n", "--", "-a"])
def test_a_first_word_with_a_dash_is_no_option_of_the_shell(host, first):
    assert host.run(first, "true").code in (125, 126, 127)
