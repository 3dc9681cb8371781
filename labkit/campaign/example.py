"""The campaign file that a new campaign begins with."""

from pathlib import Path
from string import Template

from labkit.errors import BadInput

EXAMPLE = Path(__file__).with_name("example.toml")


def write_example(path: Path) -> None:
    """Write a commented campaign file; one that is there is never written over."""
    if path.suffix != ".toml":
        raise BadInput(f"{path}: a campaign file ends with .toml", hint=f"{path}.toml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(Template(EXAMPLE.read_text("utf-8")).substitute(name=path.stem))
    except FileExistsError:
        raise BadInput(f"{path} is there already", hint="choose another name") from None
