"""Archives in the form that a kernel unpacks as its first root (cpio, "newc")."""

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

MAGIC = "070701"
END = "TRAILER!!!"
CONSOLE = (5, 1)


class Archive:
    """Grows by what is added to it; parents come first, as the kernel wants them."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._folders: set[str] = {"/"}
        self._count = 0

    def folders(self, paths: Iterable[str], mode: int = 0o755) -> None:
        """Add folders, and those that they are in."""
        for path in paths:
            for folder in [*reversed(Path(path).parents), Path(path)]:
                if (name := str(folder)) not in self._folders:
                    self._folders.add(name)
                    self._add(name, stat.S_IFDIR | mode)

    def files(self, content: Mapping[str, bytes], mode: int = 0o755) -> None:
        """Add files by path."""
        for path, text in content.items():
            self.folders([str(Path(path).parent)])
            self._add(path, stat.S_IFREG | mode, text)

    def console(self) -> None:
        """Add the device that the first process speaks to."""
        self.folders(["/dev"])
        self._add("/dev/console", stat.S_IFCHR | 0o600, device=CONSOLE)

    def whole(self) -> bytes:
        """The archive, ended; two that follow each other are read as one."""
        self._add(END, 0)
        return bytes(self._out)

    def _add(
        self, path: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        self._count += 1
        name = path.lstrip("/").encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        head = MAGIC + "".join(f"{number:08x}" for number in numbers)
        for part in (head.encode() + name, content):
            self._out += part
            self._out += b"\0" * (-len(self._out) % 4)
