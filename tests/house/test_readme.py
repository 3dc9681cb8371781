"""The README is true."""

import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from labkit import __version__, studies
from labkit.checks import all_checks
from labkit.cli import main
from labkit.cli import parser as all_parsers
from labkit.lab import Lab
from tests.commands.test_cli import _verbs

HOME = Path(__file__).resolve().parents[2]
README = (HOME / "README.md").read_text()
parser = cache(all_parsers)
SCRIPTS = (HOME / "notebooks/docs/scripts.md").read_text()


def test_the_table_of_studies_is_the_generated_one():
    between = README.split("<!-- studies:")[1].split("-->", 1)[1].split("<!-- end of studies")[0]
    assert between.strip() == studies.markdown()


def test_every_command_that_the_readme_names_prints_its_help(capsys):
    named = {words[0] for words in told(HOME / "README.md")}
    assert {"doctor", "box", "studies", "run", "plan", "restore", "trust"} <= named
    for command in named:
        with pytest.raises(SystemExit) as error:
            main([command, "--help"])
        assert error.value.code == 0, command
        assert f"labkit {command}" in capsys.readouterr().out


def test_every_command_that_prints_json_is_in_the_table_for_scripts():
    rows = [row.split("`")[1] for row in SCRIPTS.splitlines() if row.startswith("| `labkit ")]
    told = {(word, row.split()[1]) for row in rows for word in re.findall("[a-z]+", row)}
    verbs = [words for words, parser in _verbs(all_parsers()) if "--json" in parser.format_usage()]
    assert len(verbs) > 15
    assert [words for words in verbs if (words[-1], words[0]) not in told] == []


def test_every_make_target_that_the_readme_names_is_one():
    makefile = (HOME / "Makefile").read_text()
    for target in set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


PAGES = sorted(
    page for folder in ("docs", "documents") for page in (HOME / "notebooks" / folder).glob("*.md")
)
# What stands for a word of the reader's own.
OWN = {"STUDY": "lat_ping", "HOST": "server", "ROLE": "server", "NAME": "mine"}


def told(page):
    """Each `labkit ...` line of a page, as words: of those in a sentence, the verb."""
    prose, blocks = page.read_text("utf-8"), []
    for block in re.findall(r"^```.*?^```", prose, re.MULTILINE | re.DOTALL):
        blocks += re.findall(r"^(?:\$ )?labkit (.+)$", block, re.MULTILINE)
        prose = prose.replace(block, "")
    inline = re.findall(r"`labkit ([a-z][^`|]*)`", re.sub(r"\s*\n\s*", " ", prose))
    whole = page.stem.startswith("lab-")
    for line in [*blocks, *(line if whole else line.split()[0] for line in inline)]:
        yield [OWN.get(word, word) for word in shlex.split(line, comments=True)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_line_of_a_page_can_be_meant(page, capsys):
    for words in told(page):
        if "..." in words or any(word.startswith("[") for word in words):
            words = [words[0]]
        if len(words) == 1:  # only named
            words = [*words, "--help"]
        try:
            parser().parse_args(words)
        except SystemExit as error:
            assert error.code == 0, f"{page.name}: labkit {' '.join(words)}: {capsys.readouterr()}"


@pytest.mark.parametrize("name", ["lab-linux", "lab-kvm", "lab-esxi"])
def test_the_steps_of_a_lab_have_their_checks_and_its_lab_file_can_be_read(name, tmp_path):
    text = (HOME / f"notebooks/docs/{name}.md").read_text("utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "lab.toml").write_text(block)
    assert {"client", "server"} <= set(Lab.read(tmp_path / "lab.toml").hosts)
    named = {word for group in re.findall(r"(?<!\])\[([a-z, ]+)\](?!\()", text)
             for word in group.split(", ")}  # fmt: skip
    known = {check.name for check in all_checks()}
    assert named and named <= known, named - known
    assert "labkit doctor --lab lab.toml" in text
    for step in re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"(?<!\])\[[a-z, ]+\](?!\()|labkit (doctor|settings) ", step), step[:60]


def test_every_check_of_hosts_is_a_part_of_some_step():
    pages = "".join((HOME / f"notebooks/docs/lab-{name}.md").read_text("utf-8")
                    for name in ("linux", "kvm", "esxi"))  # fmt: skip
    named = {word for group in re.findall(r"\[([a-z, ]+)\](?!\()", pages)
             for word in group.split(", ")}  # fmt: skip
    only_of_a_box = {"around"}
    assert {check.name for check in all_checks()} - only_of_a_box == named


def prose(path):
    if path.suffix != ".ipynb":
        return re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def anchors(path):
    """The headings of a page as GitHub and JupyterLab name them in links, each in its own way."""
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        yield heading.replace(" ", "-")


LINKED = [HOME / "README.md", HOME / "CONTRIBUTING.md", HOME / "data/published/SOURCES.md", *PAGES,
          *sorted((HOME / "notebooks/docs/proof").glob("*.md")),
          *sorted((HOME / "notebooks").glob("*.ipynb"))]  # fmt: skip


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_every_link_leads_somewhere_also_from_a_copy_of_the_notebooks(path):
    # An installed labkit is read in a copy of the folder `notebooks`, and JupyterLab shows nothing
    # that lies above the folder that it was started in.
    inside = HOME / "notebooks" if HOME / "notebooks" in path.parents else HOME
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        name, _, anchor = link.partition("#")
        if re.match("[a-z]+:", name):
            continue
        target = (path.parent / name).resolve() if name else path
        assert target.exists() and target.is_relative_to(inside), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.slow
def test_what_a_page_says_in_python_runs_one_block_after_another(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    page = (HOME / "notebooks/docs/results.md").read_text("utf-8")
    names = {}
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(block, names)
    first, second = capsys.readouterr().out.splitlines()
    assert "new / old = 0.9" in first and second.split()[-1] == "5"


def test_citation_and_changes_are_of_this_version():
    assert f"version: {__version__}\n" in (HOME / "CITATION.cff").read_text("utf-8")
    assert f"## {__version__}" in (HOME / "CHANGELOG.md").read_text("utf-8")


def test_a_container_for_development_is_set_up_by_a_target_of_the_makefile():
    described = json.loads((HOME / ".devcontainer/devcontainer.json").read_text("utf-8"))
    target = re.search(r"&& make (\w+)$", described["postCreateCommand"])[1]
    assert f"\n{target}:" in (HOME / "Makefile").read_text("utf-8")


@pytest.mark.parametrize("word", ["retransmission", "uninstall", "grafana", "prometheus"])
def test_words_that_people_search_for_are_on_a_page(word):
    pages = (HOME / "notebooks/docs").glob("*.md")
    assert [page.name for page in pages if word in page.read_text("utf-8").lower()]
