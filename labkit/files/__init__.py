"""Files to hosts and from them: whole or not at all, checked on both sides, and no link followed.

Where the connection is cut, the copy goes on from what is there, which is checked first.
"""

from labkit.files.lanes import Moved, Tell
from labkit.files.pipe import CHUNK, STALL_SECONDS, WINDOW, Pipe
from labkit.files.single import MOST_IN_MEMORY, Copied, get, get_file, put

__all__ = [
    "CHUNK", "MOST_IN_MEMORY", "STALL_SECONDS", "WINDOW", "Copied", "Moved", "Pipe", "Tell", "get", "get_file", "put",
]  # fmt: skip
