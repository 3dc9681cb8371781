"""Which programs a file calls: words where a command begins, in Python and in shell."""

import ast
import re
import shutil
import tomllib
from functools import cache

from trees import nodes

from labkit.programs.packages import SEARCH_PATH, TABLE, packages, unpackaged


@cache
def always():
    """Programs that every Linux has, so that nobody has to declare them."""
    return frozenset(tomllib.loads(TABLE.read_text("utf-8"))["always"].split())


METHODS = {
    "run", "check", "stream", "start", "begin", "raw", "Popen", "check_output", "check_call",
    "which",
}  # fmt: skip
WORD = re.compile(r"[a-z][\w.+-]*")
KEYWORDS = "do|then|else|elif|if|while|until|exec"
# Where a command begins in shell: at a line's begin, behind what joins commands, behind keywords.
BEGINS = re.compile(
    rf"(?:^|[|;&({{`!]|\$\(|(?<![\w-])(?:{KEYWORDS}|command -v|timeout \S+)(?=\s))[ \t]*"
    rf"(?!(?:{KEYWORDS}|command -v|timeout \S+)\b)(?:[A-Z_]+=\S* )*"
    r"([a-z][\w.+-]*)(?=[ \t\n;|&)`]|$)(?![ \t]*\))",
    re.MULTILINE,
)
# A script of shell has one of these; a sentence has none.
SHELL = re.compile(r"\$\(|\$\{|\"\$|'\$|>/dev/null|; do\b|; then\b|\bexec |2>|<<|\|\| |&& |\$[1@*]")
# What the README asks for, and the tools by which a system installs packages.
GIVEN = {"make", "git", "apt-get", "dpkg-query", "apt-cache", "update-rc.d", "apt"}
# Words of our own scripts, and of languages that stand in strings as scripts do.
SAID = {
    "as", "at", "case", "cd", "change", "comm", "container", "ed", "exit", "export", "file",
    "for", "free", "from", "go", "groups", "guest", "hello", "host", "idle", "import", "in",
    "install", "is", "join", "kvm", "last", "leave", "less", "link", "linux", "local", "look",
    "more", "node", "nologin", "open", "pip", "pwd", "read", "reboot", "red", "replace",
    "reset", "restore", "results", "return", "route", "run", "script", "service", "set", "show",
    "shutdown", "size", "split", "strip", "sum", "time", "tool", "top", "trap", "users", "w",
    "wait", "watch", "who", "write",
}  # fmt: skip


@cache
def known(word):
    """Whether it is a program: of the table, or of this machine."""
    listed = {program for package in packages() for program in package.programs}
    return word in listed | unpackaged().keys() or (
        word not in SAID and bool(shutil.which(word, path=SEARCH_PATH))
    )


@cache
def called(path):
    """The programs that a file calls, but for those that are on every Linux."""
    found = _in_python(nodes(path)) if path.suffix == ".py" else _in_shell(path.read_text("utf-8"))
    return set(found) - always() - GIVEN


def _in_shell(text):
    text = re.sub(r"(^|\s)#.*", r"\1", text)
    return [word for word in BEGINS.findall(text) if known(word)]


def _in_python(parts):
    prose = {id(node.value) for node in parts if isinstance(node, ast.Expr)}
    for node in parts:
        if isinstance(node, ast.Call):
            yield from _asked(node)
        if isinstance(node, ast.Tuple | ast.List):
            yield from _begins(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from _in_text(node.value)


def _asked(node):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    words = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
    if name in METHODS and words and isinstance(words[0], str) and WORD.fullmatch(words[0]):
        yield from (word for word in words if known(word))


# Two bare words are names, such as of two formats.
def _begins(node):
    words = [elt.value if isinstance(elt, ast.Constant) else None for elt in node.elts]
    bare = all(isinstance(word, str) and word.isalpha() for word in words)
    if len(words) < 2 or (len(words) == 2 and bare) or not isinstance(words[0], str):
        return
    if WORD.fullmatch(words[0]) and known(words[0]):
        yield words[0]


def _in_text(text):
    if SHELL.search(text):
        yield from _in_shell(text)
