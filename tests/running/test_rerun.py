"""Papermill reruns tell the truth about how they ended."""

import json
import os
import signal
import subprocess
import threading
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from labkit.errors import BadInput, KernelDied, Stopped, Unknown
from labkit.running import notebook, open_lab
from labkit.runs.progress import PROGRESS_VARIABLE

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def written(folder, *cells):
    parameters = new_code_cell('n: int = 3  # how many\nname: str = "x"\nflag: bool = False')
    parameters.metadata.tags = ["parameters"]
    source = folder / "in.ipynb"
    whole = new_notebook(cells=[parameters, *map(new_code_cell, cells)])
    whole.metadata.kernelspec = KERNEL
    nbformat.write(whole, source)
    return source


def rerun(folder, *cells):
    run = notebook.Rerun(written(folder, *cells), folder / "made" / "out.ipynb", {"n": 5})
    run.execute(lambda _: None)
    return nbformat.read(run.target, as_version=4)


@pytest.mark.slow
def test_a_notebook_runs_with_its_parameters_and_its_source_stays(tmp_path):
    executed = rerun(tmp_path, "print(n * 2)")
    assert executed.cells[-1].outputs[0].text == "10\n"
    assert "outputs" not in (tmp_path / "in.ipynb").read_text().replace('"outputs": []', "")
    assert [file.name for file in (tmp_path / "made").iterdir()] == ["out.ipynb"]


@pytest.mark.slow
def test_what_is_done_before_there_are_results_is_said(tmp_path):
    said, code = [], "from labkit.runs.progress import step_to_file\nstep_to_file('making a guest')"
    run = notebook.Rerun(written(tmp_path, code), tmp_path / "made" / "out.ipynb", {"n": 5})
    run.execute(lambda _: pytest.fail("there is no run yet"), said.append)
    assert said == ["making a guest"]


def test_whoever_waits_for_a_box_hears_its_steps(tmp_path, monkeypatch):
    def up(name, tell, made_of):
        tell(f"making {name}")
        return tmp_path / "lab.toml"

    (tmp_path / "lab.toml").write_text('[hosts.server]\ncontrol = "192.0.2.1"\n')
    monkeypatch.setattr(open_lab.box, "up", up)
    monkeypatch.setenv(PROGRESS_VARIABLE, str(tmp_path / "progress"))
    open_lab.open_lab("box").close()
    assert json.loads((tmp_path / "progress").read_text()) == {"step": "making lab"}


@pytest.mark.slow
def test_an_error_of_labkit_keeps_its_words(tmp_path):
    code = "from labkit.errors import BadInput\nraise BadInput('it broke', said='why', hint='try')"
    with pytest.raises(BadInput, match="it broke") as error:
        rerun(tmp_path, code)
    assert error.value.said == "why" and error.value.hint.startswith("try\n")
    assert "out.ipynb" in error.value.hint


@pytest.mark.slow
def test_a_kernel_that_is_idle_and_hears_an_interrupt_tells_nobody_of_it(tmp_path, capfd):
    # What ends a kernel interrupts it first, at times when it has answered and is not done yet.
    code = """session = get_ipython().kernel.session
def send(*words, sent=session.send, **more):  # by then the notebook's own names may be gone
    message = sent(*words, **more)
    if message and message["header"]["msg_type"] == "execute_reply":
        raise KeyboardInterrupt
    return message
session.send = send"""
    assert rerun(tmp_path, code).cells[-1].execution_count
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_ctrl_c_reaches_the_kernel_which_may_finish_what_it_must(tmp_path, interruptible):
    done = tmp_path / "put-back"
    code = f"""import time, pathlib
try:
    pathlib.Path({str(tmp_path / "begun")!r}).touch()
    time.sleep(60)
finally:
    time.sleep(0.5)
    pathlib.Path({str(done)!r}).touch()"""
    threading.Thread(target=interrupt_when, args=[tmp_path / "begun"], daemon=True).start()
    with pytest.raises(Stopped, match="put back"):
        rerun(tmp_path, code)
    assert done.exists()


@pytest.mark.slow
def test_a_ctrl_c_that_the_kernel_did_not_hear_is_a_stop_all_the_same(tmp_path, interruptible):
    code = f"""import signal, time, pathlib
from labkit.runs.progress import stop_asked
signal.signal(signal.SIGINT, signal.SIG_IGN)
asked_before = stop_asked()
pathlib.Path({str(tmp_path / "begun")!r}).touch()
until = time.monotonic() + 30
while not stop_asked() and time.monotonic() < until:
    time.sleep(0.05)
assert stop_asked() and not asked_before"""
    threading.Thread(target=interrupt_when, args=[tmp_path / "begun"], daemon=True).start()
    with pytest.raises(Stopped, match="had finished"):
        rerun(tmp_path, code)


def test_a_ctrl_c_to_a_kernel_that_has_just_ended_is_no_error(tmp_path):
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    run = notebook.Rerun(tmp_path / "in.ipynb", tmp_path / "out.ipynb", {})
    run.kernels.append(SimpleNamespace(provisioner=SimpleNamespace(pid=ended.pid)))
    assert run._signal(signal.SIGINT)


def interrupt_when(file):
    while not file.exists():
        threading.Event().wait(0.05)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("given, read", [
    ({"n": "7"}, {"n": 7}), ({"flag": "yes"}, {"flag": True}), ({"name": "7"}, {"name": "7"}),
])  # fmt: skip
def test_parameters_become_what_the_notebook_says_they_are(tmp_path, given, read):
    assert notebook.read_parameters(written(tmp_path), given) == read


@pytest.mark.parametrize("given, error, named", [
    ({"m": "7"}, Unknown, "known: flag, n, name"),
    ({"n": "many"}, BadInput, "n must be a whole number"),
    ({"flag": "perhaps"}, BadInput, "flag must be true or false"),
    ({"db_password": "x"}, BadInput, "secret"),
])  # fmt: skip
def test_a_parameter_that_cannot_be_meant_is_refused(tmp_path, given, error, named):
    with pytest.raises(error, match=named):
        notebook.read_parameters(written(tmp_path), given)


def test_a_study_that_is_not_there_has_no_notebook():
    with pytest.raises(BadInput, match="unknown study 'no_such'"):
        notebook.notebook("no_such")


@pytest.mark.slow
def test_cells_that_a_dead_kernel_never_ran_are_not_noted_as_completed(tmp_path):
    source = written(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "1 + 1")
    run = notebook.Rerun(source, tmp_path / "out.ipynb", {"n": 5})
    with pytest.raises(KernelDied, match="the kernel of the notebook died"):
        run.execute(lambda _: None)
    kept = nbformat.read(run.target, as_version=4)
    told = [c.metadata.papermill.status for c in kept.cells if c.cell_type == "code"]
    assert told == ["completed", "completed", "failed", "pending"]
    assert kept.metadata.papermill.exception is True


@pytest.mark.slow
def test_a_lock_is_held_until_the_kernel_has_ended(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        code = f"""import os
held = [os.path.realpath(f"/proc/self/fd/{{n}}") for n in os.listdir("/proc/self/fd")]
assert {str(tmp_path / "lock")!r} in held, held
import subprocess
child = subprocess.Popen(["ls", "-l", "/proc/self/fd"], close_fds=False, stdout=subprocess.PIPE)
assert b"lock" not in child.communicate()[0]"""
        keeps = (lock.fileno(),)
        source = written(tmp_path, code)
        notebook.Rerun(source, tmp_path / "out.ipynb", {}, keeps=keeps).execute(lambda _: None)
