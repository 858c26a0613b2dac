"""The dashboard in a real browser: every view, live updates, hostile runs, exports, accessibility."""

import itertools
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import neuro_divergent as nd

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "dashboard"))
from dashboard_runs import line, scored, steps_line, write_run

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AXE = os.environ.get("ND_AXE", str(Path(tempfile.gettempdir()) / "axe" / "package" / "axe.min.js"))
"""axe-core, unpacked from the npm registry: npm pack axe-core, tar xf."""
VIEWS = ("curves", "forecasts", "model", "data", "events", "settings")
EVIL = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: install the package chromium to run this")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A real run with forecasts, a run that seems to train, a search, and a hostile run."""
    folder = tmp_path_factory.mktemp("runs")
    config = nd.TrainingConfig(
        loss=nd.MQLoss(level=[80]), max_epochs=3, metrics=("mae",), progress=False,
        callbacks=[nd.GradientNormMonitor(every=2), nd.ForecastSnapshots()],
        checkpoints=nd.Checkpoints(directory=str(folder / "real"), every_n_epochs=1),
    )  # fmt: skip
    nd.MLP(h=6, input_size=24, hidden_size=8).fit(nd.samples.air_passengers(), config)
    sick = config.replace(
        learning_rate=5.0, max_epochs=8, callbacks=[nd.Doctor()],
        checkpoints=nd.Checkpoints(directory=str(folder / "sick")),
    )  # fmt: skip
    nd.MLP(h=6, input_size=24, hidden_size=8).fit(nd.samples.air_passengers(), sick)
    for name, best in (("alike-a", 0.3), ("alike-b", 0.7)):
        write_run(folder / name, best=best, about=scored(), epochs=5)
    write_run(folder / "awful", best=5000.0, about=scored(rows="others"))
    odd = scored() | {"data": {"fingerprint": 5, "series": [], "rows": {}, "freq": None, "seasons": 3, "report": 1}}
    write_run(folder / "odd", about=odd | {"naive": {"validation_loss": "1"}, "scored": {"rows": {"a": 1}, "h": [1]}})
    write_run(folder / "other", about=scored(rows="others", table="another"))
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (folder / "search").mkdir()
    (folder / "search" / "study.json").write_text("{}")
    made = optuna.create_study(storage=f"sqlite:///{folder}/search/study.db", study_name="search")
    made.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=10)
    write_run(folder / "search" / "trials" / "00003", about=scored())
    hostile(folder / "evil <img src=x onerror=window.broken=1>")
    return folder


def hostile(run):
    about = scored() | {
        "model": {"kind": EVIL},
        "data": {"fingerprint": EVIL, "series": EVIL, "rows": EVIL, "freq": EVIL},
    }
    about["data"] |= {"columns": {EVIL: EVIL}, "report": [EVIL], "seasons": [EVIL], "first": EVIL, "last": EVIL}
    extra = [
        line("verdict", 5, what=EVIL, evidence=EVIL, remedy=EVIL),
        line("console", 5, level=EVIL, text=EVIL),
        line("log", 6, **{EVIL: {EVIL: 1.0}, "accuracy": 0.5}),
        line("from_the_future", 7, schema=99, what=[EVIL]),
        '{"event": "epoch", "step": 1e999',
        "\x00\xff" * 50,
    ]
    write_run(run, about=about, extra=extra, end=f"Error: {EVIL}")
    (run / "notes.json").write_text(json.dumps({"tags": [EVIL], "note": EVIL}))
    layer = {"name": EVIL, "type": EVIL, "size": EVIL, "parameters": 5, "trainable": 5}
    (run / "details.json").write_text(json.dumps({"layers": [layer], "series": []}))
    (run / "forecasts").mkdir()
    snapshot = json.loads(
        '{"h": 1, "season": 1, "error": 1, "naive_error": 2, "by_step": {"model": [1], "naive": [2]}}'
    )
    one = {
        "id": EVIL,
        "times": [EVIL],
        "history_times": [EVIL],
        "history": [1],
        "actual": [1],
        "forecast": [1],
        "naive": [1],
    }
    (run / "forecasts" / "epoch-00001.json").write_text(json.dumps(snapshot | {"model": EVIL, "series": [one]}))


@pytest.fixture(scope="module")
def board(folder):
    with nd.Dashboard(folder) as board:
        yield board


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, board):
    """Open the dashboard, keep what it complains about and what it asks the network for."""
    opened = []

    def go(place="", *, width=1280, dark=False):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        opened.append(context)
        page = context.new_page()
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(board.url)
        page.wait_for_selector("tr[data-run]")
        if place:
            show(page, place)
        return page

    yield go
    for context in opened:
        context.close()


def show(page, place):
    page.evaluate(f"location.hash = {json.dumps(place)}")
    page.wait_for_selector("main h1")
    page.wait_for_function("document.getElementById('live').textContent.includes('live')")
    page.wait_for_timeout(150)


def run_id(page, start):
    if page.url.partition("#")[2] not in ("", "/"):
        show(page, "#/")
    page.wait_for_selector("tr[data-run]")
    rows = page.eval_on_selector_all(
        "tr[data-run]", "rows => rows.map(row => [row.dataset.run, row.querySelector('a').textContent])"
    )
    return next(key for key, name in rows if name.startswith(start))


def nothing_wrong(page, width=None):
    assert page.complaints == []
    assert page.evaluate("window.broken") is None
    assert all(re.match(r"http://127\.0\.0\.1:\d+/|data:|blob:", url) for url in page.asked)
    if width:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_every_view_is_drawn_without_errors(visit, width, dark):
    page = visit(width=width, dark=dark)
    real, a, b = run_id(page, "real"), run_id(page, "alike-a"), run_id(page, "alike-b")
    for view in VIEWS:
        show(page, f"#/run/{real}/{view}")
        nothing_wrong(page, width)
    show(page, f"#/run/{real}/curves")
    lines = page.locator("figure.chart path[stroke]")
    assert lines.count() >= 8
    show(page, f"#/run/{real}/forecasts")
    assert page.locator("figure.chart:has-text('AirPassengers') path").count() >= 4
    assert "seasonal naive" in page.inner_text("main")
    show(page, f"#/run/{real}/model")
    assert page.locator("rect").count() > 5
    show(page, f"#/compare?runs={a},{b}")
    assert "alike-a" in page.inner_text("tr.top1")
    nothing_wrong(page, width)
    show(page, "#/search")
    page.click("main table a")
    page.wait_for_selector("text=What the score depends on")
    nothing_wrong(page, width)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")


def test_the_page_shows_a_step_within_a_second(visit, folder):
    run = write_run(folder / "growing", end=None, epochs=1)
    page = visit()
    page.wait_for_selector("text=growing")
    show(page, f"#/run/{run_id(page, 'growing')}/curves")
    assert "4 steps" in page.inner_text("figure.chart >> nth=0")
    # The time is measured in the page, from the write to the frame that shows it.
    page.evaluate("""() => { window.seen = new Promise((done) => {
        const look = () => document.querySelector('figure.chart').textContent.includes('40 steps')
            ? done(Date.now()) : requestAnimationFrame(look);
        look(); }); }""")
    before = page.evaluate("Date.now()")
    with open(run / "events.jsonl", "a") as file:
        file.write(steps_line(5, 40) + "\n")
    seconds = (page.evaluate("window.seen") - before) / 1000
    logging.getLogger(__name__).info("the page showed the step after %.2f s", seconds)
    nothing_wrong(page)


def test_the_doctors_verdict_is_shown_as_sentences_with_its_remedy(visit):
    page = visit()
    sick = run_id(page, "sick")
    assert "verdict" in page.inner_text(f"tr[data-run='{sick}']")
    show(page, f"#/run/{sick}/curves")
    told = page.inner_text(".verdict >> nth=0")
    assert "certainty 0." in told
    assert re.search(r"What to do: .*\w+ = [0-9.e-]+", told)
    assert not re.search(r"[{}\[\]']", told)
    assert "over 1,000 % worse" in page.inner_text(f"tr[data-run='{run_id(page, 'awful')}']")
    show(page, f"#/run/{sick}/events")
    assert re.search(r"remedy: \w+ = ", page.inner_text("main table"))
    nothing_wrong(page)


def test_a_trial_of_a_search_leads_to_its_run(visit):
    page = visit()
    assert "00003" not in page.inner_text("tbody")  # trials are left out of the table of runs
    page.check("label:has-text('trials of searches') input")
    assert "search/trials/00003" in page.inner_text("tbody")
    show(page, "#/search")
    page.click("main table a")
    page.click("main table a:text-is('3')")
    page.wait_for_selector("h1:has-text('search/trials/00003')")
    nothing_wrong(page)


def test_bars_and_points_at_the_edges_are_whole_and_epochs_are_counted_in_whole_numbers(visit):
    page = visit(width=400)
    real = run_id(page, "real")
    show(page, f"#/run/{real}/curves")
    ticks = page.locator("figure.chart:has-text('Loss by epoch') svg >> nth=0").locator("text").all_text_contents()
    labels = ticks[: ticks.index("epoch")]
    assert {"1", "2", "3"} <= set(labels)
    assert not {"1.5", "2.5"} & set(labels)
    cut = """(name) => [...document.querySelectorAll('figure.chart')].filter((one) => one.textContent.includes(name))
        .flatMap((one) => { const clip = one.querySelector('clipPath rect'), left = +clip.getAttribute('x');
            const right = left + +clip.getAttribute('width');
            return [...one.querySelectorAll('g circle, g > rect')].filter((mark) => {
                const x = +(mark.getAttribute('cx') ?? mark.getAttribute('x'));
                const size = +(mark.getAttribute('r') ?? 0), wide = +(mark.getAttribute('width') ?? 0);
                return x - size < left || x + Math.max(size, wide) > right; }); }).length"""
    assert page.evaluate(cut, "Loss by epoch") == 0
    show(page, f"#/run/{real}/model")
    assert page.evaluate(cut, "Parameters by layer") == 0
    boxes = page.evaluate("""() => [...document.querySelectorAll('figure.chart')][0].querySelectorAll('svg')[0]
        && [...document.querySelectorAll('figure.chart svg text')].filter((one) => one.textContent.includes('.'))
        .map((one) => one.getBoundingClientRect()).map((one) => [one.left, one.right, one.top])""")
    same = sorted(box for box in boxes if box[2] == boxes[0][2])
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(same))


def test_hostile_runs_execute_nothing_and_the_page_stays_usable(visit):
    page = visit()
    evil = run_id(page, "evil")
    assert EVIL in page.inner_text(f"tr[data-run='{evil}']")
    for view in VIEWS:
        show(page, f"#/run/{evil}/{view}")
        assert page.evaluate("window.broken") is None
        assert page.locator("main img, main script").count() == 0
    show(page, f"#/run/{evil}/curves")
    assert "2 lines of the event log could not be read" in page.inner_text("main")
    show(page, f"#/compare?runs={evil},{run_id(page, 'alike-a')}")
    assert page.evaluate("window.broken") is None
    show(page, "#/")
    page.wait_for_selector("text=alike-a")


def test_a_run_with_unforeseen_facts_hides_nothing_else(visit):
    page = visit()
    odd = run_id(page, "odd")
    for view in VIEWS:
        show(page, f"#/run/{odd}/{view}")
        assert "odd" in page.inner_text("h1")
    show(page, f"#/run/{odd}/data")
    assert "cannot be shown" in page.inner_text("[role=alert]")
    show(page, f"#/run/{odd}/curves")
    assert page.locator("figure.chart path[stroke]").count() >= 4
    nothing_wrong(page)


def test_what_was_scored_differently_is_not_ranked_together(visit):
    page = visit()
    show(page, f"#/compare?runs={run_id(page, 'alike-a')},{run_id(page, 'other')}")
    assert "not ranked together" in page.inner_text("[role=alert]")
    assert "different tables" in page.inner_text("[role=alert]")


def test_search_sort_tags_and_selection(visit):
    page = visit()
    page.fill("input[type=search]", "alike")
    assert page.locator("tr[data-run]").count() == 2
    page.click("button[data-name=score]")
    assert page.locator("tr[data-run] a").first.inner_text() == "alike-a"
    page.click("button[data-name=score]")
    assert page.locator("tr[data-run] a").first.inner_text() == "alike-b"
    assert page.get_attribute("th:has(button[data-name=score])", "aria-sort") == "descending"
    page.click("button[aria-label='Tags and note of alike-b']")
    page.fill("#tags", "kept, <b>bold</b>")
    page.fill("#note", "because")
    page.click("dialog button[type=submit]")
    page.wait_for_selector("span.tag:has-text('<b>bold</b>')")
    for box in page.locator("tr[data-run] input").all():
        box.check()
    page.click("text=Compare 2")
    page.wait_for_selector("text=Differences of settings")
    nothing_wrong(page)


def test_charts_zoom_read_out_and_are_saved(visit, tmp_path):
    page = visit()
    show(page, f"#/run/{run_id(page, 'alike-a')}/curves")
    figure = page.locator("figure.chart").first
    svg = figure.locator("svg").first
    svg.focus()
    page.keyboard.press("ArrowRight")
    assert "training: 0.5" in figure.locator(".tip").inner_text()  # the loss of step n is 1/n
    before = len(page.asked)
    page.keyboard.press("+")
    page.wait_for_timeout(200)
    assert any("from=" in url for url in page.asked[before:])
    page.keyboard.press("0")
    figure.locator("text=log").click()
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"series,x,y")):
        with page.expect_download() as saved:
            figure.locator(f".tools button:text-is('{kind}')").click()
        saved.value.save_as(tmp_path / kind)
        content = (tmp_path / kind).read_bytes()
        assert content.startswith(start)
        assert b"var(" not in content
    assert "\ntraining,4,0.25" in (tmp_path / "CSV").read_text()
    nothing_wrong(page)


def test_a_comparison_is_one_file_that_needs_nothing(visit, browser, tmp_path):
    page = visit()
    evil, other = run_id(page, "evil"), run_id(page, "alike-a")
    show(page, f"#/compare?runs={evil},{other}")
    with page.expect_download() as saved:
        page.click("text=Save as one HTML file")
    saved.value.save_as(tmp_path / "comparison.html")
    text = (tmp_path / "comparison.html").read_text()
    assert "http://127" not in text
    sent = browser.new_page()
    sent.goto((tmp_path / "comparison.html").as_uri())
    assert "alike-a" in sent.inner_text("body")
    assert sent.locator("svg path").count() >= 2
    assert sent.evaluate("window.broken") is None
    assert sent.locator("img, script").count() == 0
    sent.close()


@pytest.mark.skipif(
    not Path(AXE).is_file(), reason="no axe-core here: npm pack axe-core, unpack it, ND_AXE=.../axe.min.js"
)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(visit, dark):
    page = visit(dark=dark)
    real, a, other = run_id(page, "real"), run_id(page, "alike-a"), run_id(page, "other")
    source, found = Path(AXE).read_text(encoding="utf-8"), []
    places = ["#/", *(f"#/run/{real}/{view}" for view in VIEWS), f"#/compare?runs={a},{other}", "#/search"]
    for place in places:
        show(page, place)
        page.evaluate(source)
        result = page.evaluate("axe.run()")
        found += [
            (place, one["id"], one["nodes"][0]["html"][:120])
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    assert found == []
