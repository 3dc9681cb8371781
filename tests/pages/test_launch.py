"""Each study can be opened on Binder from wherever a copy of labkit is published."""

import re
from urllib.parse import unquote

import pytest

from labkit import studies
from labkit.errors import BadInput
from labkit.machine.places import HOME
from labkit.pages.launch import link

FILE = "notebooks/01-lat-ping.ipynb"
OPENS = "?urlpath=lab%2Ftree%2Fnotebooks%2F01-lat-ping.ipynb"


@pytest.mark.parametrize(("address", "starts"), [
    ("https://github.com/you/labkit", "gh/you/labkit"),
    ("https://github.com/you/labkit.git", "gh/you/labkit"),
    ("https://gitlab.com/a/group/labkit/", "gl/a%2Fgroup%2Flabkit"),
    ("https://git.example.org/you/labkit", "git/https%3A%2F%2Fgit.example.org%2Fyou%2Flabkit"),
])  # fmt: skip
def test_a_link_names_the_repository_as_binder_asks_for_it(address, starts):
    assert link(address, FILE) == f"https://mybinder.org/v2/{starts}/HEAD{OPENS}"


@pytest.mark.parametrize("odd", ["", "labkit", "https://github.com", "git@github.com:you/labkit"])
def test_what_is_no_address_is_refused(odd):
    with pytest.raises(BadInput, match="not an address of a repository"):
        link(odd, FILE)


def test_each_study_has_a_link_to_a_notebook_that_is_there(typed):
    page = typed("studies", "--launch", "https://github.com/you/labkit")
    files = [unquote(one) for one in re.findall(r"lab%2Ftree%2F([^)]+)\)", page)]
    assert len(set(files)) == len(studies.names())
    assert all((HOME / file).is_file() for file in files)
