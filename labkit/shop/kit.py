"""One file that any host with Python 3.9 can run: the shop's own files, packed.

With those of another folder it is a program of that one, which asks a database as the shop does.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import lru_cache
from pathlib import Path

PLACE = Path(__file__).parent
SERVE_DATABASE = PLACE / "serve_database.sh"
LONG_AGO = (2020, 1, 1, 0, 0, 0)
START = "import runpy\nrunpy.run_module('labkit.{}', run_name='__main__')\n"
SHOP = PLACE.name


@lru_cache(maxsize=2)
def packed(program: str = SHOP) -> bytes:
    """The file; the same for the same sources, to the byte."""
    parts = {f"labkit/{folder}/{path.name}": path.read_bytes()
             for folder in {SHOP, program} for path in PLACE.with_name(folder).iterdir()
             if path.suffix in (".py", ".sql")}  # fmt: skip
    parts["labkit/errors.py"] = PLACE.with_name("errors.py").read_bytes()
    parts |= {"labkit/__init__.py": b"", "__main__.py": START.format(program).encode()}
    content_all = io.BytesIO()
    with zipfile.ZipFile(content_all, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(parts.items()):
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content)
    return content_all.getvalue()


def name(program: str = SHOP) -> str:
    """The name of the packed file on a host; different content has a different name."""
    return f"labkit-{program}-{hashlib.sha256(packed(program)).hexdigest()[:16]}.pyz"
