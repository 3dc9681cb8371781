"""Programs for hosts are files, which their own checkers can read; none is left in Python."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from trees import nodes

PROGRAMS = ("perl", "shellcheck")

HOME = Path(__file__).resolve().parents[2]
SHELL = re.compile(r"\b(fi|done|esac)\b|\$\(|\"\$|\$[0-9@#]|\bexit\b|\bmy \$")
LONGEST = 3
# PostgreSQL numbers the values of a statement as a shell does its words.
STATEMENT, VALUE = re.compile(r"(SELECT|INSERT) "), re.compile(r"\$[0-9]")
# Of shellcheck's findings, those that are no fault in these programs.
NO_FAULT = {
    "SC1091": "files that are only there on the host",
    "SC2015": "`a && b || c`, where b cannot fail",
    "SC2016": "words for another shell, quoted on purpose",
    "SC2030": "a subshell is to keep its variables to itself",
    "SC2031": "as SC2030",
    "SC2034": "set for another part of the same program",
    "SC2154": "set by another part of the same program",
}
# Read, and meant as it is: this list may only get shorter.
MEANT = {
    "box/containers/container.sh": {"SC2013"}, "box/guests/guest_boot.sh": {"SC2086"},
    "box/one_of.sh": {"SC2012"}, "files/copying_put.sh": {"SC2046"},
    "job/runner/look.sh": {"SC2086"}, "job/runner/run.sh": {"SC2209"},
    "runs/facts_others.sh": {"SC2295"}, "settings/_guest_restarted.sh": {"SC2086"},
    "settings/neighbour_awake_cpus.sh": {"SC1007"}, "shop/serve_web.sh": {"SC2174"},
    "shop/serve_database.sh": {"SC2012", "SC2046", "SC2174"},
}  # fmt: skip
PACKAGE = HOME / "labkit"
FINDING = re.compile(r"^(?P<file>[^:]+):.*\[(?P<code>SC\d+)\]$", re.MULTILINE)


def texts(path):
    """The strings of a module that are no docstrings; of those with values in them, the rest."""
    inside = {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr)
              for part in node.values}  # fmt: skip
    alone = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "VALUE" for p in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in inside | alone:
            yield node.value if isinstance(node.value, str) else ""


def programs(path):
    long = [text for text in texts(path) if sum(map(bool, text.split("\n"))) > LONGEST]
    return [text for text in long if len(SHELL.findall(without_values(text))) > 1]


def without_values(text):
    return VALUE.sub("", text) if STATEMENT.match(text) else text


def test_programs_in_shell_and_perl_are_files_not_strings():
    found = {str(path.relative_to(PACKAGE)): programs(path) for path in PACKAGE.rglob("*.py")}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck (package shellcheck)")
def test_shellcheck_finds_no_fault_in_the_programs_for_hosts():
    files = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.sh"))
    words = ["shellcheck", "-s", "sh", "-f", "gcc", "-e", ",".join(NO_FAULT), *files]
    result = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True)
    assert not result.stderr
    found: dict[str, set[str]] = {}
    for match in FINDING.finditer(result.stdout):
        found.setdefault(match["file"], set()).add(match["code"])
    assert found == MEANT, result.stdout


@pytest.mark.skipif(not shutil.which("perl"), reason="no perl")
def test_perl_reads_its_programs():
    files = sorted(PACKAGE.rglob("*.pl"))
    assert files
    for path in files:
        result = subprocess.run(["perl", "-c", str(path)], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
