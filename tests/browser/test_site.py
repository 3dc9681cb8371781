"""The site in a real browser: opened as files and served, light and dark, narrow and wide."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.when_changed("notebooks/docs/site/", "labkit/pages/", "labkit/charts/"),
]

BUILD = Path(__file__).resolve().parents[2] / "notebooks/docs/site/build.py"
STUDY, HOW_TO, REFERENCE = "notebooks/01-lat-ping", "notebooks/docs/first-study", "reference/nouns"
PROOF = "notebooks/docs/proof/speed"
PAGES = ("index", STUDY, HOW_TO, PROOF, REFERENCE)
CHARTS = {"index": 1, STUDY: 3}
BACKGROUND = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
MARKS = ".labkit-chart[data-live] svg.marks :is(path, line)"


def built(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BUILD), *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A site of a page of each kind, made by what makes the whole one."""
    folder = tmp_path_factory.mktemp("made") / "site"
    done = built("--into", str(folder), "--small", Path(STUDY).name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "notebook 1 of 1" in done.stderr and "writing output" in done.stdout
    return folder


class Silent(SimpleHTTPRequestHandler):
    """Any server of files; it writes no log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def heard(page):
    """The page, which notes what its console says and what goes wrong in it."""
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and page.wrong.append(said.text))
    return page


# Each place, width and scheme with each other one once; all of them in `make torture`.
@pytest.mark.parametrize(
    ("place", "width", "scheme"),
    [
        ("files", 800, "light"), ("files", 1400, "dark"),
        ("a server", 800, "dark"), ("a server", 1400, "light"),
        *(pytest.param(*one, marks=pytest.mark.torture) for one in
          (("files", 800, "dark"), ("files", 1400, "light"),
           ("a server", 800, "light"), ("a server", 1400, "dark"))),
    ],
)  # fmt: skip
def test_every_kind_of_page_is_whole_and_asks_no_other_host(
    heard, site, served, screenshots, width, scheme, place
):
    heard.set_viewport_size({"width": width, "height": 1100})
    heard.emulate_media(color_scheme=scheme)
    for name in PAGES:
        heard.goto(f"{site.as_uri() if place == 'files' else served}/{name}.html")
        drawn(heard, CHARTS.get(name, 0))
        assert heard.evaluate("document.documentElement.scrollWidth") <= width, name
        assert (min(heard.evaluate(BACKGROUND)) > 200) == (scheme == "light"), name
        if place == "files":
            text = f"site-{Path(name).name}-{width}-{scheme}.png"
            heard.screenshot(path=screenshots / text)
    assert heard.strayed == [] and heard.wrong == []


def drawn(page, charts: int) -> None:
    """Each chart is alive, and has marks that can be seen."""
    page.wait_for_function(
        f"document.querySelectorAll('.labkit-chart[data-live]').length === {charts}"
    )
    assert page.locator(".labkit-chart").count() == charts
    assert page.locator(MARKS).count() >= 20 * charts
    if charts:
        box = page.locator(".labkit-chart[data-live] svg.marks").last.bounding_box()
        assert box["width"] > 300 and box["height"] > 200


def test_a_word_is_found_in_a_site_that_was_opened_as_files(heard, site):
    heard.goto(f"{site.as_uri()}/search.html?q=percentile")
    heard.wait_for_selector("#search-results li a")
    assert heard.locator("#search-results li a", has_text="Round trips by ping").count()
    assert heard.strayed == [] and heard.wrong == []


def test_a_site_that_is_built_again_executes_nothing(site):
    done = built("--into", str(site), "--small", Path(STUDY).name)
    assert done.returncode == 0 and "notebook 1" not in done.stderr, done.stderr


@pytest.mark.torture
def test_the_whole_site_is_built_without_a_warning(tmp_path):
    done = built("--into", str(tmp_path / "site"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "warning" not in done.stderr.lower()
