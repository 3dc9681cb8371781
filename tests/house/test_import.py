"""Importing labkit leaves the process of its user as it is; labkit's own processes start lean."""

import subprocess
import sys

import pytest

# What a process has outside labkit, before and after.
SEEN = """\
import json, logging, os, signal, sys, threading, warnings
import jsonschema, numpy, paramiko
def seen():
    return {
        "modules": {name: id(one) for name, one in sys.modules.items()},
        "environ": dict(os.environ), "path": list(sys.path), "filters": list(warnings.filters),
        "handlers": [signal.getsignal(n) for n in signal.valid_signals() if n not in (9, 19)],
        "hooks": [sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook],
        "logs": list(logging.root.handlers), "folder": os.getcwd(), "umask": os.umask(0o22),
        "iri": jsonschema.FormatChecker().conforms("no iri", "iri"),
    }
before = seen()
IMPORTS
after = seen()
kept = {name: after["modules"].get(name) for name in before["modules"]}
assert kept == before["modules"], "modules that were there are others now"
assert None not in sys.modules.values(), [n for n, one in sys.modules.items() if one is None]
for part in before.keys() - {"modules"}:
    assert before[part] == after[part], part
"""
NAMES = "from labkit import applied, compare, find_study, open_lab, study_results"


@pytest.mark.slow
@pytest.mark.parametrize("imports", ["import labkit", NAMES])
def test_importing_labkit_changes_nothing_outside_labkit(imports):
    code = SEEN.replace("IMPORTS", imports)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_command_labkit_leaves_out_what_makes_its_start_slow():
    code = (
        "import sys; import labkit.cli; labkit.cli.command = lambda: print(\n"
        "    [n for n, one in sys.modules.items() if one is None])\n"
        "from labkit.__main__ import command; command()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "rfc3987_syntax" in result.stdout
