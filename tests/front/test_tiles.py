"""A study is begun and stopped from its card, and says on the page how it went."""

import os
import signal
from dataclasses import replace

import pytest
from waiting import awaited

from labkit.front.area import Speaker
from labkit.front.cards import NO, YES, Known, Readiness, card_html, first_picture, quiet_now
from labkit.front.front_page import FrontPage, Runner, Tiles
from labkit.lab import LOCAL_LAB, Lab


def test_the_button_of_a_card_is_called_by_what_it_does_now():
    pressed = []
    cards = Known().cards()
    tiles = Tiles([card.study.name for card in cards], pressed.append)
    tiles.buttons["lat_ping"].click()
    assert pressed == ["lat_ping"]
    tiles.show(cards, "lat_ping")
    words = {name: made.description for name, made in tiles.buttons.items()}
    assert words.pop("lat_ping") == "Stop" and set(words.values()) == {"Run"}


def test_a_card_shows_the_picture_of_the_recorded_run_until_there_is_a_report(tmp_path):
    card = next(card for card in Known().cards() if card.study.name == "lat_ping")
    assert card.picture.endswith("pictures/studies/01-lat-ping.png")
    assert f'<img src="{card.picture}"' in card_html(card)
    assert first_picture(tmp_path / "none.html") == ""


def test_a_light_says_whether_the_machine_is_quiet(monkeypatch):
    cpus = len(os.sched_getaffinity(0))
    for load, quiet in ((0.1 * cpus, True), (2.0 * cpus, False)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0, 0))
        found, words = quiet_now()
        assert found is quiet and f"load {load:.1f} on {cpus} CPUs" in words


def test_a_study_runs_on_the_open_lab_and_in_a_box_of_its_own_where_that_has_no_host_for_it():
    page, own = FrontPage(), Lab.read(LOCAL_LAB)
    page.machine = replace(page.machine, tier="root")
    page.known.ready = {"a": Readiness(YES, ""), "b": Readiness(NO, "")}
    for lab, places in ((None, ["box", "box"]), (own, [str(own.path)] * 2),
                        (replace(own, tier="root"), [str(own.path), "box"])):  # fmt: skip
        page.lab.lab = lab
        assert [page._place_of("a"), page._place_of("b")] == places
    page.lab.lab, page.machine = None, replace(page.machine, tier="none")
    assert page._place_of("a") == "recorded"


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUT", str(tmp_path))
    return Runner(Speaker(), lambda _: "recorded")


@pytest.mark.when_changed("labkit/front/")
@pytest.mark.slow
def test_a_study_is_run_and_its_results_are_there(runner, tmp_path):
    seen = []
    runner.changed = lambda: seen.append(runner.study)
    runner.press("docker_stream")
    runner.wait()
    assert seen == ["docker_stream", ""]
    assert "finished" in runner.speaker.said, runner.speaker.said
    (report,) = (tmp_path / "reports").glob("docker_stream-*.html")
    assert first_picture(report).startswith("<svg")
    assert '"places.svg"' in report.with_suffix(".ipynb").read_text(), "the lab's picture"


@pytest.mark.slow
def test_what_fails_says_why(runner):
    runner.press("no_such_study")
    runner.wait()
    assert "failed" in runner.speaker.said and "no_such_study" in runner.speaker.said


@pytest.fixture
def deaf():
    """A process that ignores SIGINT, as a kernel of Jupyter does between cells."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.slow
def test_a_second_study_waits_and_stop_ends_the_first(runner, deaf):
    runner.press("docker_stream")
    awaited(lambda: runner.speaker.said and "beginning" not in runner.speaker.said)
    runner.press("lat_ping")
    assert "docker_stream is at work" in runner.speaker.said
    runner.press("docker_stream")
    runner.wait()
    assert runner.speaker.said.endswith("stopped."), runner.speaker.said
