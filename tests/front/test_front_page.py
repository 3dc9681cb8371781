"""What the front page shows is plain Python: no browser, no notebook, often no lab."""

import html
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import synthetic
from knobs import Knob

from labkit import find_study, studies
from labkit.box import this_machine
from labkit.changes.in_force import in_force
from labkit.changes.journal import hello
from labkit.errors import BadInput, CommandFailed, Unknown
from labkit.front import area, cards, lab_section, opening
from labkit.front.area import Area, Speaker, Worker
from labkit.front.cards import Known, cards_html, cards_table
from labkit.front.front_page import FrontPage
from labkit.front.lab_section import LabSection
from labkit.front.results import ResultsSection, listed_html, shelf
from labkit.host import Host
from labkit.lab import Lab
from labkit.machine.places import HOME
from labkit.pages import scorecard
from labkit.pages.kept_scores import kept_scorecard
from labkit.pages.score_line import counts_as
from labkit.transports.local import Local

BAD = "<img src=x onerror=alert(1)>"
CRASHES = """
import sys, time
from knobs import Knob
from labkit.changes.in_force import in_force
from labkit.host import Host
from labkit.transports.local import Local
with in_force({"server": Host("here", "", Local())}, "a crash") as changes:
    changes.move_to([Knob(sys.argv[1], "new")])
    print("in force", flush=True)
    time.sleep(600)
"""


class Silent(Local):
    def run(self, words, **options):
        raise CommandFailed(f"far: no route {BAD}\nsecond line")


@pytest.fixture
def lab():
    hosts = {"server": Host("here", "127.0.0.1", Local()),
             "client": Host("far", "192.0.2.1", Silent("far"))}  # fmt: skip
    return Lab("two hosts", hosts)


# What other tests keep of hosts of the same name stays out of sight.
@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    made = tmp_path / "knob"
    made.write_text("old\n")
    return made


@contextmanager
def changing(file):
    """A process of its own that has changed a file of a host, until it is killed."""
    env = {**os.environ, "PYTHONPATH": f"{HOME}/tests/helpers:{HOME}"}
    words = [sys.executable, "-c", CRASHES, str(file)]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "in force\n"
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.fixture
def crashed(file):
    """A host's file that a killed process has left changed."""
    with changing(file):
        pass
    return file


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results: two of one study, measured on made-up hosts."""
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path / "out"))
    for name in ("one", "two"):
        folder = tmp_path / "out" / "results" / "lat_ping" / name
        synthetic.write_results(folder, find_study("lat_ping"), 3, 300)
    return tmp_path / "out"


@pytest.fixture
def section(lab, monkeypatch):
    """The section of the lab, with a lab that needs no file."""
    monkeypatch.setattr(Lab, "read", classmethod(lambda cls, path: lab))
    monkeypatch.setattr(lab_section.box, "names", list)
    made = LabSection(lambda: None)
    made.choice.value = "lab.toml"
    made.worker.wait()
    return made


def test_each_study_has_a_card_with_its_document_its_sections_and_its_notebook():
    made = Known().cards()
    assert [card.study.name for card in made][:2] == ["lat_ping", "lat_netperf"]
    assert {card.study.name for card in made} == set(studies.names())
    assert "vSphere 5.5: Ping Evaluation" in made[0].source
    assert all(card.notebook.is_file() for card in made)
    assert [file.name[:2] for file in cards.lessons().values()] == ["00", "02", "03"]


def test_before_anything_was_looked_at_a_card_says_so_and_names_no_figure():
    page = cards_html(Known().cards(), cards.lessons())
    assert page.count("looking") == 2 * len(studies.names())
    assert page.count("judging") == len(studies.names())


@pytest.mark.slow
def test_a_card_says_when_it_ran_last_and_whether_that_was_emulated(results):
    made = {card.study.name: card for card in Known(shelved=shelf()).cards()}
    assert made["lat_ping"].last_run.endswith("on lab a lab that never was (emulated)")
    assert made["lat_netperf"].last_run.startswith("never run on this machine; recorded 20")
    unrecorded = [one for one in shelf() if one.study != "lat_netperf"]
    made = {card.study.name: card for card in Known(shelved=unrecorded).cards()}
    assert made["lat_netperf"].last_run == cards.NEVER


@pytest.mark.slow
def test_a_card_counts_the_newest_verdict_of_each_claim(results):
    score = scorecard.scorecard(results / "results", study="lat_ping")
    counted = cards.verdicts_of(score)["lat_ping"].counts
    assert sum(counted.values()) == len(find_study("lat_ping").claims)
    untried = cards.verdicts_of(scorecard.scorecard(results / "results"))["monster_vmotion"]
    assert untried.counts == {"not measured yet": len(find_study("monster_vmotion").claims)}
    page = cards_html(Known(score=score).cards(), {})
    assert all(f"{number} <span" in page for number in counted.values())
    (answer,) = cards.verdicts_of(score)["lat_ping"].answers
    assert "; the document says " in answer and f"<b>Found:</b> {html.escape(answer)}" in page
    others = [replace(line, lab="less", blocks=1, answer="Another.") for line in score.lines]
    both = replace(score, lines=(*others, *score.lines))
    assert cards.verdicts_of(both)["lat_ping"].answers == (answer, "Another. (less, 1 blocks)")


def test_without_a_lab_a_card_says_what_this_machine_can_do_what_it_lacks_and_the_command(
    monkeypatch,
):
    lacks, study = {"redis-server", "netperf"}, find_study("redis_scaleout")
    monkeypatch.setattr(cards, "absent", lambda programs: [*lacks.intersection(programs)])
    machine = replace(this_machine.examine(), tier="root")
    found = cards.on_this_machine(study, machine)
    assert (found.state, found.fix) == ("in part", "labkit prepare redis_scaleout")
    assert "it lacks redis-server" in found.words
    free = cards.on_this_machine(find_study("lat_netperf"), machine)
    assert free.state == "yes", "there are free tools in its place"
    lacks.clear()
    able = cards.on_this_machine(study, machine)
    assert (able.state, able.fix) == ("yes", f"labkit box up {study.topology}")
    poor = cards.on_this_machine(study, replace(machine, tier="recorded", next="make system"))
    assert (poor.state, poor.fix) == ("no", "make system") and "hosts of your own" in poor.words


@pytest.mark.slow
def test_on_a_lab_a_card_says_which_conditions_it_can_measure_and_why_not_the_others(lab):
    known = [find_study(name) for name in studies.names()]
    said = cards.of_all(known, this_machine.examine(), lab, ["server"])
    assert said["lat_ping"].words == "does not run on two hosts: client cannot be asked"
    one = Lab("one host", {"server": lab.host("server")}, path=Path("lab.toml"))
    said = cards.of_all(known, this_machine.examine(), one, ["server"])
    assert said["lat_ping"].state == "no" and "no host for it" in said["lat_ping"].words
    assert said["lat_ping"].fix == "a table [hosts.ROLE] for it in lab.toml"
    silent = cards.of_all(known, this_machine.examine(), lab, [])
    assert silent["lat_ping"].words == "no host of two hosts answers"


@pytest.mark.slow
def test_a_host_says_who_holds_it_and_that_is_no_leftover(lab, file):
    with in_force({"server": lab.host("server")}, "a study") as changes:
        changes.move_to([Knob(str(file), "new")])
        server, client = lab_section.hosts_now(lab)
        assert server.held.endswith("for a study") and server.unfinished == ()
        assert client.facts["state"] == f"no answer: far: no route {BAD}"
    server, _ = lab_section.hosts_now(lab)
    assert (server.held, server.unfinished) == ("", ())


@pytest.mark.slow
def test_the_restore_button_puts_back_what_a_killed_process_has_left(section, crashed):
    section.begin()
    section.worker.wait()
    assert crashed.read_text() == "new\n"
    assert section.speaker.said == "Changes are not put back on server."
    (button,) = section.restores.children
    assert button.description == "Restore server" and "a crash" in section.shown.html
    button.click()
    section.worker.wait()
    assert crashed.read_text() == "old\n"
    assert section.speaker.said.startswith("server: put back") and "'old'" in section.speaker.said
    assert section.restores.children == ()
    assert hello(section.lab.host("server")).open == ()


@pytest.mark.slow
def test_a_restore_that_is_refused_says_by_whom_and_what_to_try(lab, file):
    with changing(file):
        ok, lines = lab_section.put_back(lab.host("server"))
    assert not ok and "is held by" in lines[0]
    assert lines[-1].lstrip().startswith("hint: ") and file.read_text() == "new\n"


def test_a_lab_file_that_is_not_there_is_an_error_with_a_hint(monkeypatch, tmp_path):
    monkeypatch.setattr(lab_section.box, "names", list)
    section = LabSection(lambda: None)
    section.choice.value = str(tmp_path / "none.toml")
    section.worker.wait()
    assert section.speaker.said.startswith(f"no lab file {tmp_path}/none.toml")
    assert "hint: " in section.speaker.said and section.lab is None


def test_what_hosts_and_labels_say_stays_text(section, tmp_path):
    assert BAD not in section.shown.html and "&lt;img" in section.shown.html
    (one, *_) = shelf()
    odd = replace(one, label=BAD, lab=BAD, path=tmp_path / BAD)
    assert BAD not in listed_html([odd], 1)
    assert BAD not in cards_html(Known(shelved=[odd]).cards(), {})


@pytest.mark.slow
def test_results_are_found_by_words_of_study_label_or_lab(results):
    browser = ResultsSection(lambda: None)
    browser.take(shelf())
    browser.filter.value = "lat-ping NEVER"
    assert [one.path.name for one in browser.chosen] == ["one", "two"]
    assert "2 of " in browser.listed.html and len(browser.new.options) == 2
    browser.filter.value = "no such words"
    assert "0 of " in browser.listed.html


@pytest.mark.slow
def test_results_show_how_many_claims_have_which_verdict(results):
    browser = ResultsSection(lambda: None)
    browser.take(shelf())
    browser.filter.value = "lat_ping"
    assert "holds" not in browser.listed.html and "undecided" not in browser.listed.html
    lines = kept_scorecard(study="lat_ping").lines
    browser.take(browser.shelved, lines)
    (newest,) = {line.when for line in lines if Path(line.evidence).parent.name == "lat_ping"}
    counts = Counter(counts_as(line) for line in lines if line.when == newest)
    said = ", ".join(f"{n} {word}" for word, n in counts.items())
    assert sum(counts.values()) == 7 and f">{said}</td>" in browser.listed.html
    browser.take(browser.shelved)
    assert said in browser.listed.html, "it stays until it is judged again"


@pytest.mark.slow
def test_two_results_are_compared_and_a_third_is_named_when_it_is_unknown(results):
    browser = ResultsSection(lambda: None)
    browser.take(shelf())
    browser.filter.value = "lat_ping"
    browser.new.value, browser.old.value = browser.new.options[0], browser.new.options[1]
    browser.compare.click()
    browser.worker.wait()
    assert browser.speaker.said == "Compared; the table is below."
    assert "figures of lat_ping" in browser.found.html and "<svg" in browser.found.html
    browser.old.value = "something else"
    with pytest.raises(Unknown, match="something else"):
        browser.set_beside()
    browser.old.value = ""
    with pytest.raises(BadInput, match="no results are chosen"):
        browser.set_beside()


@pytest.mark.when_changed("labkit/front/", "labkit/pages/")
@pytest.mark.slow
def test_a_report_that_is_not_there_is_written_and_linked_to(results):
    changed = []
    browser = ResultsSection(lambda: changed.append(True))
    browser.take(shelf())
    browser.filter.value = "lat_ping"
    browser.new.value = browser.new.options[0]
    browser.report.click()
    browser.worker.wait()
    one = browser.chosen[0]
    assert one.report == one.report_file and one.report.stat().st_size > 10_000
    assert f"{one.report.name}</a>" in browser.found.html and changed == [True]
    assert [of.report for of in shelf() if of.path == one.path] == [one.report]


@pytest.mark.slow
def test_what_is_asked_for_while_it_works_comes_next_and_only_the_last_of_it():
    done, worker = [], Worker(Speaker())

    def slowly():
        time.sleep(0.3)
        done.append("first")
        return "done"

    worker.begin("first", slowly)
    time.sleep(0.1)
    for name in ("second", "third"):
        worker.begin(name, lambda name=name: done.append(name) or name)
    worker.wait()
    assert done == ["first", "third"] and worker.speaker.said == "third"


def test_an_error_nobody_thought_of_is_said_and_the_page_goes_on():
    worker = Worker(Speaker())
    worker.begin("divide", lambda: str(1 // 0))
    worker.wait()
    assert worker.speaker.said.startswith("Failed: ZeroDivisionError")
    worker.begin("again", lambda: "well")
    worker.wait()
    assert worker.speaker.said == "well"


def test_what_is_shown_again_is_not_drawn_again():
    shown = Area()
    shown.show("<p>a</p>")
    before = shown.widget.outputs
    shown.show("<p>a</p>")
    assert shown.widget.outputs is before


@pytest.mark.when_changed("labkit/front/", "labkit/pages/")
@pytest.mark.slow
def test_alone_the_page_is_a_table_of_studies_with_all_that_is_known(results, capsys):
    FrontPage()._ipython_display_()
    said = capsys.readouterr().out
    assert "Round trips by ping" in said and "judging" not in said and "looking" not in said


def test_where_there_are_no_widgets_the_page_is_its_cards():
    page = FrontPage()
    page.view()
    kept = page.snapshot()
    assert kept["text/html"].count('class="lk-card"') == len(studies.names())
    assert cards_table(page.known.cards()).head[0] in kept["text/plain"]


def test_its_notebook_is_valid_and_lies_below_the_folder_that_jupyterlab_shows(results):
    there, page = opening.root(), opening.write_page()
    nbformat.validate(nbformat.read(page, as_version=4))
    first = opening.shown_first(page, there)
    assert first == "lab/tree/front-page.ipynb?file-browser-path=/notebooks"
    assert page.is_relative_to(there) and (there / "notebooks" / "docs").is_dir()
    assert cards.notebook_of("lat_ping") == there / "notebooks" / "01-lat-ping.ipynb"


@pytest.mark.when_changed("labkit/front/", "labkit/pages/")
@pytest.mark.slow
def test_its_notebook_may_show_its_cards_before_anything_runs(results):
    page = opening.write_page(with_cards=True)
    (shown,) = nbformat.read(page, as_version=4).cells[1].outputs
    shown = shown.data["text/html"]
    assert shown.count('class="lk-card"') == len(studies.names())
    assert "01-lat-ping.ipynb" in shown and "<b>Found:</b>" in shown


def test_results_in_the_checkout_are_shown_with_the_checkout(monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(HOME / "out"))
    assert opening.root() == HOME


def test_links_lead_from_where_the_notebook_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert area.href(tmp_path / "reports" / "a b.html") == "reports/a%20b.html"
    assert area.href(Path("/x")) == os.path.relpath("/x", tmp_path)


def test_jupyterlab_saves_widgets_and_asks_the_internet_for_nothing():
    file = HOME / "labkit/front/labconfig/default_setting_overrides.json"
    asked = json.loads(file.read_text())
    assert asked["@jupyter-widgets/jupyterlab-manager:plugin"] == {"saveState": True}
    news = asked["@jupyterlab/apputils-extension:notification"]
    assert news == {"fetchNews": "false", "checkForUpdates": False}
