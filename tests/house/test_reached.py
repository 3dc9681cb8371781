"""No foundation without a caller: all that labkit offers is used by a command or a notebook.

Names are followed, not types: a name that any reached code mentions counts as used.
"""

import ast
import json
import re
from pathlib import Path

from trees import nodes, tree

HOME = Path(__file__).resolve().parents[2]
PACKAGE = HOME / "labkit"
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A string that is a name, or several with dots or commas between: prose uses nothing.
WHOLE = re.compile(r"[A-Za-z_][\w.]*(, ?[A-Za-z_]\w*)*")
# Folders that are looked through, where each file is found by being there, and what is begun with.
SCANNED = (
    "checks", "commands", "events", "imports", "probes", "settings", "studies", "workloads",
)  # fmt: skip
BEGUN = (
    "__init__.py", "__main__.py", "cli.py", "programs/__main__.py",
    # the engine is named in the words
    "shop/__main__.py", "shop/mariadb.py", "shop/postgres.py",
    # the cell of the front page's notebook
    "front/front_page.py",
)  # fmt: skip
HANDED = (
    "Changes", "Claim", "Completed", "Faults", "Host", "Lab", "Plan", "Results", "Run", "Study",
)  # fmt: skip
"""Classes that a notebook has objects of: all of their public methods may be called."""
# What Python, argparse, json, papermill or another library calls by its name.
CALLED_BY_OTHERS = {
    "execute_managed_notebook", "listdir", "pretty_path",  # papermill
    "_freeze", "_lose", "_skew",  # `Faults`, by the name of the fault
    "_fill_text",  # argparse
    "do_GET", "log_message",  # http.server
    "_render_traceback_",  # IPython
    # paramiko, in place of its own
    "_parse_disconnect", "_verify_key", "preferred_ciphers", "preferred_keys", "preferred_macs",
    "read_all", "readline",
}  # fmt: skip
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def words(node):
    """All names and words of strings in a piece of code, the names of what it defines aside."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.keyword) and part.arg:
            found.add(part.arg)
        elif isinstance(part, ast.alias):
            found |= {part.name.rpartition(".")[2]}
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found |= {*WORD.findall(part.value)} if WHOLE.fullmatch(part.value) else set()
    return found


def pieces():
    """Each function, class and method of labkit, as (module, name) -> the words of its own code.

    What stands in a module beside them belongs to the module, and is reached with any part of it.
    """
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module, body = str(path.relative_to(PACKAGE)), tree(path).body
        plain = [n for n in body if not isinstance(n, (*DEFINED, ast.Import, ast.ImportFrom))]
        found[module, ""] = set().union(*map(words, plain))
        for node in body:
            if isinstance(node, ast.ClassDef):
                inner = [n for n in node.body if isinstance(n, DEFINED)]
                rest = [n for n in node.body if n not in inner]
                outside = [*rest, *node.bases, *node.keywords, *node.decorator_list]
                found[module, node.name] = set().union(*map(words, outside))
                for one in inner:
                    found[module, f"{node.name}.{one.name}"] = words(one)
            elif isinstance(node, DEFINED):
                found[module, node.name] = words(node)
    return found


def imports(path):
    """The modules of labkit that a file imports, wherever in it."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} if node.value.startswith("labkit.") else set()
            plain = node.value.endswith(".py") and "/" not in node.value
            beside = path.with_name(node.value) if plain else PACKAGE
            found |= {named(beside)} if beside.is_file() else set()
    return {file for name in found for file in files_of(name)}


def named(path):
    """The name under which a file is imported."""
    return ".".join(["labkit", *path.relative_to(PACKAGE).with_suffix("").parts])


def files_of(name):
    """The file of a module, and the __init__ of each room on the way there."""
    parts = name.split(".")
    if parts[0] != "labkit":
        return []
    rooms = ["/".join([*parts[1:n], "__init__.py"]) for n in range(1, len(parts) + 1)]
    return [one for one in [*rooms, "/".join(parts[1:]) + ".py"] if (PACKAGE / one).is_file()]


def begun_with():
    """The words of all notebooks' code, and what they import."""
    code = [
        "".join(cell["source"])
        for path in HOME.glob("notebooks/*.ipynb")
        for cell in json.loads(path.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    named = re.findall(r"(?:from|import) (labkit[.\w]*)", "\n".join(code))
    return {*WORD.findall("\n".join(code))}, {file for name in named for file in files_of(name)}


def loaded(files):
    """All modules that these import, and that those import, and so on."""
    found, waiting = set(), set(files)
    while waiting:
        found |= waiting
        waiting = set().union(*(imports(PACKAGE / one) for one in waiting)) - found
    return found


def unreached():
    """What no command and no notebook comes to: modules, and functions, classes, methods."""
    left = pieces()
    said, files = begun_with()
    scanned = {module for module, _ in left if module.split("/")[0] in SCANNED}
    there = loaded({*files, *scanned, *BEGUN})
    alone = {module for module, _ in left} - there
    left = {key: one for key, one in left.items() if key[0] in there}
    for key in [key for key in left if is_begun(*key, scanned)]:
        said |= left.pop(key)
    while waiting := [key for key in left if is_said(key, said, left)]:
        for key in waiting:
            said |= left.pop(key)
    return alone | {f"{module}: {name}" for module, name in left}


# What stands in a module beside functions and classes runs with its import; a public method of what
# a notebook gets in its hands is begun with, and so is what a folder is scanned for.
def is_begun(module, name, scanned):
    whole, _, method = name.partition(".")
    if not method:
        return not name or module in BEGUN or module in scanned
    return (whole in HANDED and not method.startswith("_")) or (
        module in scanned and method.startswith("on_")
    )


# A method needs its class; Python, Jupyter and the libraries below call some by their names.
def is_said(key, said, left):
    whole, _, method = key[1].partition(".")
    if not method:
        return whole in said
    by_others = method.startswith(("__", "_repr_", "_ipython_")) or method in CALLED_BY_OTHERS
    return (key[0], whole) not in left and (method in said or by_others)


def test_all_that_labkit_offers_is_reached_by_a_command_or_a_notebook():
    assert unreached() == set(), "wire it in, or delete it with its tests"
