"""How a command ends whatever its terminal, its disk, its words and its user do: never untold."""

import contextlib
import functools
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import awaited

from labkit.box.rootless import sudo
from labkit.cli import main
from labkit.errors import BadInput, BoxError
from labkit.running import notebook
from labkit.running.open_lab import recorded
from labkit.ssh.connection import CONNECT_SECONDS

PROGRAMS = ("find", "mount", "sudo", "unshare")

HOME = Path(__file__).resolve().parents[2]
LABKIT = (sys.executable, "-m", "labkit")


def run(*words, env=(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how):
    return subprocess.run(
        [*LABKIT, *words], stdout=stdout, stderr=stderr, text=True, cwd=HOME,
        stdin=subprocess.DEVNULL, env={**os.environ, **dict(env)}, **how,
    )  # fmt: skip


@contextlib.contextmanager
def gone():
    """A pipe whose reader has gone, as `| head -1` leaves it."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@pytest.mark.slow
def test_where_the_reader_has_gone_the_true_exit_code_comes_and_no_complaint():
    with gone() as pipe:
        result = run("results", "--help", stdout=pipe)
        assert (result.returncode, result.stderr) == (0, "")
        assert run("stduies", stdout=pipe, stderr=pipe).returncode == 2
        assert run("--version", stderr=pipe).stdout.startswith("labkit ")


@pytest.mark.slow
def test_output_that_the_disk_does_not_take_is_an_error():
    with open("/dev/full", "w") as full:
        result = run("--version", stdout=full)
        assert result.returncode == 1
        assert result.stderr.startswith("labkit: the standard output: No space left on device\n")
        assert run("stduies", stderr=full).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "code"), [("1", 0), ("2", 2)])
def test_a_stream_that_is_closed_is_no_reason_to_fail(closed, code):
    words = ["--version"] if code == 0 else ["stduies"]
    script = f'exec "$@" {closed}>&-'
    result = subprocess.run(["sh", "-c", script, "sh", *LABKIT, *words], capture_output=True)
    assert (result.returncode, result.stdout + result.stderr) == (code, b"")


@pytest.mark.slow
def test_what_an_old_encoding_cannot_write_is_written_as_an_escape(tmp_path):
    shutil.copytree(recorded("lat_vmxnet3"), tmp_path / "☃ lab/lat_vmxnet3")
    env = {"PYTHONIOENCODING": "ascii", "LABKIT_OUT": str(tmp_path / "out")}
    result = run("results", "list", str(tmp_path / "☃ lab"), env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert r"\u2603" in result.stdout and "lab/lat_vmxnet3" in result.stdout


@pytest.mark.slow
def test_results_are_listed_in_80_columns_by_names_that_other_verbs_take(
    tmp_path, monkeypatch, typed
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    shutil.copytree(recorded("lat_vmxnet3"), tmp_path / "results/lat_vmxnet3/mine-0a1b2c3d")
    listed = typed("results", "list")
    assert "STUDY/mine-0a1b2c3d" in listed and "comes with labkit" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert main(["results", "verify", "lat_vmxnet3/mine-0a1b2c3d"]) == 0
    assert "no results at lat_vmxnet3/no-such" in typed(
        "results", "verify", "lat_vmxnet3/no-such", code=1
    )


@pytest.mark.parametrize("columns", ["0", "1", "-7", "wide", "100000"])
def test_any_width_of_the_terminal_will_do(monkeypatch, typed, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert "lat_ping" in typed("studies")
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "labkit run lat_ping --quick" in capsys.readouterr().out


def test_the_labs_that_decide_the_claims_of_one_study_are_a_table_of_it_alone(typed):
    head, *lines = typed("studies", "docker_redis", "--deciders").splitlines()
    assert head.split()[:2] == ["claim", "box"]
    claims = [line.split()[0] for line in lines if line.startswith("docker-")]
    assert claims == [f"docker-redis-{n:02}" for n in range(1, 10)]


@pytest.mark.slow
def test_what_only_reads_needs_no_room_but_memory(monkeypatch, typed):
    monkeypatch.setenv("LABKIT_OUT", "/dev/null")
    assert "lat_ping" in typed("results", "list")
    first, second, hint = typed("report", "lat_vmxnet3", code=1).splitlines()
    assert first.startswith("labkit: cannot keep /dev/null") and "Not a directory" in second
    assert hint.startswith("  hint: is the disk full?")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "lat_pong"], 2, "unknown study 'lat_pong' ... did you mean 'lat_ping'?"),
        (["run"], 2, "required: STUDY"),
        (["run", "lat_ping", "--where", "bxo"], 2, "unknown place ... 'box'? ... recorded"),
        (["run", "lat_ping", "-p", "cuont=3"], 2, "unknown parameter 'cuont' ... 'count'?"),
        (["run", "lat_ping", "-p", "count"], 2, "NAME=VALUE"),
        (["run", "lat_ping", "-p", "count=many"], 2, "count must be a whole number, not 'many'"),
        (["run", "lat_ping", "-p", "password=x"], 2, "secret"),
        (["run", "lat_ping", "--where", "recorded", "-p", "count=0"], 2, "count must be 1 to"),
        (["run", "lat_ping", "--where", "/no/such/lab.toml"], 2, "no lab file"),
        (["run", "lat_ping", "--quick", "-p", "repeats=9"], 2, "run of lat_ping sets repeats"),
        (["box", "up", "--name", "../x"], 2, "'../x'"),
        (["stduies"], 2, "did you mean 'studies'?"),
        (["box", "sttus"], 2, "did you mean 'status'?"),
        (["run", "lat_ping", "--whre", "box"], 2, "did you mean '--where'?"),
        (["noise", "--repeats", "0"], 2, "from 1 on, not '0'"),
        (["journal", "server", "--sets", "-3"], 2, "from 1 on, not '-3'"),
        (["report", "x" * 5000], 1, "File name too long"),
        (["results", "show", "~nobody-of-that-name/x"], 1, "no results at ~nobody-of-that-name/x"),
        (["run", "lat_ping", "--where", "~nobody-of-that-name/lab.toml"], 2, "no lab file ~nobody"),
        (["run", "lat_ping", "--where", "\udcff.toml"], 2, r"no lab file \xdcff.toml"),
        (["run", "lat_ping", "--where", "/"], 2, "unknown place"),
        (["run", "lat_ping", "--where", "/dev/null.toml"], 2, "no lab file"),
        (["settings", "server", "--lab", "Makefile"], 2, "unknown place"),
        (["run", "lat_ping", "--where", "recorded", "--label", "../x"], 2, "label holds letters"),
        (["results", "import", "--from", "fio", "a", "--label", "ä"], 2, "label holds letters"),
        (["results", "query", "drop table runs"], 2, "refused"),
        (["results", "import", "no such file.labkit"], 1, "no bundle no such file.labkit"),
        (["results", "import", "Makefile"], 1, "is not a whole bundle"),
        (["results", "import", "--from", "fo", "x"], 2, "did you mean 'fio'?"),
        (["results", "import", "--from", "fio", "/no/such"], 1, "/no/such"),
        (["results", "export", "lat_vmxnet3", "-o", "/no/such/x"], 2, "/no/such/x"),
        (["apply", "Makefile"], 2, "is not a plan"),
        (["scorecard", "/no/such"], 1, "no folder /no/such"),
        (["box", "up", "/no/such.toml"], 2, "/no/such.toml"),
    ],
    ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_asked_wrongly_is_answered_with_what_is_wrong(
    monkeypatch, capsys, tmp_path, words, code, said
):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    monkeypatch.chdir(HOME)
    try:
        ended = main(words)
    except SystemExit as error:
        ended = error.code
    output = capsys.readouterr().err
    assert ended == code and all(part in output for part in said.split(" ... ")), output


DEEP = "[" * 100_000
WRONG = {
    "of lists.toml": f"name = {DEEP}",
    "of bytes.toml": b"\xff\xfe\x00",
    "cut.toml": "[hosts.client]\ncontrol = ",
    "empty.toml": "",
    "of numbers.toml": "[hosts]\nclient = 7",
    "a key too many.toml": "[hosts.client]\ncontrl = '192.0.2.1'\ncontrol = '192.0.2.1'",
    "a folder.toml": None,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_lab_file_is_refused_by_its_name(tmp_path, typed, name):
    file = tmp_path / name
    whole = WRONG[name]
    if whole is None:
        file.mkdir()
    else:
        file.write_bytes(whole.encode() if isinstance(whole, str) else whole)
    for words in (["settings", "server", "--lab", str(file)], ["box", "up", str(file)]):
        assert file.stem in typed(*words, code=2)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", DEEP, '{"study": 1, "digest": "", "lab": "box", "steps": []}',
     '{"study": "lat_ping", "digest": "", "lab": "box", "steps": [{}]}',
     '{"study": "lat_ping", "digest": "", "lab": "box", "steps": [], "condition": []}'],
    ids=lambda text: text[:60],
)  # fmt: skip
def test_what_is_no_plan_is_not_applied(tmp_path, typed, text):
    (tmp_path / "plan.json").write_text(text)
    assert "plan.json is not a plan" in typed("apply", tmp_path / "plan.json", code=2)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"cells": 5}', '{"nbformat": 99, "cells": []}', "\xff", DEEP],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_broken_notebook_is_refused_by_its_name(tmp_path, text):
    file = tmp_path / "01-mine.ipynb"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=r"01-mine.ipynb: is not a notebook"):
        notebook.parameters(file)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_who_stops_a_command_is_told_so_and_sees_130(tmp_path, number):
    """Ctrl-C, or a terminal that is closed; here while a host says nothing, which may take 45 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        port = silent.getsockname()[1]
        lab = tmp_path / "lab.toml"
        lab.write_text(f'[hosts.server]\ncontrol = "127.0.0.1"\nport = {port}\n')
        words = [*LABKIT, "settings", "server", "--lab", str(lab)]
        # Who runs the tests may have us ignore it (nohup, &); the command inherits that.
        heed = functools.partial(signal.signal, number, signal.SIG_DFL)
        with subprocess.Popen(
            words, cwd=HOME, stderr=subprocess.PIPE, text=True, preexec_fn=heed
        ) as command:
            silent.accept()
            start = time.monotonic()
            command.send_signal(number)
            assert command.communicate()[1] == "labkit: stopped\n"
            assert time.monotonic() - start < 0.9 * CONNECT_SECONDS
    assert command.returncode == 130


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("sudo") or os.geteuid(), reason="as root, with sudo")
def test_what_sudo_runs_imports_nothing_from_the_folder_that_somebody_is_in(tmp_path, monkeypatch):
    (tmp_path / "labkit").mkdir()
    for name in ("__init__", "cli"):
        (tmp_path / f"labkit/{name}.py").write_text('open("taken over", "w")')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BoxError, match="box status did not work through sudo"):
        sudo.box("status", "never-was", lambda _: None)
    assert not (tmp_path / "taken over").exists()


@pytest.mark.slow
@pytest.mark.skipif(bool(os.geteuid()), reason="needs root, to mount a small disk")
def test_a_full_disk_is_told_and_nothing_half_is_left(tmp_path):
    small = f"mount -t tmpfs -o size=40k tmpfs {tmp_path} && df {tmp_path} >/dev/null || exit 77"
    script = f'{small}; "$@"; code=$?; find {tmp_path} -type f; exit $code'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", *LABKIT]
    env = {**os.environ, "LABKIT_OUT": str(tmp_path)}
    verbs = (("list",), ("import", "data/recorded/lat_ping.labkit"))
    read, result = (
        subprocess.run(
            [*words, "results", *verb], cwd=HOME, env=env, capture_output=True, text=True
        )
        for verb in verbs
    )
    if result.returncode == 77 or result.stderr.startswith("unshare: "):
        pytest.skip("no disk can be mounted here")
    assert (read.returncode, read.stderr) == (0, "") and str(tmp_path) not in read.stdout
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"labkit: cannot keep {tmp_path}/")
    assert "is the disk full?" in result.stderr and "Traceback" not in result.stderr


def test_a_notebook_that_a_full_disk_cut_off_is_not_kept_as_one(tmp_path):
    half, whole = tmp_path / ".mine.ipynb", tmp_path / "mine.ipynb"
    for text, kept in (('{"cells": [', False), ('{"cells": []}', True)):
        half.write_text(text)
        notebook._keep_whole(half, whole, died=False, beside=tmp_path)
        assert (whole.exists(), half.exists()) == (kept, False)


# What it needs is loaded before: a checkout may lie where others cannot read.
HOMELESS = """
import contextlib, encodings.idna, io, os, sys
from labkit import box, results
from labkit.changes import lease
from labkit.pages import terminal
from labkit.cli import main
from labkit.machine import account
asked = ["box", "status", "--name", "nobodys"]
with contextlib.redirect_stdout(io.StringIO()):
    main(asked)
os.environ = {"PATH": "/usr/bin:/bin"}
os.setuid(54321)
print(lease.Owner.me("x").name, account.state())
sys.exit(main(asked))
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(os.geteuid()), reason="needs root, to become somebody without an account")
def test_a_user_without_account_and_home_is_served_too():
    result = subprocess.run([sys.executable, "-c", HOMELESS], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (1, "")
    first, second = result.stdout.splitlines()
    assert first == "54321 /nonexistent/.local/state/labkit"
    assert second == "box nobodys is down"


@pytest.mark.slow
@pytest.mark.parametrize(("term", "drawn"), [("xterm", True), ("dumb", False)])
def test_a_dumb_terminal_gets_no_escapes(tmp_path, term, drawn):
    ours, theirs = pty.openpty()
    env = {"TERM": term, "LABKIT_OUT": str(tmp_path)}
    with open(ours, "rb", buffering=0) as screen:
        result = run("results", "list", str(HOME / "data/recorded"), env=env, stderr=theirs)
        os.close(theirs)
        assert result.returncode == 0
        said = screen.read(4096)
    assert b"reading what is new" in said or drawn
    assert (b"\x1b" in said) is drawn


def test_the_label_in_results_of_others_does_not_say_where_a_report_is_written(tmp_path, typed):
    theirs = tmp_path / "theirs/deep/down"
    shutil.copytree(recorded("lat_vmxnet3"), theirs)
    answer = json.loads((theirs / "study.json").read_text())
    (theirs / "study.json").write_text(json.dumps({**answer, "label": "../../../taken"}))
    assert "a label holds letters" in typed("report", theirs, code=2)
    assert list(tmp_path.rglob("*taken*")) == []


@pytest.mark.slow
def test_a_python_package_that_is_missing_is_named_with_what_installs_it():
    code = (
        "import sys; sys.modules['paramiko'] = None\n"
        "from labkit.cli import main; sys.exit(main(['doctor']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    first, hint = result.stderr.splitlines()
    assert (result.returncode, first) == (1, "labkit: the Python package paramiko is not installed")
    assert "-m pip install" in hint and "'paramiko" in hint


@pytest.mark.slow
@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_a_query_without_an_end_can_be_stopped(signal_sent, tmp_path, interruptible):
    endless = "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c"
    asked = subprocess.Popen(
        [*LABKIT, "results", "query", endless],
        env={**os.environ, "LABKIT_OUT": str(tmp_path)}, cwd=HOME, stderr=subprocess.PIPE,
    )  # fmt: skip
    with asked:
        awaited(lambda: list(tmp_path.glob("index/*.sqlite")))
        time.sleep(0.5)  # it counts by now
        asked.send_signal(signal_sent)
        try:
            said = asked.communicate(timeout=10)[1]
        finally:
            asked.kill()
    assert asked.returncode == 130 and b"Traceback" not in said
