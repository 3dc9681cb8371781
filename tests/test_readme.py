"""The README is true."""

import re
from pathlib import Path

import pytest

from labkit import studies
from labkit.cli import main

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


def test_every_make_target_that_the_readme_names_is_one():
    makefile = (HOME / "Makefile").read_text()
    for target in set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
