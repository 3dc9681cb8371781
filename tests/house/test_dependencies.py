"""Every way in brings the same packages: pip, conda, Binder, and the lock of `make`."""

import json
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROGRAMS = ("bash",)

HOME = Path(__file__).parents[2]
PYTHONS = ["3.11.2", "3.11.9", "3.12.3", "3.13.1"]


def requirements(lines):
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in found}


def project():
    return tomllib.loads((HOME / "pyproject.toml").read_text())["project"]


def direct():
    return requirements(project()["dependencies"])


def lock(python):
    lines = (HOME / ".ci/requirements.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    chosen = [one for one in found if not one.marker or one.marker.evaluate(here)]
    names = [canonicalize_name(one.name) for one in chosen]
    assert len(names) == len(set(names)), "one package at two versions"
    return dict(zip(names, chosen, strict=True))


def conda():
    return (HOME / "environment.yml").read_text()


def version(pinned):
    (only,) = pinned.specifier
    assert only.operator == "==" and not only.version.endswith("*"), f"{pinned} is no exact version"
    return only.version


def test_binder_builds_from_a_byte_for_byte_copy_of_the_environment():
    assert (HOME / "binder/environment.yml").read_bytes() == (HOME / "environment.yml").read_bytes()


def test_the_environment_names_the_dependencies_of_the_project_and_no_others():
    pinned = requirements(re.findall(r"^ {6}- (.+)$", conda(), re.MULTILINE))
    assert pinned.keys() == direct().keys()
    for name, one in pinned.items():
        assert version(one) in direct()[name].specifier
        assert version(one) == version(lock("3.12.3")[name]), "the lock says another version"


def test_the_environment_takes_only_python_and_pip_from_conda():
    outside = re.findall(r"^ {2}- (.+)$", conda(), re.MULTILINE)
    # Binder reads `python=X.Y` and nothing else: `python>=3.12` would give it 3.10.
    assert outside == ["conda-forge", "python=3.12", "pip", "pip:"]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_pins_every_dependency_within_the_range_of_the_project(python):
    assert python in Requirement(f"x{project()['requires-python']}").specifier
    pinned = lock(python)
    extras = project()["optional-dependencies"]
    tools = requirements([*extras["dev"], *extras["docs"]])
    for name, asked in {**direct(), **tools}.items():
        assert version(pinned[name]) in asked.specifier
    assert [str(one) for one in pinned.values() if not version(one)] == []


def test_the_lock_names_no_place_to_fetch_from():
    assert "://" not in (HOME / ".ci/requirements.txt").read_text()


def test_binder_and_the_scripts_can_be_run():
    scripts = ("binder/postBuild", ".ci/run", ".ci/venv", ".ci/lock", "labkit/programs/install.sh")
    for name in scripts:
        assert (HOME / name).stat().st_mode & 0o111, f"{name} is not executable"
    assert "set -euo pipefail" in (HOME / "binder/postBuild").read_text()


def test_what_builds_the_package_on_binder_comes_at_the_versions_of_the_lock():
    script = (HOME / "binder/postBuild").read_text()
    names = {*re.search(r"build='\^\((.+)\)=='", script)[1].split("|")}
    pinned, asked = lock("3.12.3"), requirements(distribution("hatchling").requires)
    asked = {name for name, one in asked.items() if not one.marker or one.marker.evaluate()}
    assert names == {"hatchling", "editables", *asked} and names <= pinned.keys()
    assert "pip install --no-deps --no-build-isolation -e ." in script


def test_binder_gets_only_system_packages_that_ubuntu_has():
    asked = (HOME / "binder/apt.txt").read_text().split()
    assert asked == ["openssh-server", "iproute2", "iputils-ping", "ethtool"]


def test_the_notebooks_of_binder_open_on_the_recorded_runs(tmp_path):
    shutil.copytree(HOME / "notebooks", tmp_path / "notebooks")
    lines = (HOME / "binder/postBuild").read_text().splitlines()
    script = [line for line in lines if line.startswith(("sed -i ", "if grep "))]
    assert len(script) == 2
    subprocess.run(["bash", "-euc", "\n".join(script)], cwd=tmp_path, check=True)
    for file in tmp_path.glob("notebooks/*.ipynb"):
        texts = ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"]]
        (chosen,) = [source for source in texts if source.startswith("where: str = ")]
        assert chosen.startswith('where: str = "recorded"')
