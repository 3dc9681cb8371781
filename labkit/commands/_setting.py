"""A setting as a user types it: `Mtu(9000)`, read without running anything of it."""

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from labkit.errors import BadInput, Unknown
from labkit.setting import Setting
from labkit.settings import errors, kinds_of_setting

EXAMPLE = 'such as "Mtu(9000)"; `labkit settings` lists all'


def looks_like_setting(text: str) -> bool:
    """Whether a user means a setting by this: studies and files are not named so."""
    is_name = text[:1].isupper() and text.isidentifier() and not Path(text).exists()
    return text.rstrip().endswith(")") or is_name


def setting_of(text: str, role: str | None = None) -> Setting:
    """Read one setting; `role` is whom it is for, unless the text says so itself."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise BadInput(f"{text!r} is not a setting: {error.msg}", hint=EXAMPLE) from None
    if not isinstance(call, ast.Call):
        raise BadInput(f"{text!r} is not a setting", hint=EXAMPLE)
    kinds = {kind.__name__: kind for kind in kinds_of_setting()}
    name = _name_of(call, text)
    if name not in kinds:
        raise next(iter(errors()), Unknown("setting", name, kinds, "labkit settings"))
    words, options = _arguments(call, kinds[name], text)
    if role is not None:
        options.setdefault("role", role)
    setting: Setting = _make(kinds[name], words, options, text)
    return setting


def _name_of(call: ast.Call, text: str) -> str:
    if not isinstance(call.func, ast.Name):
        raise BadInput(f"{text!r} does not begin with the name of a setting", hint=EXAMPLE)
    return call.func.id


def _arguments(call: ast.Call, kind: type[Setting], text: str) -> tuple[list[Any], dict[str, Any]]:
    words = [_value(argument, kind, text) for argument in call.args]
    options = {key.arg or "**": _value(key.value, kind, text) for key in call.keywords}
    return words, options


# A part such as `Traffic(9000, 100)` of NetIoControl is a class of the setting's own module.
def _value(node: ast.expr, kind: type[Setting], text: str) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_value(part, kind, text) for part in node.elts)
    if isinstance(node, ast.Call):
        name = _name_of(node, text)
        part = getattr(sys.modules[kind.__module__], name, None)
        if not (inspect.isclass(part) and is_dataclass(part)):
            raise BadInput(f"{kind.__name__} has no part {name!r}, as {text!r} says")
        return _make(part, *_arguments(node, kind, text), text)
    try:
        return ast.literal_eval(node)
    except ValueError:
        code = ast.unparse(node)
        hint = f"a text stands in quotes: {code!r}"
        raise BadInput(f"{text!r}: {code} is no plain value", hint=hint) from None


def _make(kind: Callable[..., Any], words: list[Any], options: dict[str, Any], text: str) -> Any:
    try:
        inspect.signature(kind).bind(*words, **options)
    except TypeError as error:
        raise BadInput(f"{text!r}: {error}", hint=f"it is {usage(kind)}") from None
    return kind(*words, **options)


def usage(kind: Callable[..., Any]) -> str:
    """Show how a setting is typed, with its usual values: `Mtu(size=9000, role='server')`."""
    parts = [
        name if field.default is inspect.Parameter.empty else f"{name}={field.default!r}"
        for name, field in inspect.signature(kind).parameters.items()
    ]
    return f"{kind.__name__}({', '.join(parts)})"
