"""Files that are small and cost whoever reads them minutes, or all memory: refused at once."""

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.when_changed("labkit/machine/", "labkit/box/topology.py", "labkit/lab.py"),
]

LABS = "from labkit.lab import Lab; Lab.read(path)"
TOPOLOGIES = "from labkit.box import topology; topology.find(str(path))"
RESULTS = "from labkit.machine import records; records.read_json(path)"
MANY = 1_000_000
# A process of its own: what it has held at most cannot be asked of one that held more before.
READING = """
import resource, sys, time
from pathlib import Path
from labkit import lab
from labkit.box import topology
from labkit.machine import records
from labkit.errors import LabkitError
path = Path(sys.argv[1])
held = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before, begun = held(), time.process_time()
try:
    {read}
except LabkitError as refused:
    print(type(refused).__name__, time.process_time() - begun, held() - before)
"""
TOML = {
    "a list in a list": "a = " + "[" * 200_000,
    "a key of many parts": "a" + ".a" * 120_000 + " = 1",
    "a table of many parts": "[" + "a." * 120_000 + "a]",
    "a large file": "# " + "x" * 40_000_000,
}
JSON = {
    "a list in a list": "[" * MANY,
    "an object in an object": '{"a":' * MANY,
    "many lists": '{"a": [' + "[]," * MANY + "[]]}",
    "many objects": '{"a": [' + '{"b":1},' * MANY + "{}]}",
    "many numbers": '{"a": [' + "1.5," * (20 * MANY) + "1]}",
    "a key twice, behind others": "{" + "".join(f'"{n}":1,' for n in range(MANY // 2)) + '"7":1}',
    "a number of many digits": '{"a": ' + "9" * MANY + "}",
    "no number": '{"a": NaN}',
    "a number too large": '{"a": [1, Infinity]}',
}  # fmt: skip
CASES = [
    *((LABS, "toml", name) for name in TOML),
    *((TOPOLOGIES, "toml", name) for name in TOML),
    *((RESULTS, "json", name) for name in JSON),
]


@pytest.mark.parametrize(("read", "kind", "name"), CASES)
def test_a_bomb_is_refused_within_two_seconds_and_100_mib(tmp_path, read, kind, name):
    bomb = tmp_path / f"bomb.{kind}"
    bomb.write_text((TOML if kind == "toml" else JSON)[name])
    words = [sys.executable, "-c", READING.format(read=read), bomb]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    refused, seconds, mebibytes = result.stdout.split()
    assert refused == ("BadInput" if kind == "toml" else "ResultsError"), result.stderr
    assert float(seconds) < 2 and int(mebibytes) <= 100
