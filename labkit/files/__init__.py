"""Files to hosts and from them: whole or not at all, checked on both sides, and no link followed.

Where the connection is cut, the copy goes on from what is there, which is checked first.

Start with `sending.py` and `receiving.py`.
"""

from labkit.files.copied import Copied
from labkit.files.lanes import Moved, Tell
from labkit.files.listing import MOST_BYTES, MOST_FILES
from labkit.files.pipe import CHUNK, STALL_SECONDS, WINDOW, Pipe
from labkit.files.receiving import MOST_IN_MEMORY, get, get_file
from labkit.files.sending import put
from labkit.files.tree_down import get_tree
from labkit.files.tree_up import put_tree

__all__ = [
    "CHUNK", "MOST_BYTES", "MOST_FILES", "MOST_IN_MEMORY", "STALL_SECONDS", "WINDOW", "Copied",
    "Moved", "Pipe", "Tell", "get", "get_file", "get_tree", "put", "put_tree",
]  # fmt: skip
