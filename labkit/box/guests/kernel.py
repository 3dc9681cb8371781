"""A kernel for guests of QEMU: one fetched for them, or the machine's own if it can be read."""

from __future__ import annotations

import lzma
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.box.needs import CHECKOUT
from labkit.box.rootless.inside import inside
from labkit.errors import BoxError
from labkit.machine import account

FETCHES = Path("/var/cache/labkit/kernel")
"""`.ci/guest-kernel` puts Debian's kernels here: unpacked, not installed."""
HINT = (
    "`make system` fetches one with all that they need"
    if CHECKOUT
    else "`sudo apt-get install linux-image-amd64` brings one; this machine may boot it, too"
)
WORDS = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on cryptomgr.notests=1"
"""Its parameters when QEMU boots it; what it leaves out is seconds where it is emulated."""
DRIVERS = ("virtio_pci", "virtio_net", "virtio_blk", "virtio_rng")
EXTRAS = ("sch_netem", "sch_tbf", "sch_htb", "sch_fq", "e1000")
"""Loaded where the kernel has them."""
SHARING = ("9p", "9pnet_virtio")
"""Drivers for a guest that has its host's files."""
CONTAINERS = ("crc32c_generic", "bridge", "veth", "nft_chain_nat", "nft_compat", "xt_MASQUERADE",
              "xt_conntrack")  # fmt: skip
"""Loaded where the kernel has them by a guest that runs containers."""
ARRAYS = ("raid456", "dm_thin_pool", "dm_delay")
"""Brought where the kernel has them, and loaded by what makes arrays of disks."""
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class Kernel:
    """An image, and the folder of its modules."""

    image: Path
    modules: Path

    def ordered(self) -> list[Path]:
        """The modules that a guest needs, each after those that it depends on."""
        listed = self.modules / "modules.builtin"
        lines = listed.read_text().splitlines() if listed.exists() else []
        drivers = {*self._files(), *(_word(Path(line).name) for line in lines)}
        for name in DRIVERS:
            if name not in drivers:
                raise BoxError(f"the kernel {self.image} has no {name}", hint=HINT)
        return self._with_theirs((*DRIVERS, *EXTRAS))

    def listed(self, loader: bool) -> dict[str, list[Path]]:
        """The modules of an image, in order, by the list that names them."""
        if loader:
            sharing = self._with_theirs((*DRIVERS, *EXTRAS, *SHARING))
            return {"order": sharing, "contained": self._with_theirs(CONTAINERS)}
        return {"order": self.ordered(), "arrays": self._with_theirs(ARRAYS)}

    def _with_theirs(self, names: Sequence[str]) -> list[Path]:
        files, order = self._files(), list[str]()

        def visit(name: str) -> None:
            if name in order or name not in files:
                return
            match = DEPENDS.search(content(files[name]))
            for needed in match[1].decode().split(",") if match else ():
                visit(_word(needed))
            order.append(name)

        for name in names:
            visit(name)
        return [files[name] for name in order]

    def _files(self) -> dict[str, Path]:
        return {_word(path.name): path for path in self.modules.rglob("*.ko*")}


def cache() -> Path:
    """The folder that keeps what was made once: for the whole machine, or for a plain user."""
    if os.geteuid() == 0 and not inside():
        return Path("/var/cache/labkit")
    return account.cache()


def find(*drivers: str) -> Kernel | None:
    """A kernel whose modules can be read and that has these drivers; the fetched ones first."""
    names = drivers or (DRIVERS[1],)
    for root in (FETCHES, Path("/")):
        for image in sorted((root / "boot").glob("vmlinuz-*"), reverse=True):
            modules = root / "lib/modules" / image.name.removeprefix("vmlinuz-")
            files = {name: (f"{name}.ko", f"{name}.ko.xz") for name in names}
            if all(any(any(modules.rglob(end)) for end in ends) for ends in files.values()):
                with suppress(OSError), image.open("rb") as file:
                    if file.read(1):
                        return Kernel(image, modules)
    return None


def content(module: Path) -> bytes:
    """The module as the kernel takes it."""
    return lzma.decompress(module.read_bytes()) if module.suffix == ".xz" else module.read_bytes()


# A module's file may have dashes where its name has underscores.
def _word(name: str) -> str:
    return name.split(".ko")[0].replace("-", "_")
