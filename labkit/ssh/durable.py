"""Lines that are added to a file for good: whole, or not at all, and never by writing it again."""

import os
from pathlib import Path

from labkit.errors import LabkitError


class NotKept(LabkitError):
    """A line could not be written down."""


def append(file: Path, *lines: str) -> None:
    """Add lines at the end of a file that only its owner may read, and wait for the disk."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb+") as stream:
            # One write: whoever else adds a line at this moment does so before it or after it.
            stream.write(
                "".join([_mend(stream.fileno()), *(f"{line}\n" for line in lines)]).encode()
            )
            stream.flush()
            os.fsync(stream.fileno())
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise NotKept(f"cannot write {file}", said=str(error)) from error


# Somebody's editor may have left the last line without its end.
def _mend(number: int) -> str:
    size = os.fstat(number).st_size
    return "\n" if size and os.pread(number, 1, size - 1) != b"\n" else ""
