"""A labkit that was installed as a package brings all that it needs, and needs no checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labkit.runs import bundle

pytestmark = pytest.mark.slow

HOME = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=HOME, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return zipfile.ZipFile(made)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    wheel.extractall(folder)
    return folder


def labkit(site, *words, **more):
    env = {**os.environ, "PYTHONPATH": str(site), "HOME": str(site / "home"), **more}
    env.pop("LABKIT_OUT", None)
    result = subprocess.run([sys.executable, "-m", "labkit", *words],
                          cwd=site, env=env, capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_wheel_holds_the_package_its_notebooks_and_its_data_and_nothing_else(wheel):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
         "labkit", "notebooks", "data"], cwd=HOME, capture_output=True, text=True, check=True,
    ).stdout.split("\0")[:-1]  # fmt: skip
    here = {name for name in listed if (HOME / name).is_file()}
    wanted = {name if name.startswith("labkit/") else f"labkit/{name}" for name in here}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted


@pytest.mark.when_changed("pyproject.toml", "labkit/machine/", "labkit/runs/", "labkit/pages/")
def test_an_installed_labkit_judges_what_is_recorded_and_keeps_it_in_the_home(installed):
    answer = json.loads(labkit(installed, "run", "lat_ping", "--where", "recorded", "--json"))
    assert {v["claim"] for v in answer["verdicts"]} == {f"lat-ping-0{n}" for n in range(1, 8)}
    assert {row["condition"] for row in answer["rows"]} >= {"Native", "VM-Default"}
    assert Path(answer["results"]).parents[1] == installed / "home/labkit-out/bundles"
    assert "Emulated" in answer["note"]
    report = Path(answer["report"])
    assert report.parent == installed / "home/labkit-out/reports"
    assert report.stem.endswith(f"-{bundle.mark(HOME / 'data/recorded/lat_ping.labkit')}")
    assert Path(answer["notebook"]) == report.with_suffix(".ipynb")
    page = report.read_text("utf-8")
    assert "lat-ping-01" in page and answer["note"] in page


def test_an_installed_labkit_knows_its_studies_and_what_a_box_can_be_made_of(installed):
    named = {load["name"] for load in json.loads(labkit(installed, "studies", "--json"))}
    assert {"lat_ping", "lat_netperf"} <= named
    assert "four-guests" in labkit(installed, "box", "topologies")


def test_a_commit_of_something_else_is_not_told_as_ours(installed):
    subprocess.run(["git", "init", "-q", str(installed)], check=True)
    words = ["-c", "user.name=x", "-c", "user.email=x@y.z", "commit", "-q", "--allow-empty", "-m1"]
    subprocess.run(["git", "-C", str(installed), *words], check=True)
    script = "from labkit.runs.facts import versions; print(versions()['labkit'])"
    env = {**os.environ, "PYTHONPATH": str(installed)}
    words = [sys.executable, "-c", script]
    result = subprocess.run(words, cwd=installed, env=env, text=True, capture_output=True)
    assert result.stdout.strip() == "0.1.0", result.stderr


def test_where_no_checkout_is_no_hint_says_make(installed):
    script = """if True:
        from labkit.box import needs
        from labkit.box.guests import kernel
        print(needs.how_to_get("qemu-system-x86"), kernel.HINT)
        print(needs.how_to_get("openssh-server", "tar"))"""
    env = {**os.environ, "PYTHONPATH": str(installed)}
    words = [sys.executable, "-c", script]
    result = subprocess.run(words, cwd=installed, env=env, text=True, capture_output=True)
    assert "make" not in result.stdout and result.stdout.count("apt-get install") == 3, (
        result.stderr
    )
    assert "openssh-server tar`, which also starts an SSH server" in result.stdout
