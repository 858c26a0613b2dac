"""The report in a real browser: it loads without errors, draws its charts, and lets a series be chosen."""

import shutil

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.report import training_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: install the package chromium to run this")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """An interactive report and one of pictures, of a panel with three series."""
    rng = np.random.default_rng(2)
    n = 260
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 11, 19), "1h", eager=True)[:n]
    parts = [
        pl.DataFrame(
            {"unique_id": name, "ds": times, "y": level + np.sin(np.arange(n) / 24 * 6.283) + rng.normal(0, 0.1, n)}
        )
        for name, level in (("alpha", 0.0), ("beta", 100.0), ("gamma", 1000.0))
    ]
    config = nd.TrainingConfig(max_epochs=2, loss=nd.MQLoss(level=[80, 95]))
    fitted = nd.DLinear(h=12, input_size=24).fit(pl.concat(parts), config)
    folder = tmp_path_factory.mktemp("pages")
    training_report(fitted, source="hours.csv", command="neuro-divergent train hours.csv").save(folder / "live.html")
    training_report(fitted, interactive=False).save(folder / "still.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, pages):
    """Open a page from file://, keep what it complains about and what it asks the network for."""
    opened = []

    def go(name, *, width=1200, dark=False):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto((pages / name).as_uri())
        page.wait_for_load_state("load")
        opened.append(page)
        return page

    yield go
    for page in opened:
        page.close()


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False)])
def test_it_loads_without_errors_and_draws_every_chart(visit, width, dark):
    page = visit("live.html", width=width, dark=dark)
    charts = page.locator(".chart")
    count = charts.count()
    assert count == 8
    page.wait_for_function("document.querySelectorAll('.chart .main-svg').length >= 8")
    for number in range(count):
        assert charts.nth(number).locator(".main-svg").first.is_visible()
        assert charts.nth(number).locator("path.js-line, .point path, .points path").count() > 0
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    # Nothing sticks out to the side: a phone scrolls in one direction only.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")


def test_a_series_can_be_chosen(visit):
    page = visit("live.html")
    box = page.locator("select").first
    assert box.locator("option").all_inner_texts() == ["alpha", "beta", "gamma"]
    highest = "Math.max(...document.getElementById('c0').data.flatMap(trace => trace.y.filter(y => y !== null)))"
    assert page.evaluate(highest) < 50
    box.select_option("gamma")
    assert 900 < page.evaluate(highest) < 1100
    box.select_option("beta")
    assert 90 < page.evaluate(highest) < 110
    assert page.complaints == []


def test_the_page_of_pictures_lets_a_series_be_chosen_too(visit):
    page = visit("still.html")
    images = page.locator("#c0 svg")
    assert images.count() == 3
    assert [images.nth(number).is_visible() for number in range(3)] == [True, False, False]
    page.locator("select").first.select_option("gamma")
    assert [images.nth(number).is_visible() for number in range(3)] == [False, False, True]
    # Every line, bar and band has a place of its own on the page.
    sizes = page.evaluate(
        "Array.from(document.querySelectorAll('.still:not([hidden]) :is(path[stroke], rect, circle)'))"
        ".map(part => part.getBoundingClientRect()).filter(box => box.width + box.height === 0).length"
    )
    assert sizes == 0
    assert page.complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_pictures_fits_a_phone_and_shows_the_end_of_a_series(visit, dark):
    page = visit("still.html", width=390, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('.still[data-end]').parentElement.scrollLeft") > 0
    line = page.evaluate("getComputedStyle(document.querySelector('.still path[stroke=\"#0072B2\"]')).stroke")
    assert line == ("rgb(74, 168, 224)" if dark else "rgb(0, 114, 178)")
    assert page.complaints == []


def test_charts_follow_when_the_evening_comes(visit):
    page = visit("live.html")
    ink = "document.getElementById('c0').data.find(trace => trace.name === 'history').line.color"
    before = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"({ink}) !== {before!r}")
    assert page.complaints == []
