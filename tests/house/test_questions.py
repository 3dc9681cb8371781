"""CONTRIBUTING answers what newcomers ask, and its examples are real."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.host import Host
from labkit.transports.local import Local

PROGRAMS = ("openssl", "unshare")

HOME = Path(__file__).resolve().parents[2]
PAGE = (HOME / "CONTRIBUTING.md").read_text("utf-8")
BLOCKS = dict(
    re.findall(r"^`(labkit/\w+/\w+\.py)`.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)
# Measures with the setting of the page in force, in a network of its own.
CHANGED = """
import sys
from pathlib import Path
from labkit.changes.in_force import applied
from labkit.host import Host
from labkit.transports.local import Local
names = {"__name__": "labkit.settings.time_to_live"}
import types; sys.modules[names["__name__"]] = types.ModuleType(names["__name__"])
exec(sys.stdin.read(), names)
value = Path("/proc/sys/net/ipv4/ip_default_ttl")
print(value.read_text().strip())
with applied([names["TimeToLive"](32)], {"server": Host("here", "127.0.0.1", Local())}):
    print(value.read_text().strip())
print(value.read_text().strip())
"""


def test_there_is_a_worked_example_of_each_kind():
    kinds = {path.split("/")[1] for path in BLOCKS}
    assert kinds == {"settings", "workloads", "probes"} and "labkit new study disk_cache" in PAGE
    assert not [path for path in BLOCKS if (HOME / path).exists()]


@pytest.mark.parametrize("path", BLOCKS)
def test_a_worked_example_has_the_form_of_the_house(path, tmp_path):
    """So it does with ruff; the tests of its folder look at the rest once it is there."""
    file = tmp_path / Path(path).name
    file.write_text(BLOCKS[path])
    words = (sys.executable, "-m", "ruff", "check", "-q", f"--config={HOME}/pyproject.toml", file)
    result = subprocess.run(words, capture_output=True, text=True, cwd=HOME)
    assert result.returncode == 0, result.stdout


def example(path):
    names = {"__name__": "example"}
    sys.modules["example"] = type(sys)("example")  # where `dataclass` looks
    exec(compile(BLOCKS[path], path, "exec"), names)
    return names


@pytest.mark.box
def test_the_setting_of_the_page_is_made_and_put_back(tmp_path):
    env = {**os.environ, "LABKIT_CHANGES": str(tmp_path)}
    result = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", CHANGED], cwd=HOME, env=env, text=True,
        input=BLOCKS["labkit/settings/time_to_live.py"], capture_output=True,
    )  # fmt: skip
    assert result.stdout.split() == ["64", "32", "64"], result.stderr


def test_the_setting_of_the_page_refuses_what_is_not_legal():
    from labkit.errors import BadInput

    for hops in (0, 256, "64"):
        with pytest.raises(BadInput, match="hops"):
            example("labkit/settings/time_to_live.py")["TimeToLive"](hops)


@pytest.mark.slow
def test_the_workload_of_the_page_runs_and_reads_what_its_tool_prints():
    hashing = example("labkit/workloads/hashing.py")["Hashing"](duration=1)
    (sample,) = hashing.parse(hashing.run({"server": Host("here", "127.0.0.1", Local())}))
    assert sample.metric == "rate" and sample.values[0] > 1000


def test_the_probe_of_the_page_counts_what_happens_between_two_looks():
    probe, host = example("labkit/probes/switches.py")["Switches"](), Host("here", "", Local())
    before = probe.look(host)
    for _ in range(5):
        host.check("true")
    (sample,) = probe.parse(before, probe.look(host))
    assert sample.values[0] >= 5
