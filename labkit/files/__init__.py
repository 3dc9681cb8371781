"""Files to hosts and from them: whole or not at all, checked on both sides, and no link followed.

Start with `copying.py`.
"""

from labkit.files.copying import MOST_IN_MEMORY, get, put
from labkit.files.pipe import Pipe

__all__ = ["MOST_IN_MEMORY", "Pipe", "get", "put"]
