"""`neuro-divergent auto`: find a good forecast of a table in a given time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import writable_directory
from neuro_divergent.cli.io.terminal import aside, say, say_json
from neuro_divergent.cli.request.hints import command, resumed_command
from neuro_divergent.cli.request.horizon import check_horizon
from neuro_divergent.cli.request.read_table import read_table, table_path
from neuro_divergent.cli.request.run_file import Columns, MetricName, Settings, levels, sections, split
from neuro_divergent.cli.request.shell_wording import spelled
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import AUTO, MODEL, REPORT

if TYPE_CHECKING:
    from neuro_divergent.search.auto.auto_forecaster import AutoForecaster
    from neuro_divergent.search.auto.result import AutoResult


def auto(
    data: Path | None = None,
    /,
    *,
    h: int | None = None,
    preset: str | None = None,
    time_limit: str | None = None,
    metric: MetricName = None,
    include: str | None = None,
    exclude: str | None = None,
    level: str | None = None,
    jobs: int | None = None,
    seed: int | None = None,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    set: Settings = (),  # noqa: A002
    out: Path = Path("auto"),
    resume: Annotated[bool, Parameter(negative="")] = False,
    report: bool = True,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Find a good forecast of a table in a given time: a portfolio of models, an ensemble, and a search.

    Parameters
    ----------
    data
        A CSV, Parquet or .xlsx file, or - for standard input.
    h
        How many steps ahead to forecast.
    preset
        How many models are tried: fast, medium or best. Default: medium.
    time_limit
        Time for everything, such as 90s, 10min or 1h. Default: 10min.
    metric
        The metric that decides, such as mase, mae, rmse or smape. Default: mase.
    include
        Models or families to train instead of the portfolio, such as nhits,recurrent.
    exclude
        Models or families to leave out, such as tft,transformer.
    level
        Intervals in percent. Default: 80,95.
    jobs
        Models trained at the same time, each in a process of its own; -1 for one per core. Default: 1.
    seed
        Seed of every random draw.
    set
        Set one field, such as auto.n_windows=5 or data.gaps=linear. May be repeated.
    out
        The directory of the work; the model is in OUT/model.
    resume
        Go on with the work in OUT. Give the same flags again; another --time-limit is allowed.
    report
        Write OUT/report.html.
    json
        Print JSON.
    """
    several = {name: list(split((text,))) for name, text in (("include", include), ("exclude", exclude)) if text}
    asked = {"h": h, "preset": preset, "time_limit": time_limit, "metric": metric, "level": levels(level)}
    asked |= {"n_jobs": jobs, "seed": seed}
    flags = {
        "data": columns.fields(),
        "auto": {name: value for name, value in asked.items() if value is not None} | several,
    }
    fields = sections(None, flags, set, more=("auto",))
    path = table_path(data, fields["data"])
    wanted = _wanted(fields["auto"], out)  # refuse a wrong request before the work
    if (out / AUTO).exists() and not resume:
        raise ConfigError(f"{out} has such work already. Choose another --out, or go on with it: --resume")
    writable_directory(out, "the directory of the work")
    table = read_table(path, fields["data"])
    check_horizon(table, wanted.h)
    show = aside(json)
    show("\n".join(table.report().lines(spelled)))
    try:
        found = wanted.fit(table, resume="auto" if resume else None)
    except (KeyboardInterrupt, SystemExit):
        show(f"stopped; finished models are in {out}. Go on with: {resumed_command()}")
        raise
    _finish(found, out, path, report, json)


def _wanted(fields: dict[str, Any], out: Path) -> AutoForecaster:
    from neuro_divergent.search.auto.auto_forecaster import AutoForecaster

    if "h" not in fields:
        raise ConfigError("a horizon is required, but --h is missing. Give the number of steps, such as --h 28")
    return AutoForecaster(**fields | {"directory": out})


def _finish(found: AutoResult, out: Path, path: Path, report: bool, json: bool) -> None:
    """Write the model and the report, and say what was found."""
    found.save(out / MODEL, overwrite=True)
    if report:
        found.report(out / REPORT, source=str(path))
    shown = ",".join(f"{level:g}" for level in found.levels)
    forecast = command("predict", out / MODEL, *(("--level", shown) if shown else ()))
    if json:
        facts = {"what": "auto", "model": str(out / MODEL), "report": str(out / REPORT) if report else None}
        say_json(facts | found.facts | {"reasons": list(found.reasons), "leaderboard": found.leaderboard.to_dicts()})
        return
    say(repr(found.leaderboard))
    say("\n".join(found.reasons))
    for interval in found.coverage:
        say(interval.sentence("values of the last windows"))
    say(f"model in {out / MODEL}" + (f", report in {out / REPORT}" if report else ""))
    say(f"forecast with: {forecast}")
