"""Files to hosts and from them: whole or not at all, checked on both sides, and no link followed.

Start with `sending.py` and `receiving.py`.
"""

from labkit.files.pipe import CHUNK, STALL_SECONDS, Pipe
from labkit.files.receiving import MOST_IN_MEMORY, get
from labkit.files.sending import put

__all__ = ["CHUNK", "MOST_IN_MEMORY", "STALL_SECONDS", "Pipe", "get", "put"]
