"""Parameters that notebooks and pages promise: each is taken by the study that it is said of."""

import ast
import re
import shlex

import nbformat
import pytest

from labkit import studies
from labkit.errors import LabkitError
from labkit.machine.places import HOME
from labkit.running import notebook
from labkit.running.open_lab import check_parameters, knobs_among, with_load

# `keys=250_000_000` in a text, and what a comment offers: # or "web", # such as "0-7".
ASKED = re.compile(r'`([a-z_]+) ?= ?("[^"`]*"|[\d_.]+|true|false)`')
OFFERED = re.compile(r'"([^"\s]*)"')
WORD = r"""(?:"[^"`]*"|'[^'`]*'|[^\s`|"'])+"""
RUN = re.compile(rf"labkit (?:run|plan) ([a-z_0-9]+)((?: +-p {WORD}| +--?[a-z]+(?:[ =]{WORD})?)*)")
GIVEN = re.compile(rf"-p ({WORD})")
PAGES = [
    HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "notebooks/docs").rglob("*.md")),
    HOME / "data/published/SOURCES.md", *sorted((HOME / "notebooks").glob("*.ipynb")),
]  # fmt: skip
# Of a lab.toml, of the comparison of two results, of how often blocks are measured.
ELSEWHERE = {"tolerates", "become", "vm", "address", "interface", "repeats", "margin"}


@pytest.fixture(autouse=True)
def large_enough(monkeypatch):
    """A promise is kept where the lab can carry it."""
    monkeypatch.setattr("labkit.running.sizes.lacks_of_box", lambda *_: [])


def said_in(source):
    """What each piece of a notebook's prose asks for, with values as `-p` takes them."""
    for cell in nbformat.read(source, as_version=4).cells:
        if cell.cell_type == "markdown":
            asked = {name: value.strip('"') for name, value in ASKED.findall(cell.source)}
            yield {name: value for name, value in asked.items() if name not in ELSEWHERE}


def offered_in(source):
    """The words that the comments of the parameters offer."""
    for cell in nbformat.read(source, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", ()):
            for line in cell.source.splitlines():
                name, comment = line.partition(":")[0], line.partition("#")[2]
                if ": str =" in line and name not in ("where", "label"):
                    yield from ({name: value} for value in OFFERED.findall(comment))


@pytest.mark.parametrize("name", studies.names())
def test_what_a_notebook_says_can_be_asked_of_its_study_is_taken(name):
    study, source = studies.find(name), notebook.notebook(name)
    for asked in (*said_in(source), *offered_in(source)):
        taken(study, source, asked)


def taken(study, source, given):
    """Refused as `labkit run` refuses it, where it is."""
    try:
        values = notebook.read_parameters(source, given)
        check_parameters(study, {"where": "box", "label": "x", **values})
    except LabkitError as error:
        pytest.fail(f"{source.name} promises {given}: {error}")


def test_each_command_of_a_page_that_runs_a_study_is_one_that_is_taken():
    told = 0
    for page in PAGES:
        for name, words in RUN.findall(page.read_text("utf-8").replace('\\"', '"')):
            said = " ".join(GIVEN.findall(words))
            given = dict(word.split("=", 1) for word in shlex.split(said) if "=" in word)
            if name in studies.names() and given:
                taken(studies.find(name), notebook.notebook(name), given)
                told += 1
    assert told


@pytest.mark.parametrize("name", studies.names())
def test_each_parameter_of_a_notebook_reaches_the_study(name):
    """One that no cell passes on would be taken and do nothing."""
    source = notebook.notebook(name)
    known = knobs_among(studies.find(name), notebook.parameters(source)).keys() - {"seed"}
    cells = [c.source for c in nbformat.read(source, as_version=4).cells if c.cell_type == "code"]
    code = "\n".join(cell for cell in cells if "with_load" in cell)
    passed = {word.arg for call in ast.walk(ast.parse(code)) if isinstance(call, ast.Call)
              for word in call.keywords}  # fmt: skip
    listed = {one.value for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Constant)}
    assert known <= passed | listed, "a parameter that does nothing"


def test_a_parameter_that_no_study_has_is_noticed():
    with pytest.raises(pytest.fail.Exception, match="promises"):
        taken(studies.find("docker_redis"), notebook.notebook("docker_redis"), {"keyz": "5"})
    assert with_load(studies.find("redis_scaleout"), keys=5).workload.keys == 5
