"""The report as a file: what is in it, and that it needs nothing else."""

import json
import re
import subprocess
import sys
from datetime import date, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.held_out import held_out_forecasts
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report import Page, training_report
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.hover import plain
from neuro_divergent.report.sections import coverage_rows, figure


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(5)
    parts = []
    for name in ("north", "south </script>"):
        days = [date(2024, 1, 1) + timedelta(days=number) for number in range(200)]
        y = 50 + 10 * np.sin(np.arange(200) * 2 * np.pi / 7) + rng.normal(0, 1, 200)
        parts.append(pl.DataFrame({"unique_id": name, "ds": days, "y": y}))
    config = nd.TrainingConfig(max_epochs=2, loss=nd.MQLoss(level=[80, 95]))
    return nd.DLinear(h=7, input_size=21, anchor="seasonal").fit(pl.concat(parts), config)


def test_every_section_is_there(fitted):
    text = training_report(fitted, source="sales.csv", command="neuro-divergent train sales.csv", seconds=1.0).render()
    for heading in ("Forecast", "Accuracy", "Training", "Data", "Do it again"):
        assert re.search(rf'<h2 id="s\d">{heading}</h2>', text)
    for part in ("Error by horizon", "Distribution of the errors", "Coverage of the intervals", "seasonal naive (7)"):
        assert part in text
    assert "neuro-divergent train sales.csv" in text
    assert f"data fingerprint {fitted.data.fingerprint[:16]}" in text
    assert "nd.MQLoss(level=[80.0, 95.0])" in text


def test_it_loads_nothing_from_anywhere(fitted):
    text = training_report(fitted).render()
    assert "http" not in text.replace("http-equiv", "")
    assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(?!data:)', text)


def hover_of(picture):
    """What a chart shows under the pointer, as the browser reads it."""
    return json.loads(ElementTree.fromstring(picture).get("data-hover"))


def test_a_name_cannot_end_the_picture_that_carries_it(fitted):
    text = training_report(fitted).render()
    assert text.count("<script") == text.count("</script>") == 1
    pictures = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    names = {picture.get("aria-label") for picture in map(ElementTree.fromstring, pictures)}
    assert "south </script>" in names
    assert {name for name, *_ in hover_of(pictures[0])["of"]} == {"80 %", "95 %", "actual", "DLinear"}


def test_the_number_of_pictures(fitted):
    text = training_report(fitted).render()
    # forecasts, held-out forecasts, horizon, errors, intervals, losses, series
    assert text.count('<svg class="still"') == 2 + 2 + 1 + 2 + 1 + 2 + 2
    assert text.count('<div class="choice" hidden>') == 3  # one series of two is shown, in three places


def test_without_any_plotting_package_the_charts_are_there(tmp_path):
    """A process in which neither plotly nor matplotlib can be imported, as after a plain `pip install`."""
    code = (
        "import sys; sys.modules['plotly'] = sys.modules['matplotlib'] = None\n"
        "import neuro_divergent as nd\n"
        "from neuro_divergent.report import training_report\n"
        "data = nd.samples.air_passengers()\n"
        "fitted = nd.DLinear(h=6, input_size=12).fit(data, nd.TrainingConfig(max_epochs=1))\n"
        "print(training_report(fitted).save('report.html'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "report.html"
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count('<svg class="still"') == 1 + 1 + 1 + 2 + 2 + 1


def test_figures_are_computed_on_rows_that_were_not_trained_on(fitted):
    held = held_out_forecasts(fitted)
    cut = 160  # the last fifth of 200 rows
    assert held.truth.time.min() >= cut
    last = held.truth.time.max()
    assert last == 200 - 7
    # By hand for one forecast: its errors are the actual values minus the median of what predict gives from there.
    data = fitted.data.head(int(last)).select(["north"])
    expected = fitted.predict(data)["DLinear"].to_numpy()
    place = np.flatnonzero((held.truth.series == 0) & (held.truth.time == last))[0]
    np.testing.assert_allclose(held.found.values[place, :, 0], expected, rtol=1e-5)
    rows = coverage_rows(held)
    assert [row[0] for row in rows] == ["95 %", "80 %"]
    inside = (held.truth.actual >= held.found.values[:, :, 3]) & (held.truth.actual <= held.found.values[:, :, 4])
    assert rows[1][1] == f"{100 * inside.mean():.1f} %"


def test_nothing_is_claimed_where_nothing_was_held_out(fitted):
    data = fitted.data
    trained = nd.DLinear(h=7, input_size=21).fit(data, nd.TrainingConfig(max_epochs=1, validation_split=None))
    assert held_out_forecasts(trained) is None
    text = training_report(trained).render()
    assert "No rows were held out" in text
    assert "better" not in text.split("<h2")[0]


def test_validation_rows_that_were_given_are_the_ones_that_were_held_out():
    """By hand: of 200 rows the last 10 were given, 5 %; windows of h=6 begin at rows 190 to 194."""
    rows = pl.DataFrame({"unique_id": ["a"] * 200, "ds": range(200), "y": np.sin(np.arange(200.0))})
    config = nd.TrainingConfig(max_steps=2, progress=False)
    model = nd.DLinear(h=6, input_size=24)
    fitted = model.fit(rows[:190], config, validation=rows[190:])
    assert held_out_forecasts(fitted).truth.time.tolist() == [190, 191, 192, 193, 194]
    text = training_report(fitted).render()
    assert "5 forecasts of 1 series over the last 5 % of their rows" in text
    # Nothing but the given rows is held back, whatever the configuration says about a split.
    without = model.fit(rows[:190], config.replace(validation_split=None), validation=rows[190:])
    assert held_out_forecasts(without).truth.time.tolist() == [190, 191, 192, 193, 194]
    too_few = model.fit(rows[:195], config, validation=rows[195:])
    assert held_out_forecasts(too_few) is None
    assert "fewer than one forecast" in training_report(too_few).render()


def test_the_page_says_how_much_was_held_back_where_a_horizon_is_longer_than_the_split():
    """By hand: a fifth of 100 rows is shorter than h=30, so 30 rows are held back; 50 rows are too few for both."""
    parts = [(name, count) for name, count in (("long", 100), ("short", 50))]
    rows = pl.concat([pl.DataFrame({"unique_id": [n] * c, "ds": range(c), "y": np.arange(float(c))}) for n, c in parts])
    config = nd.TrainingConfig(max_steps=2, progress=False, validation_split=0.2)
    fitted = nd.DLinear(h=30, input_size=20).fit(rows, config)
    held = held_out_forecasts(fitted)
    assert (held.truth.series.tolist(), held.truth.time.tolist()) == ([0], [70])
    text = training_report(fitted).render()
    assert "1 forecasts of 1 series over the last 30 % of their rows" in text


def test_a_notebook_shows_it_apart_from_its_own_styles(fitted):
    shown = training_report(fitted)._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')


def test_text_is_escaped():
    page = Page("<b>", "&")
    page.heading("<i>")
    page.table(["<u>"], [["<s>"]])
    page.code("<a>")
    page.cards([("<p>", "<q>", "")])
    text = page.render()
    for tag in ("<b>", "<i>", "<u>", "<s>", "<a>", "<q>"):
        assert tag not in text.replace("<b>&lt;p&gt;</b>", "")


def test_numbers_for_json_and_for_people():
    assert plain([1.23456789, float("nan"), date(2024, 1, 2), 3]) == [1.23457, None, "2024-01-02", 3]
    assert plain([datetime(2024, 1, 2), datetime(2024, 1, 2, 6, 30)]) == ["2024-01-02", "2024-01-02 06:30"]
    assert [figure(value) for value in (12345.6, 12.34, 0.01234, None)] == ["12,346", "12.3", "0.0123", "–"]


def test_every_kind_is_drawn():
    traces = [
        Trace(name="a", x=[1, 2], y=[3.0, 4.0]),
        Trace(name="b", x=[1, 2], y=[3.0, 4.0], low=[1.0, 2.0], kind="band"),
        Trace(name="c", x=[1, 2], y=[3.0, 4.0], kind="bars"),
        Trace(name="d", x=[1, 2], y=[3.0, 4.0], kind="points"),
    ]
    chart = Chart(title="all <&>", traces=traces, log=True)
    drawn = ElementTree.fromstring(chart.svg(small=True))  # well-formed
    assert drawn.get("aria-label") == "all <&>"
    assert [part.tag for part in drawn if part.get("fill") == COLOURS[0] and part.get("y") != "9"] == [
        *("path", "rect", "rect", "circle", "circle")
    ]


def test_a_line_is_broken_where_nothing_was_observed_and_goes_where_the_axis_says():
    """By hand: the axis goes from 0 at 298 (340 less the lower margin) to 10.5 at 10, and 0 stays at the bottom."""
    y = [0.0, 10.0, float("nan"), 10.0]
    chart = Chart(title="t", traces=[Trace(name="a", x=[0, 1, 2, 3], y=y)], legend=False)
    path = next(part.get("d") for part in ElementTree.fromstring(chart.svg()) if part.get("fill") == "none")
    top = 298 - 10 / 10.5 * (298 - 10)
    third = 70 + (1000 - 70 - 14) / 3
    assert path == f"M70.0 298.0L{third:.1f} {top:.1f}M986.0 {top:.1f}h.1"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (
            datetime(2024, 1, 1),
            datetime(2024, 1, 1, 6),
            ["00:00", "01:00", "02:00", "03:00", "04:00", "05:00", "06:00"],
        ),
        (date(2024, 1, 1), date(2024, 1, 5), ["01 Jan", "02 Jan", "03 Jan", "04 Jan", "05 Jan"]),
        (
            date(2023, 12, 20),
            date(2024, 6, 10),
            ["Jan 2024", "Feb 2024", "Mar 2024", "Apr 2024", "May 2024", "Jun 2024"],
        ),
        (date(1949, 1, 1), date(1960, 12, 1), ["1950", "1952", "1954", "1956", "1958", "1960"]),
    ],
)
def test_times_are_marked_at_whole_hours_days_months_and_years(first, last, expected):
    traces = [Trace(name="a", x=[first, last], y=[1.0, 2.0])]
    drawn = ElementTree.fromstring(Chart(title="t", traces=traces, legend=False).svg())
    assert [part.text for part in drawn if part.get("text-anchor") == "middle"] == expected


def test_one_value_and_no_value_are_drawn_too():
    for values in ([5.0], [float("nan")], []):
        chart = Chart(title="t", traces=[Trace(name="a", x=list(range(len(values))), y=values)])
        assert "nan" not in chart.svg()


def test_the_name_of_a_report_is_not_the_report(fitted):
    assert len(repr(training_report(fitted))) < 300
