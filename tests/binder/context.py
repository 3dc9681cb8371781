"""What repo2docker sends to Docker, as a folder: context.py CHECKOUT FOLDER BASE-IMAGE."""

import os
import sys
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from repo2docker.app import Repo2Docker  # type: ignore[import-not-found]


class Unpacking:
    """In Docker's place: what it is to build is unpacked, and nothing is built."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def build(self, *, fileobj: BinaryIO, **_: object) -> Iterator[str]:
        """Take the context as a client of Docker would."""
        with tarfile.open(fileobj=fileobj) as context:
            context.extractall(self.folder, filter="tar")
        return iter(())


def main(checkout: str, folder: str, base: str) -> None:
    """Write the context of the build pack that repo2docker chooses."""
    os.chdir(checkout)
    packs = (pack(base_image=base) for pack in Repo2Docker().buildpacks)
    chosen = next(pack for pack in packs if pack.detect())
    chosen.platform = "linux/amd64"
    user = {"NB_USER": "jovyan", "NB_UID": "1000"}
    list(chosen.build(Unpacking(folder), "labkit-binder", 0, user, [], {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
