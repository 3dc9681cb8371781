"""What guards the site: links that lead nowhere and pictures of other days are found."""

from pathlib import Path

import checked
import executed
import gallery
import pictures
import pytest
import reference
import staged

PAGE = '<html><body id="top"><h2 id="here">Here</h2>{}</body></html>'


@pytest.mark.parametrize(("html", "said"), [
    ('<a href="gone.html">x</a>', "gone.html leads to no file"),
    ('<a href="other.html#there">x</a>', "other.html#there leads to no heading"),
    ('<a href="#there">x</a>', "#there leads to no heading"),
    ('<img src="gone.png">', "gone.png leads to no file"),
    ('<a href="https://nowhere">x</a>', "https://nowhere is no address"),
    ('<a href="https:/example.org">x</a>', "https:/example.org is no address"),
    ('<a href="htp://example.org">x</a>', "htp://example.org is no address"),
    ('<script src="https://cdn.example.org/x.js"></script>', "from another host"),
    ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "from another host"),
])  # fmt: skip
def test_a_link_that_leads_nowhere_is_named_with_its_page(tmp_path, html, said):
    (tmp_path / "other.html").write_text(PAGE.format(""))
    (tmp_path / "page.html").write_text(PAGE.format(html))
    (found,) = checked.wrong(tmp_path)
    assert found.startswith("page.html: ") and said in found


def test_good_links_are_let_pass(tmp_path):
    (tmp_path / "a page.html").write_text(PAGE.format(""))
    good = "".join(
        f'<a href="{to}">x</a>'
        for to in ("a%20page.html#here", "#top", "https://example.org/a?b#c", "mailto:a@b.org")
    )
    (tmp_path / "page.html").write_text(PAGE.format(f'{good}<img src="data:image/png;base64,">'))
    assert checked.wrong(tmp_path) == []


@pytest.mark.slow
def test_the_pictures_are_of_today_and_all_are_shown():
    assert pictures.stale() == []


@pytest.mark.slow
def test_a_picture_of_other_runs_or_of_no_page_is_named(tmp_path, monkeypatch):
    for file in pictures.FOLDER.glob("*.png"):
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(content.replace(b"tEXtlabkit\0", b"tEXtlabkit\0other"))
    (tmp_path / "unseen.png").write_bytes(b"")
    monkeypatch.setattr(pictures, "FOLDER", tmp_path)
    monkeypatch.setattr(pictures, "CHART", tmp_path / "lat-ping.png")
    monkeypatch.setattr(pictures, "SCREEN", tmp_path / "jupyterlab.png")
    monkeypatch.setattr(pictures, "HOME", tmp_path.parent)
    monkeypatch.setattr(pictures, "_pages", lambda: [Path(staged.HERE).parents[2] / "README.md"])
    said = " ".join(pictures.stale())
    assert said.count("is out of date") == 2 and "no page shows" in said and "unseen.png" in said


def test_a_notebook_is_executed_again_only_when_something_that_it_reads_has_changed(monkeypatch):
    one = executed.NOTEBOOKS["01-lat-ping"]
    key = executed._key(one)
    assert key == executed._key(one) != executed._key(executed.NOTEBOOKS["00-start-here"])
    monkeypatch.setattr(executed, "_read", lambda: b"another labkit")
    assert executed._key(one) != key


def test_the_reference_has_a_part_for_each_module_of_a_registry_and_each_command():
    pages = reference.pages()
    for folder in reference.FOLDERS:
        for file in (reference.PACKAGE / folder).glob("[!_]*.py"):
            assert f"automodule:: labkit.{folder}.{file.stem}\n" in pages[folder]
    assert "autofunction:: labkit.find_study\n" in pages["notebooks"]
    assert "usage: labkit run [-h]" in pages["commands"]


def test_the_gallery_shows_each_study_as_its_recorded_run_is():
    assert gallery.stale() == []


@pytest.mark.slow
def test_the_gallery_tells_the_answers_of_today():
    page = gallery.PAGE.read_text("utf-8")
    assert [s for s, stem in gallery.stems().items() if gallery.card(s, stem) not in page] == []
