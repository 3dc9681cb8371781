"""Scripts for hosts, in shell and Perl: each is a file beside the module that sends it."""

from pathlib import Path


def beside(module: str, name: str) -> str:
    """The text of the file `name` beside a module, which is given by its `__file__`."""
    return Path(module).with_name(name).read_text("utf-8")
