"""A database that the reader has, and labkit only asks: where it listens, and its password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import BadInput

FORM = re.compile(r"[\w.-]{1,63}@\S+:\d{1,5}", re.ASCII)
KEYS = ("database", "database_password")


@dataclass(frozen=True)
class OwnDatabase:
    """Its address, and the file on this machine that holds the password and nothing else."""

    address: str
    password: Path = field(repr=False)

    @classmethod
    def of(cls, path: Path, role: str, text: Mapping[str, str]) -> OwnDatabase | None:
        """The database that a host of a lab.toml names, if it names any."""
        address, password = (text[key] for key in KEYS)
        if not address and not password:
            return None
        if not FORM.fullmatch(address) or not password:
            raise BadInput(
                f"{path}: [hosts.{role}] needs both database and database_password",
                hint='database = "USER@HOST:PORT", database_password = "FILE" beside the lab.toml',
            )
        return cls(address, path.parent / Path(password).expanduser())

    def word(self) -> bytes:
        """The password; a file that others may read is refused."""
        try:
            if self.password.stat().st_mode & 0o077:
                raise BadInput(
                    f"{self.password}: others may read the password of {self.address}",
                    hint=f"chmod 600 {self.password}",
                )
            return self.password.read_bytes().strip() + b"\n"
        except OSError as unread:
            raise BadInput(
                f"{self.password}: cannot read the password of {self.address}", said=str(unread)
            ) from None
