"""What labkit uses of paramiko's private parts is there, and is all listed in one module."""

import ast
import inspect
from importlib.metadata import version
from pathlib import Path

import pytest

from labkit.ssh import private

ROOM = Path(private.__file__).parent
ELSEWHERE = {"_active_threads"}  # of paramiko.transport itself


def members(cls):
    """What a class has, or gives its objects when they are made."""
    return {*dir(cls), *(
        node.attr for one in cls.__mro__[:-1] if one.__module__.startswith("paramiko")
        for node in ast.walk(ast.parse(inspect.cleandoc("\n" + inspect.getsource(one))))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )}  # fmt: skip


@pytest.mark.slow
def test_every_private_part_that_labkit_uses_is_in_the_paramiko_that_is_installed():
    gone = [
        f"{cls.__name__}.{name}"
        for cls, names in private.PRIVATE.items()
        for name in names
        if name not in members(cls)
    ]
    assert not gone, f"paramiko {version('paramiko')} has it no more: {', '.join(gone)}"


def test_a_part_that_paramiko_never_had_is_missed():
    assert all("_never_had" not in members(cls) for cls in private.PRIVATE)


def test_no_private_part_is_used_that_the_list_does_not_have():
    listed = {name for names in private.PRIVATE.values() for name in names}
    own, used = set(), {}
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                used.setdefault(node.attr, path.name)
                own |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                own.add(node.target.id)
    names = {name for name in used if not name.startswith("__")}
    assert names - own - listed - ELSEWHERE == set()
