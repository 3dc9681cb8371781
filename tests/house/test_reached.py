"""No foundation without a caller: each definition is used by another, a notebook, or a registry.

What an import names is followed to its very definition; a method counts as used where an attribute
of its name is asked for outside the method itself.
"""

import ast
import json
import re
from collections import defaultdict
from pathlib import Path

from trees import tree

HOME = Path(__file__).resolve().parents[2]
PACKAGE = HOME / "labkit"
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)
WORD = re.compile(r"[A-Za-z_]\w*")
SAID = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# What each registry takes out of a module of its folder, by name or because of what it is.
TAKEN = {"imports": {"read", "left_out", "parts"},
         "studies": {"study"}}  # fmt: skip
CLASSES = ("events", "probes", "settings", "workloads")
BY_KIND = re.compile(r"on_\w+")
# What Python, argparse, json, papermill or another library calls by its name, or a test looks at.
BY_OTHERS = {
    "PROGRAMS",  # `labkit.programs.declared` reads it in the text of a module
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


def modules():
    """The tree of each module of labkit, by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(HOME).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = tree(path)
    return found


def notebooks():
    """The tree of all code of each notebook."""
    for path in HOME.glob("notebooks/*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        yield f"notebook {path.stem}", ast.parse(re.sub(r"^[%!].*", "", code, flags=re.MULTILINE))


def tools():
    """The tree of each tool of the docs, which a checkout runs."""
    for path in sorted(HOME.glob("notebooks/docs/site/*.py")):
        yield f"tool {path.stem}", tree(path)


def values(node):
    """The names that an assignment gives."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


def imported(code):
    """The full name of each name that is imported, wherever."""
    found = {}
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.asname: name.name for name in node.names if name.asname}
    return found


class Uses:
    """Who uses what: by full name, and by the name of an attribute."""

    def __init__(self, known):
        self.known, self.names, self.attributes = known, defaultdict(list), defaultdict(list)
        self.held = set()
        """Modules that somebody holds as a value: their functions are attributes."""

    def of(self, module, code):
        """Note all that a module or notebook uses."""
        self.env = imported(code)
        for node in code.body:
            names = values(node) if isinstance(node, ast.Assign | ast.AnnAssign) else []
            names = [node.name] if isinstance(node, DEFINED) else names
            self.env |= {name: f"{module}.{name}" for name in names}
        self._walk(code, ())

    def _walk(self, node, inside):
        for child in ast.iter_child_nodes(node):
            self._look(child, node, inside)
            self._walk(child, (*inside, child) if isinstance(child, DEFINED) else inside)

    def _look(self, node, above, inside):
        if isinstance(node, ast.Attribute):
            self.attributes[node.attr].append(inside)
        if full := self._named(node):
            self.names[full].append(inside)
            if full in self.known and not isinstance(above, ast.Attribute):
                self.held.add(full)

    def _named(self, node):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return self.env.get(node.id)
        if isinstance(node, ast.Attribute):
            of = self._named(node.value)
            return f"{of}.{node.attr}" if of in self.known else None
        return None


def handed_on(known, uses):
    """Whoever imports a name from where it was only imported to uses its definition."""
    for module, code in known.items():
        for name, full in imported(code).items():
            uses.names[full] += uses.names[f"{module}.{name}"]


def taken(module, name, node):
    """Whether a registry, or somebody else's code, takes it by its name."""
    room = module.split(".")[1] if "." in module else ""
    decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
    kind = {"commands": "verb", "checks": "check"}.get(room)
    is_row = bool(kind) and any(re.match(rf"(\w+\.)?{kind}\(", one) for one in decorators)
    public_class = isinstance(node, ast.ClassDef) and not name.startswith("_")
    return (
        name.startswith("__") or name in BY_OTHERS or name in TAKEN.get(room, ())
        or is_row or (room in CLASSES and public_class)
    )  # fmt: skip


def definitions(known):
    """Each definition at the top of a module: its module, name and node."""
    for module, code in known.items():
        for node in code.body:
            names = [node.name] if isinstance(node, DEFINED) else []
            if isinstance(node, ast.Assign | ast.AnnAssign):
                names = values(node)
            yield from ((module, name, node) for name in names)


def documented():
    """Words of code in the pages of documentation: what a user may type."""
    pages = [*HOME.glob("notebooks/docs/*.md"), PACKAGE / "running/skeleton/notebook.md"]
    return {w for page in pages for c in SAID.findall(page.read_text("utf-8"))
            for w in WORD.findall(c)}  # fmt: skip


def unused():
    """What nothing else uses."""
    known = modules()
    uses = Uses(known)
    for module, code in [*known.items(), *notebooks(), *tools()]:
        uses.of(module, code)
    handed_on(known, uses)
    found, said = [], documented()
    for module, name, node in definitions(known):
        used = [*uses.names[f"{module}.{name}"]]
        used += uses.attributes[name] if module in uses.held else []
        if not (taken(module, name, node) or any(node not in inside for inside in used)):
            found.append(f"{module}.{name}")
        for one in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(one, METHODS) and not (
                one.name.startswith(("__", "_repr_", "_ipython_")) or one.name in BY_OTHERS
                or BY_KIND.fullmatch(one.name) or one.name in said
                or any(one not in inside for inside in uses.attributes[one.name])
            ):  # fmt: skip
                found.append(f"{module}.{name}.{one.name}")
    return found


def test_all_that_labkit_defines_is_used_elsewhere_or_taken_by_a_registry():
    assert unused() == [], "use it, or delete it with its tests"
