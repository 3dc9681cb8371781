"""A machine that loses its power, with its journal on a disk: what was there comes back."""

import os
import random
import shutil
import subprocess
import threading

import emulated
import pytest
from knobs import SCRIPT

from labkit.box.guests import accelerator
from labkit.box.guests.image import Archive
from labkit.changes.journal_lines import encoded

PROGRAMS = ("find", "mkfs.ext4", "mount")

pytestmark = [
    pytest.mark.box,
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(accelerator.lacking()) or not shutil.which("mkfs.ext4"),
        reason="no QEMU, no kernel for its guests, or no mkfs.ext4; to get them: make test",
    ),
]
SOMAXCONN = "/proc/sys/net/core/somaxconn"
# Puts back what an earlier life of the machine has left, says what is there, and goes on changing.
INIT = f"""\
{emulated.INIT}
export LABKIT_CHANGES=/disk/changes
mkdir /disk && mount -t ext4 /dev/vda /disk || exit 1
left() {{ find /disk -name '*.open' | wc -l; }}
there() {{
    knobs="knob $(cat /disk/knob) theirs $(cat /disk/theirs)"
    echo "=$1 $knobs kernel $(cat {SOMAXCONN}) open $(left)"
}}
there found
! grep -q somebody /proc/cmdline || echo third > /disk/theirs
sh /changes.sh restore
there restored
sync
while :; do
    sh /changes.sh change m < /apply
    there applied
    sh /changes.sh restore m all < /restore
    there again
done
"""


def hold(thing, file, old, new, persists):
    undo, make = (f"echo {value} > {file}" for value in (old, new))
    return [
        ("hold", thing, f"{old}\n", persists, "0", f"cat {file}", undo),
        ("make", thing, new, None, "0", "0", make),
    ]


def lines(*found):
    me = ("as", "t1", "me", "here", "1", "1", "boot", "study", "900", "60", "first")
    return "".join(" ".join(map(encoded, line)) + "\n" for line in (me, *found)).encode()


@pytest.fixture
def machine(tmp_path_factory):
    """A folder with a kernel's first root, and a disk that has a file to change."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "root").mkdir()
    for name in ("knob", "theirs"):
        (folder / "root" / name).write_text("old\n")
    words = ["mkfs.ext4", "-q", "-d", folder / "root", folder / "disk", "24M"]
    subprocess.run(words, check=True, capture_output=True)
    knobs = [hold(name, f"/disk/{name}", "old", "new", "1") for name in ("knob", "theirs")]
    volatile = hold("kernel", SOMAXCONN, "4096", "1234", "0")
    holds, makes = zip(*knobs, volatile, strict=True)
    archive = Archive()
    archive.files({
        "/init": INIT.encode(), "/changes.sh": SCRIPT.read_bytes(), "/restore": lines(),
        "/apply": lines(("set", "new"), *holds, *makes),
    })  # fmt: skip
    emulated.first_root(folder / "first", archive)
    return folder


def powered(folder, text=""):
    """The machine, from when it has power; should it hang, its lines end all the same."""
    drive = f"file={folder}/disk,format=raw,if=virtio,cache=writeback"
    return emulated.powered(emulated.words(folder / "first", 256, "-drive", drive, text=text), 120)


def until(said, word):
    seen = []
    for line in map(str.strip, said):
        seen += [line] if line.startswith("=") else []
        if line.split(" ")[0] == f"={word}":
            return line.removeprefix(f"={word} ")
    pytest.fail(f"the machine never said {word}: {seen}")


WHOLE = "knob old theirs old kernel 4096 open 0"


@pytest.mark.torture
def test_what_is_ours_after_a_power_cut_is_put_back_and_what_somebody_made_since_is_left(machine):
    with powered(machine) as said:
        assert until(said, "applied") == "knob new theirs new kernel 1234 open 1"
    with powered(machine, "somebody") as said:
        # What the kernel holds has gone back by itself; what is on the disk has not.
        assert until(said, "found") == "knob new theirs new kernel 4096 open 1"
        assert until(said, "restored") == "knob old theirs third kernel 4096 open 0"


@pytest.mark.torture
def test_no_power_cut_at_any_moment_loses_a_value(machine):
    seed = int(os.environ.get("LABKIT_SEED", random.randrange(2**32)))
    cuts = int(os.environ.get("LABKIT_CUTS", "30"))
    print(f"LABKIT_SEED={seed}")
    chance, found = random.Random(seed), []
    for _ in range(cuts):
        with powered(machine) as said:
            found.append(until(said, "found"))
            assert until(said, "restored") == WHOLE, found
            threading.Event().wait(chance.uniform(0, 4))
    torn = sum(one != WHOLE for one in found)
    print(f"{cuts} power cuts, {torn} with something to put back: nothing lost")
    assert torn
