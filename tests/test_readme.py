"""The README is true."""

import re
import shlex
from pathlib import Path

import pytest
from test_cli import _verbs

from labkit import studies
from labkit.checks import all_checks
from labkit.cli import _parser, main
from labkit.lab import Lab

HOME = Path(__file__).resolve().parent.parent
README = (HOME / "README.md").read_text()


def test_the_table_of_studies_is_the_generated_one():
    between = README.split("<!-- studies:")[1].split("-->", 1)[1].split("<!-- end of studies")[0]
    assert between.strip() == studies.markdown()


def test_every_file_that_the_readme_links_to_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (HOME / link).exists()] == []


def test_every_command_that_the_readme_names_prints_its_help(capsys):
    named = set(re.findall(r"`labkit ([a-z]+)", README))
    assert {"doctor", "box", "studies", "run", "report"} <= named
    for command in named:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0, command
        assert f"labkit {command}" in capsys.readouterr().out


def test_every_command_that_prints_json_is_in_the_table_for_scripts():
    rows = [row.split("`")[1] for row in README.splitlines() if row.startswith("| `labkit ")]
    told = {(word, row.split()[1]) for row in rows for word in re.findall("[a-z]+", row)}
    verbs = [words for words, parser in _verbs(_parser()) if "--json" in parser.format_usage()]
    assert len(verbs) > 15
    assert [words for words in verbs if (words[-1], words[0]) not in told] == []


def test_every_make_target_that_the_readme_names_is_one():
    makefile = (HOME / "Makefile").read_text()
    for target in set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


PAGES = sorted((HOME / "notebooks/docs").glob("*.md"))
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
            _parser().parse_args(words)
        except SystemExit as ended:
            assert ended.code == 0, f"{page.name}: labkit {' '.join(words)}: {capsys.readouterr()}"


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
    assert {check.name for check in all_checks()} == named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_links_to_exists(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
