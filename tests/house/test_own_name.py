"""The package index has another project called labkit: nobody is told to install that."""

import re
import subprocess
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
FOREIGN = re.compile(r"pip[0-9.]* install\s+(?:-\S+\s+)*[\"'\\]*labkit\b(?!/)")


def test_nothing_tells_to_install_labkit_from_the_package_index():
    words = ["git", "-C", HOME, "ls-files", "-z"]
    names = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\0")
    texts = {
        file: file.read_bytes() for file in (HOME / name for name in names if name)
        if file.is_file() and not file.is_symlink() and file.suffix not in (".labkit", ".png")
    }  # fmt: skip
    said = {
        str(file.relative_to(HOME)): match[0]
        for file, text in texts.items()
        if file != Path(__file__)
        and b"pip" in text
        and (match := FOREIGN.search(text.decode("utf-8", "replace")))
    }
    assert said == {}
