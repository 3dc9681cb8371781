"""Every place that other users share is listed, with its guard and the attack that was tried."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

from trees import nodes

HOME = Path(__file__).resolve().parents[2]
PACKAGE = HOME / "labkit"
LISTED = tomllib.loads((Path(__file__).parent / "shared_places.toml").read_text())
PLACE = re.compile(r"(?<![\w.$})/])/(?:var/tmp|tmp|dev/shm|run)(?![\w-])[\w./-]*")
PORT = re.compile(
    r"127\.0\.0\.\d|\blocalhost\b|AF_UNIX|\bunix:/|(?<!mount )--bind|listen_addresses"
    r"|\bListenAddress|\blisten \$|-qmp|uml_dir"
)
CALLS = {"bind", "serving", "serving_on", "AF_UNIX"}
"""What listens, or has a host listen."""
PYTHON_MAKES = {"TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile", "mkdtemp"}
SCRIPTS = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".sh", ".pl", ".c"))
MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def texts(path):
    """The strings of a module that are no docstrings, or the lines of a script without comments."""
    if path.suffix != ".py":
        lines = path.read_text("utf-8").splitlines()
        return [line for line in lines if not line.lstrip().startswith("#")]
    alone = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    return [node.value for node in nodes(path) if isinstance(node, ast.Constant)
            and isinstance(node.value, str) and id(node) not in alone]  # fmt: skip


@cache
def named(pattern):
    """Of each file of labkit the words in it that a pattern finds."""
    found = {}
    for path in (*MODULES, *SCRIPTS):
        words = {word for text in texts(path) for word in pattern.findall(text)}
        if path.suffix == ".py" and pattern is PORT:
            words |= {node.func.attr for node in nodes(path) if isinstance(node, ast.Call)
                      and isinstance(node.func, ast.Attribute)} & CALLS  # fmt: skip
            words |= {node.func.id for node in nodes(path) if isinstance(node, ast.Call)
                      and isinstance(node.func, ast.Name)} & CALLS  # fmt: skip
        if words:
            found[str(path.relative_to(PACKAGE))] = words
    return found


def covers(entry, file):
    return any(Path(file).match(one) or file.startswith(f"{one}/") for one in entry["in"])


def test_every_shared_place_in_the_code_is_listed():
    unlisted = {
        f"{file}: {place}" for file, places in named(PLACE).items() for place in places
        if not any(covers(entry, file) and place.startswith(entry["place"])
                   for entry in LISTED["place"])
    }  # fmt: skip
    assert not unlisted, "add them to shared_places.toml, with a guard and an attack"


def test_every_file_that_listens_or_speaks_of_loopback_is_listed():
    files = {file for file in named(PORT) if not any(covers(e, file) for e in LISTED["port"])}
    assert not files, "add them to shared_places.toml, with a guard and an attack"


def test_nothing_is_listed_that_is_not_in_the_code():
    places, ports = named(PLACE), named(PORT)
    for entry in LISTED["place"]:
        assert any(covers(entry, file) and place.startswith(entry["place"])
                   for file, some in places.items() for place in some), entry  # fmt: skip
    for entry in LISTED["port"]:
        assert any(covers(entry, file) for file in ports), entry


def test_every_attack_that_is_listed_is_a_test():
    for entry in (*LISTED["place"], *LISTED["port"]):
        assert entry["guard"]
        if "attack" in entry:
            file, _, name = entry["attack"].partition("::")
            assert f"def {name}(" in (HOME / file).read_text(), entry["attack"]
        else:
            assert entry["why"], "without an attack it says why there is none"


def test_folders_for_a_while_have_names_that_nobody_can_foresee():
    """Python's and mktemp's own are made at once for their user alone, or not at all."""
    for path in MODULES:
        used = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name) and node.value.id == "tempfile"}  # fmt: skip
        assert used <= PYTHON_MAKES | {"gettempdir"}, path
    for path in (*MODULES, *SCRIPTS):
        assert not [text for text in texts(path) if re.search(r"mktemp\b.*\s-[a-z]*u", text)], path
