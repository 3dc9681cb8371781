"""`labkit claims` writes a file of claims, and names all that is wrong in one."""

import re

import pytest

from labkit.cli import main


@pytest.fixture
def paper(tmp_path, typed):
    """A new file of claims."""
    file = tmp_path / "published/my_paper.toml"
    words = ["claims", "new", str(file), "--document", "A Paper", "--url", "https://example.org/p"]
    assert "my_paper.csv" in typed(*words)
    return file


def test_a_new_file_of_claims_has_each_form_and_can_be_read(paper, typed):
    answer = typed("claims", "check", paper, "--json")
    assert [row["form"] for row in answer["claims"]] == [
        "order", "ratio", "in every test", "within a tolerance", "rank order",
    ]  # fmt: skip
    assert answer["conditions"] == ["Container", "Guest", "Native"] and not answer["wrong"]
    assert "is there already" in typed("claims", "new", paper, code=2)


def test_a_new_file_of_a_document_without_an_address_can_be_read(tmp_path, typed):
    file = tmp_path / "paper.toml"
    typed("claims", "new", file, "--document", "A Paper")
    typed("claims", "check", file)


def test_every_claim_that_is_wrong_is_named_and_the_others_are_read(paper, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = paper.read_text().replace('form = "ratio"', 'form = "ratoi"')
    text = text.replace("within = 0.2", "within = 2.0").replace('"Container", "Guest"]', '"Guets"]')
    paper.write_text(text)
    assert main(["claims", "check", str(paper)]) == 1
    output = capsys.readouterr()
    assert (
        "my_paper.toml:" in output.err and "claim my-paper-02: unknown form of claim" in output.err
    )
    assert "claim my-paper-04: a tolerance needs" in output.err
    assert "claim my-paper-05: a rank order needs three conditions" in output.err
    assert "my-paper-01" in output.out and "2 claims can be read, 3 cannot" in " ".join(
        output.out.split()
    )
    assert max(map(len, output.out.splitlines())) <= 80


@pytest.mark.parametrize("old, new, message", [
    ("published = 1.8", "published = inf", "published is a number, or two numbers to divide, not"),
    ('under = "Native"', 'under = "Guest"', "over and under are both 'Guest'"),
    ('under = "Native"', 'under = "VM [vms=4"', "'VM [vms=4' is no condition"),
    ('id = "my-paper-02"', 'id = "../02"', "'../02' is no id"),
])  # fmt: skip
def test_a_claim_that_could_mean_nothing_is_refused_with_its_line(paper, typed, old, new, message):
    paper.write_text(paper.read_text().replace(old, new))
    error = typed("claims", "check", paper, code=1)
    assert re.search(r"my_paper.toml:\d+: claim ", error) and message in error


def test_two_names_that_are_nearly_alike_are_doubted_and_numbered_ones_are_not(paper, typed):
    paper.write_text(paper.read_text().replace('["Native", "Guest"]', '["native", "VM1", "VM2"]'))
    assert typed("claims", "check", paper, "--json")["doubts"] == [
        "'Native' and 'native': is one of them misspelt?"
    ]


@pytest.mark.parametrize("name", ["Paper.toml", "paper.txt", "my-paper.toml"])
def test_a_name_that_no_study_can_have_is_refused(name, tmp_path, typed):
    assert "is no name for claims" in typed("claims", "new", tmp_path / name, code=2)
    assert "cannot be read" in typed("claims", "check", tmp_path / "none.toml", code=2)
