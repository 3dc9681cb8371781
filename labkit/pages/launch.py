"""Links that open each study's notebook on Binder, from wherever a copy of labkit is published."""

import re
from collections.abc import Sequence
from urllib.parse import quote

from labkit.errors import BadInput
from labkit.running import notebook
from labkit.study import Study

BINDER = "https://mybinder.org/v2"
FORGES = {"github.com": "gh", "gitlab.com": "gl"}
"""Sites whose repositories Binder knows by owner and name; others are named by their address."""
ADDRESS = re.compile(r"https://(?P<host>[\w.-]+)/(?P<path>[\w.~-]+(?:/[\w.~-]+?)+)(?:\.git)?/?")


def link(address: str, file: str) -> str:
    """The link that opens a file of the repository at this address in JupyterLab."""
    match = ADDRESS.fullmatch(address)
    if not match:
        hint = "such as https://github.com/you/labkit; Binder opens public repositories only"
        raise BadInput(f"{address!r} is not an address of a repository", hint=hint)
    forge = FORGES.get(match["host"], "git")
    path_of = {"gh": match["path"], "gl": quote(match["path"], ""), "git": quote(address, "")}
    return f"{BINDER}/{forge}/{path_of[forge]}/HEAD?urlpath={quote(f'lab/tree/{file}', '')}"


def markdown(studies: Sequence[Study], address: str) -> str:
    """A table with a link for each study."""
    lines = ["| study | what it asks | open |", "|---|---|---|"]
    for study in studies:
        file = f"notebooks/{notebook.notebook(study.name).name}"
        lines.append(f"| `{study.name}` | {study.title} | [on Binder]({link(address, file)}) |")
    return "\n".join(lines)
