"""Scripts for hosts, in shell and Perl: each is a file beside the module that sends it."""

from pathlib import Path


def beside(module: str, name: str) -> str:
    """The text of the file `name` beside a module, which is given by its `__file__`."""
    return Path(module).with_name(name).read_text("utf-8")


def by_nginx(module: str, name: str) -> str:
    """The text of a file that serves with nginx, with what all of these begin with."""
    return beside(__file__, "nginx.sh") + beside(module, name)
