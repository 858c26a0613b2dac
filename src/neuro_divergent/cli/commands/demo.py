"""`neuro-divergent demo`: train four models on built-in data; print scores, draw pictures, write a report."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import writable_directory
from neuro_divergent.cli.io.tables_out import write_frame
from neuro_divergent.cli.io.terminal import note, say, say_json, table
from neuro_divergent.core.runs.names import CONFIG, REPORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from neuro_divergent.forecasting.evaluate.backtest import Backtest
    from neuro_divergent.plotting.forecasts import SeriesPanel

OWN_FILE = """import neuro_divergent as nd
data = nd.TimeSeriesDataFrame.from_csv("your.csv", id_col="unique_id", time_col="ds", target_col="y")
print(nd.NHITS(h=24, input_size=168).fit(data).predict())"""

SHOWN_SERIES = 3


def demo(
    *,
    out: Path = Path("demo-output"),
    quick: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train NHITS, DLinear, MLP and LSTM on built-in data and compare them with a seasonal naive forecast.

    Parameters
    ----------
    out
        The directory for forecast.csv, forecast.png, report.html, and runs to look at in the dashboard.
    quick
        Train for a few steps only, to check that everything works.
    json
        Print JSON.
    """
    from neuro_divergent.core import files
    from neuro_divergent.data import samples
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.evaluate.backtest import backtest
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.models import LSTM, MLP, NHITS, DLinear
    from neuro_divergent.training.config.training_config import TrainingConfig

    writable_directory(out)
    drawing = importlib.util.find_spec("matplotlib") is not None
    show = note if json else say
    if not drawing:
        note("without pictures: they need matplotlib (pip install 'neuro-divergent[plots]')")
    logging.getLogger("neuro_divergent").setLevel(logging.ERROR)
    # Enough to show what each model can do. The recipes train longer where that helps.
    config = TrainingConfig(max_steps=20 if quick else 300)
    tables = {
        "Airline passengers, monthly, 12 ahead": (samples.air_passengers(), 12, 36),
        "Generated panel of 50 hourly series, 24 ahead": (samples.hourly_panel(), 24, 168),
    }
    results: dict[str, Backtest] = {}
    for title, (frame, h, lookback) in tables.items():
        data = TimeSeriesDataFrame.from_frame(frame)
        models: list[Model] = [cls(h=h, input_size=lookback) for cls in (NHITS, DLinear, MLP, LSTM)]
        results[title] = backtest(models, data, config)
        show(f"\n{title}: the last {h} steps of each series were hidden and forecast")
        show(table(HEADER, rows(results[title])))
    panels = [panel for result in results.values() for panel in pictures(result)]
    png = _forecast_png(panels) if drawing else None
    write_frame(out / "forecast.csv", _forecasts(results))
    written = [out / "forecast.csv"]
    if png is not None:
        files.write_bytes(out / "forecast.png", png)
        written.append(out / "forecast.png")
    files.write_text(out / REPORT, _report(results, png))
    written.append(out / REPORT)
    written.append(_recorded(out / "runs", results, 10 if quick else 120))
    if json:
        say_json({"scores": {title: _plain(result) for title, result in results.items()}, "written": written})
        return
    say(f"\nWritten: {', '.join(map(str, written))}")
    say(f"\nHow they learned, in a browser: {_typed()} dashboard {out / 'runs'}")
    say("\nThe same on a file of yours:\n")
    say(OWN_FILE)


def _recorded(folder: Path, results: dict[str, Backtest], steps: int) -> Path:
    """Train two models on each table with a run directory, for the dashboard. Returns the directory of the runs."""
    import shutil

    from neuro_divergent.forecasting.fit.shown.snapshots import ForecastSnapshots
    from neuro_divergent.losses import MQLoss
    from neuro_divergent.training.config.checkpoints import Checkpoints
    from neuro_divergent.training.config.training_config import TrainingConfig

    for result, place in zip(results.values(), ("passengers", "hourly"), strict=False):
        for name in ("NHITS", "DLinear"):
            directory = folder / place / name.lower()
            if (directory / CONFIG).is_file():  # of an earlier demo
                shutil.rmtree(directory)
            config = TrainingConfig(
                loss=MQLoss(level=[80, 95]),
                max_steps=steps,
                steps_per_epoch=max(1, steps // 6),
                metrics=("mae", "smape"),
                early_stopping=None,
                refit=None,
                progress=False,
                callbacks=[ForecastSnapshots()],
                checkpoints=Checkpoints(directory=directory, keep_last=1),
            )
            result.fitted[name].model.fit(result.data, config)
    return folder


def _typed() -> str:
    """The command as it can be typed here: `make demo` installs it into .venv."""
    import shutil
    import sys

    if shutil.which("neuro-divergent"):
        return "neuro-divergent"
    own = Path(sys.argv[0])
    return str(own) if own.name == "neuro-divergent" else "python -m neuro_divergent"


def _plain(result: Backtest) -> list[dict[str, float | str]]:
    names = ("mae", "smape", "mase", "seconds")
    return [{"model": score.name} | {name: getattr(score, name) for name in names} for score in result.scores]


HEADER = ("model", "MAE", "sMAPE %", "MASE", "seconds")


def rows(result: Backtest) -> list[list[str]]:
    """The scores as text, in the order of the models."""
    return [
        [score.name, f"{score.mae:.3f}", f"{score.smape:.2f}", f"{score.mase:.3f}", f"{score.seconds:.1f}"]
        for score in result.scores
    ]


def pictures(result: Backtest) -> Sequence[SeriesPanel]:
    """Panels of the first few series, each with all forecasts of its hidden end."""
    from neuro_divergent.forecasting.plots import recent
    from neuro_divergent.plotting.forecasts import SeriesPanel

    shown, h = result.shown, result.h
    panels = []
    for number in range(min(SHOWN_SERIES, shown.n_series)):
        times, values = recent(shown, number, 4 * h)
        panels.append(
            SeriesPanel(
                title=str(shown.ids[number]),
                times=times,
                values=values,
                forecast_times=shown.times(number, int(shown.store.lengths[number]), h).to_list(),
                forecasts={name: values[number] for name, values in result.forecasts.items()},
                actual=result.actual[number],
            )
        )
    return panels


def _forecast_png(panels: Sequence[SeriesPanel]) -> bytes:
    from neuro_divergent.plotting import close, render
    from neuro_divergent.plotting.forecasts import forecast_figure

    figure = forecast_figure(panels)
    png = render(figure)
    close(figure)
    return png


def _forecasts(results: dict[str, Backtest]) -> pl.DataFrame:
    """Every forecast of every model in one long table."""
    import polars as pl

    parts = []
    for result in results.values():
        columns = {name: values.reshape(-1) for name, values in result.forecasts.items()}
        naive = columns.pop(result.naive_name)
        parts.append(
            pl.DataFrame(
                [
                    result.shown.id_column(result.h).alias("unique_id"),
                    result.shown.future_times(result.h).alias("ds"),
                    pl.Series("y", result.actual.reshape(-1), nan_to_null=True),
                    *(pl.Series(name, values).round(4) for name, values in columns.items()),
                    pl.Series("seasonal_naive", naive).round(4),
                ]
            )
        )
    return pl.concat(parts)


def _report(results: dict[str, Backtest], png: bytes | None) -> str:
    from neuro_divergent._version import __version__
    from neuro_divergent.plotting import close, render
    from neuro_divergent.plotting.curves import losses_figure
    from neuro_divergent.report.page import Page

    page = Page("Neuro-Divergent demo", "Four models, two data sets, one hidden horizon each.")
    if png is not None:
        page.heading("Forecasts of the hidden horizon")
        page.picture(png, "Series with the forecasts of all models beside what happened")
    for title, result in results.items():
        page.heading(title)
        best = min(range(len(result.scores)), key=lambda number: result.scores[number].mase)
        page.table(HEADER, rows(result), best)
        histories = {name: fitted.history for name, fitted in result.fitted.items()}
        if png is not None:
            figure = losses_figure({name: (history.step_loss, history.epochs) for name, history in histories.items()})
            page.picture(render(figure), f"Loss curves: {title}")
            close(figure)
        page.folded("What the data report says", str(result.data.report()))
        for name, fitted in result.fitted.items():
            page.folded(f"Configuration of {name}", f"{fitted.model.to_json()}\n\n{fitted.config.to_json()}")
    page.heading("The same on a file of yours")
    page.code(OWN_FILE)
    page.footer = f"neuro-divergent {__version__}. MASE below 1 is better than the naive forecast was on the history."
    return page.render()
