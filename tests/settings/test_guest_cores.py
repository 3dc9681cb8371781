"""Which CPUs of a host are cores of their own, and which share one: by what its kernel says.

No machine here has hyper-threads, so that files of the kernel's form stand for its own.
"""

import subprocess

import pytest
from brought import HERE

from labkit.settings.guest_cpu import CHOICES, NO_CHOICE, GuestCores

PROGRAMS = ("sort",)

ADJACENT, APART = ("0-1", "2-3"), ("0,4", "1,5", "2,6", "3,7")
SHOW = 'choose "$1"; echo "$cores"; echo "$threads"'


@pytest.mark.parametrize("cores, many, allowed, chosen", [
    (ADJACENT, 2, "0-3", ["0,2", "0,1"]), (APART, 2, "0-7", ["0,1", "0,4"]),
    (APART, 4, "0-7", ["0,1,2,3", "0,1,4,5"]), (APART, 2, "1-7", ["1,4", "1,5"]),
    (APART, 8, "0-7", ["", "0,1,2,3,4,5,6,7"]), (APART, 2, "0-3", ["", ""]),
    (("0", "1"), 2, "0-1", ["", ""]), (APART, 1, "0-7", ["", ""]),
])  # fmt: skip
def test_cores_of_their_own_and_threads_of_half_as_many(tmp_path, cores, many, allowed, chosen):
    for number, core in enumerate(cores):
        (tmp_path / f"{number}").write_text(f"{core}\n")
    words = ("sh", "-c", f"siblings=$2/* many=$3\n{CHOICES}\n{SHOW}", "x", allowed, tmp_path)
    result = subprocess.run([*words, str(many)], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == chosen, result.stderr


@pytest.mark.parametrize("kind", ["box", "kvm"])
def test_what_is_shown_is_read_back_as_what_was_asked_for(kind):
    way = GuestCores("lab").way(kind, HERE)
    pins = {"box": "all={}", "kvm": "0={0} 1={0}"}[kind]
    for now, value in (("0-1", "cores"), ("0,4", "threads"), ("0-7", "0-7")):
        assert way.value(f"{pins.format(now)}\n0,1\n0,4\n") == value
    assert way.refuses("all=0-1\n\n\n") == NO_CHOICE
    assert way.refuses("all=0-1\n0,1\n0,4\n") == ""
