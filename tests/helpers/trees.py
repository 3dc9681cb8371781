"""Each file of Python is read once in a process of the tests, however many tests look at it."""

import ast
from functools import cache


@cache
def tree(path):
    """A module as Python reads it."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path):
    """All that is in it, as `ast.walk` has it."""
    return list(ast.walk(tree(path)))
