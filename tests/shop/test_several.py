"""Several shops at once: what became of each is said."""

import subprocess
import sys

DRIVE = """
import os, signal, sys
from labkit.shop.__main__ import several

def drive(number, started):
    started()
    print("bought", flush=True)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)

sys.exit(several(2, drive))
"""


def test_customers_that_were_killed_are_named_and_their_run_has_failed():
    result = subprocess.run([sys.executable, "-c", DRIVE], capture_output=True, text=True)
    assert sorted(result.stdout.splitlines()) == ["1 bought", "1 ready", "2 bought", "2 ready"]
    assert result.returncode == 1
    assert result.stderr == "shop 2: its customers were killed by SIGKILL\n"
