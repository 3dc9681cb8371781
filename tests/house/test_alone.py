"""What failed beside other tests has one more chance, alone, and nobody can overlook it."""

import subprocess
import sys
from pathlib import Path

import pytest

HELPER = Path(__file__).resolve().parents[1] / "helpers/alone.py"
TESTS = """
from pathlib import Path

def test_once():
    there = Path("there").exists()
    Path("there").touch()
    assert there

def test_good():
    pass
"""
BAD = "\ndef test_bad():\n    raise ValueError\n"
MANY = "\n".join(f"def test_bad{n}():\n    assert 0\n" for n in range(6))


def ran(folder, text):
    """The code of the first run, then that of the helper and what this printed."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").touch()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist"]
    first = subprocess.run(words, cwd=folder, capture_output=True).returncode
    words = [sys.executable, str(HELPER), str(first)]
    return first, subprocess.run(words, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_what_passes_alone_is_named(tmp_path):
    first, done = ran(tmp_path, TESTS)
    assert (first, done.returncode) == (1, 0)
    assert "FAILED BESIDE OTHER TESTS AND PASSED ALONE" in done.stdout
    assert "\ntest_it.py::test_once\n" in done.stdout and "test_good" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("more", [BAD, MANY])
def test_what_fails_alone_too_or_is_much_is_a_failure(tmp_path, more):
    first, done = ran(tmp_path, TESTS + more)
    assert (first, done.returncode) == (1, 1)
    assert "PASSED ALONE" not in done.stdout


@pytest.mark.parametrize("code", [0, 2, 4])
def test_a_run_that_passed_or_was_stopped_stays_what_it_was(tmp_path, code):
    done = subprocess.run([sys.executable, str(HELPER), str(code)], cwd=tmp_path)
    assert done.returncode == code
