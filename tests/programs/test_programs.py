"""Every program that is called is declared, and the table says which package brings it."""

import ast
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
from trees import nodes

from labkit.box import this_machine
from labkit.errors import BadInput, Unknown
from labkit.programs import packages as table
from labkit.programs.packages import (
    SEARCH_PATH,
    declared,
    declared_under,
    of_class,
    packages,
    unpackaged,
)
from labkit.workloads.sockperf import Sockperf


@cache
def always():
    """Programs that every Linux has, so that nobody has to declare them."""
    return frozenset(tomllib.loads(table.TABLE.read_text("utf-8"))["always"].split())


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


PROGRAMS = ("ping", "strace")  # in texts that are looked through
HOME = Path(__file__).parents[2]
OURS = (HOME / "labkit", HOME / "tests")
FILES = [file for place in OURS for kind in ("py", "sh") for file in place.rglob(f"*.{kind}")]
TABLE = table.TABLE.relative_to(HOME)


@pytest.mark.slow
def test_every_program_that_a_file_calls_is_one_that_the_file_declares():
    undeclared = {
        str(file.relative_to(HOME)): sorted(called(file) - set(declared(file)))
        for file in FILES
        if called(file) - set(declared(file))
    }
    assert undeclared == {}, "add the words to the file's PROGRAMS"


@pytest.mark.slow
def test_every_declared_program_has_its_row_or_its_maker():
    known = {program for package in table.packages() for program in package.programs}
    known |= table.unpackaged().keys() | always()
    assert set(declared_under(OURS)) - known == set(), f"add their packages to {TABLE}"


def test_a_call_that_nobody_declared_is_found_wherever_it_stands(tmp_path):
    for text in (
        'host.check("strace", "-p", pid)',
        'subprocess.run(["strace", "-f", *words])',
        'LOOK = ("strace", "-c", "true")',
        'if shutil.which("strace"): pass',
        'host.run("sh", "-c", "true && strace -p $1 2>/dev/null")',
        'LOOK = """\nif cd /tmp; then strace "$1"; fi"""',
    ):
        file = tmp_path / "module.py"
        file.write_text(text)
        assert called(file) == {"strace"}, text
    script = tmp_path / "script.sh"
    script.write_text("# strace is not called here\nset -eu\nfor one; do strace $one; done\n")
    assert called(script) == {"strace"}
    script.write_text('"""strace is only told of."""\nWORDS = ("strace", "ltrace")')
    assert called(script.rename(tmp_path / "other.py")) == set()


@pytest.mark.slow
def test_a_package_that_is_here_brings_the_programs_of_its_row():
    """Debian keeps some under a name of their own, and links the plain one to it."""
    odd, looked = {}, 0
    chosen = {file.name for file in Path("/etc/alternatives").glob("*")}
    for package in table.packages():
        files = {program for program in package.programs if program.startswith("/")}
        words = ["dpkg-query", "-L", package.name, f"{package.name}-minimal"]
        result = subprocess.run(words, capture_output=True, text=True)
        if f"'{package.name}'" not in result.stderr and result.stdout:
            looked += 1
            lines = [line for line in result.stdout.splitlines() if "bin/" in line]
            full = {line.rpartition("/")[2] for line in lines} | chosen
            brought = full | {word.partition(".")[0] for word in full}
            odd[package.name] = {*package.programs} - files - brought | {*table.absent(files)}
    assert {name: words for name, words in odd.items() if words} == {}
    assert looked > 10 or not table.this_system().startswith(("debian", "ubuntu"))


def test_no_program_is_brought_by_two_packages():
    programs = [program for package in table.packages() for program in package.programs]
    assert len(programs) == len(set(programs))
    assert set(programs) & always() == set() == set(programs) & table.unpackaged().keys()


@pytest.mark.parametrize(("release", "system", "names"), [
    ({"ID": "debian"}, "debian", ["iputils-ping", "sockperf"]),
    ({"ID": "debian", "VERSION_ID": "12"}, "debian12", ["iputils-ping", "sockperf"]),
    ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "ubuntu", ["iputils-ping", "sockperf"]),
    ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "fedora", ["iputils", "sockperf"]),
    ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "suse", ["iputils", "sockperf"]),
    ({"ID": "alpine"}, "alpine", ["iputils", "sockperf"]),
])  # fmt: skip
def test_a_package_has_the_name_of_the_system(release, system, names):
    assert table.system_of(release) == system
    assert table.names_of(["ping", "sockperf", "onload"], system) == names


@pytest.mark.parametrize(("programs", "system", "names"), [
    (["linux.uml"], "debian", ["user-mode-linux"]),
    (["linux.uml"], "ubuntu", []),  # it has no such package
    (["docker", "dockerd"], "debian", ["docker-cli", "docker.io", "iptables"]),
    (["docker", "dockerd"], "debian12", ["docker.io", "iptables"]),  # an older release
    (["dockerd"], "debian", ["docker.io", "iptables"]),  # the last it only recommends, and needs
])  # fmt: skip
def test_a_program_is_brought_by_the_packages_of_a_system_and_its_release(programs, system, names):
    assert table.names_of(programs, system) == names


def test_a_host_says_which_system_it_is():
    assert table.system_of({"ID": "plan9"}) == ""
    assert table.install_words("debian12") == table.install_words("debian")
    assert table.os_release("12 debian") == {"VERSION_ID": "12", "ID": "debian", "ID_LIKE": ""}
    assert table.os_release("0 arch")["ID"] == "arch" and table.os_release("")["ID"] == ""


def test_an_unknown_program_is_answered_with_the_nearest():
    with pytest.raises(Unknown, match="unknown program 'sokperf'") as error:
        table.package_of("sokperf")
    assert "did you mean 'sockperf'?" in str(error.value)


def test_the_module_of_a_class_declares_for_it():
    assert of_class(Sockperf) == ("onload", "sockperf")
    assert of_class(int) == ()


def test_a_declaration_that_cannot_be_read_is_refused(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text('PROGRAMS = ["ping"]')
    with pytest.raises(BadInput, match=r"odd\.py: PROGRAMS is a tuple of words"):
        declared(file)
    with pytest.raises(BadInput, match="there is no"):
        declared_under([tmp_path / "nowhere"])


def test_a_file_that_is_no_program_is_looked_for_as_a_pattern(tmp_path):
    pattern = f"{tmp_path}/*/one.so"
    assert table.absent([pattern]) == [pattern]
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/one.so").touch()
    assert table.absent([pattern, "sh", "no-such-program"]) == ["no-such-program"]


def test_set_up_leaves_large_packages_of_few_studies_to_those_who_want_them(monkeypatch):
    monkeypatch.setattr(this_machine, "absent", list)
    names = this_machine.packages()
    assert "nginx" in names and "libreoffice-writer" not in names
    assert table.names_of(["lowriter"], "debian") == ["libreoffice-writer"]
