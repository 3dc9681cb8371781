"""No foundation without a caller: each definition of labkit is named somewhere else than here.

By another definition, a notebook, a tool of the docs, a page of code that a user may type, or taken
by a registry.
"""

import ast
import json
import re
from pathlib import Path

from trees import nodes, tree

HOME = Path(__file__).resolve().parents[2]
PACKAGE = HOME / "labkit"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# What each registry takes out of a module of its folder, by name or because of what it is.
TAKEN = {"imports": {"read", "left_out", "parts"}, "studies": {"study"}}
CLASSES = ("events", "probes", "settings", "workloads")
ROW = re.compile(r"(\w+\.)?(verb|check)\(")
BY_NAME = re.compile(r"__\w+|on_\w+|_repr_\w+|_ipython_\w+")
# What Python, argparse, json, papermill or another library calls by its name, or a test looks at.
BY_OTHERS = {
    "PROGRAMS",  # `labkit.programs.packages` reads it in the text of a module
    "execute_managed_notebook",  # papermill
    "dask_setup",  # Dask, on a worker
    "_fill_text",  # argparse
    "do_GET", "do_POST", "do_PUT", "parse_request", "log_message", "server_bind",  # http.server
    "_render_traceback_",  # IPython
    # paramiko, in place of its own; PRIVATE says which of them a new version lacks
    "PRIVATE", "_parse_disconnect", "_verify_key", "read_all", "readline",
    "with_parameters",  # the notebook that each new study begins with
    "FrontPage",  # the cell of the front page's notebook, which is written where it is wanted
}  # fmt: skip


def cells():
    """The tree of all code of each notebook."""
    for path in HOME.glob("notebooks/*.ipynb"):
        parts = json.loads(path.read_text("utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in parts if c["cell_type"] == "code")
        yield from ast.walk(ast.parse(re.sub(r"^[%!].*", "", code, flags=re.MULTILINE)))


def named(node):
    """The name that something of a module asks for; empty where it asks for none."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Load) else ""
    return getattr(node, {ast.Attribute: "attr", ast.alias: "name"}.get(type(node), ""), "")


def definitions(path):
    """What a module defines that no registry takes: at its top, and the methods of its classes."""
    room = path.relative_to(PACKAGE).parts[0]
    for node in tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for one in targets for n in ast.walk(one) if isinstance(n, ast.Name))
        if isinstance(node, ast.ClassDef):
            yield from (one.name for one in node.body if isinstance(one, FUNCTIONS))
        is_class = isinstance(node, ast.ClassDef) and room not in CLASSES
        rows = (ROW.match(ast.unparse(one)) for one in getattr(node, "decorator_list", ()))
        if is_class or (isinstance(node, FUNCTIONS) and not any(rows)):
            yield node.name


def test_all_that_labkit_defines_is_used_elsewhere_or_taken_by_a_registry():
    modules, pages = [*PACKAGE.rglob("*.py")], [*HOME.glob("notebooks/docs/*.md")]
    tools = HOME.glob("notebooks/docs/site/*.py")
    used = {named(node) for path in (*modules, *tools) for node in nodes(path)}
    used |= {named(node) for node in cells()} | BY_OTHERS
    for page in (*pages, PACKAGE / "running/skeleton/notebook.md"):
        used |= {word for code in CODE.findall(page.read_text("utf-8"))
                 for word in re.findall(r"\w+", code)}  # fmt: skip
    unused = {
        f"{path.relative_to(HOME)}: {name}" for path in modules for name in definitions(path)
        if name not in used | TAKEN.get(path.relative_to(PACKAGE).parts[0], set())
        and not BY_NAME.fullmatch(name)
    }  # fmt: skip
    assert unused == set(), "use it, or delete it with its tests"
