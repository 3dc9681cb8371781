"""One file from a host: whole or not at all, never more than was asked for, and checked."""

import hashlib

from labkit.files.pipe import CHUNK, Carries
from labkit.files.place import Place, twice
from labkit.machine.scripts import beside

MOST_IN_MEMORY = 128 << 20
# folder name follow: the bytes, and their hash on stderr
GET = beside(__file__, "get.sh")


def get(host: Carries, path: str, *, most: int = MOST_IN_MEMORY, follow: bool = False) -> bytes:
    """The bytes of a file, no more than `most`; a link is read through only with `follow`."""
    place = Place.at(host.name, path)
    return twice(lambda: _receive(host, place, most, follow))


def _receive(host: Carries, place: Place, limit: int, follow: bool) -> bytes:
    content = bytearray()
    with host.raw(*place.words(GET, "yes" if follow else "")) as pipe:
        while part := pipe.recv(CHUNK):
            content += part
            if len(content) > limit:
                raise place.refused(
                    "hold", f"it has more than {limit} bytes", "allow more with most="
                )
        code, text = pipe.ended()
    if code or len(text.splitlines()) != 1:
        hint = "follow=True reads what it points to" if "it is a link" in text else ""
        raise place.refused("read", text, hint)
    if text.split()[:1] != [hashlib.sha256(content).hexdigest()]:
        hint = "did it change while it was copied? otherwise suspect a disk or its memory"
        raise place.refused("read", "the hashes of both sides differ", hint)
    return bytes(content)
