"""Files to hosts and from them: whole or not at all, checked on both sides, and no link followed.

Start with `copying.py`.
"""

from labkit.files.copying import MOST_IN_MEMORY, get, put
from labkit.files.pipe import CHUNK, STALL_SECONDS, Pipe

__all__ = ["CHUNK", "MOST_IN_MEMORY", "STALL_SECONDS", "Pipe", "get", "put"]
