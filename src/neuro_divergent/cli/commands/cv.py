"""`neuro-divergent cv`: compare several models on one table by cross-validation over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import writable_directory
from neuro_divergent.cli.io.tables_out import as_polars, coverage_facts, coverage_text, score_text, write_frame
from neuro_divergent.cli.io.terminal import aside, note, say, say_json
from neuro_divergent.cli.request.confine import confined
from neuro_divergent.cli.request.horizon import check_horizon, lookback
from neuro_divergent.cli.request.read_table import read_table, table_path
from neuro_divergent.cli.request.run_file import (
    Columns,
    MetricNames,
    ModelNames,
    Sections,
    Settings,
    Training,
    describe,
    levels,
    sections,
    split,
    train_config,
)
from neuro_divergent.cli.request.shell_wording import spelled
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import REPORT

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation
    from neuro_divergent.forecasting.model.model import Model


def cv(
    data: Path | None = None,
    /,
    *,
    models: ModelNames = "nhits,dlinear,mlp",
    h: int | None = None,
    input_size: int | None = None,
    n_windows: int = 3,
    step_size: int | None = None,
    gap: int = 0,
    refit: bool = True,
    metrics: MetricNames = None,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    training: Training = Training(),  # noqa: B008  # frozen
    config: Path | None = None,
    set: Settings = (),  # noqa: A002
    out: Path | None = None,
    allow_writes: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Compare models, and a seasonal naive forecast, by cross-validation over time.

    Parameters
    ----------
    data
        A CSV, Parquet or .xlsx file, or - for standard input. The run file may name it instead.
    models
        Names of models, such as nhits,dlinear,lstm; `neuro-divergent models` lists them.
    h
        How many steps ahead to forecast.
    input_size
        The lookback window: how many past steps the models see. Default: about four horizons.
    n_windows
        How many tests to run. Each test forecasts the horizon that follows its training rows.
    step_size
        Number of rows from one test to the next. Default: one horizon.
    gap
        Number of rows to leave out between the training rows and the test rows.
    refit
        Train again for every test. With --no-refit, train once, before the first test.
    metrics
        Metrics such as mae,rmse,mase,smape. The leaderboard is sorted by the first one. Default: mase.
    config
        A run file (YAML or JSON) with data, model and training fields.
    set
        Set one field, such as training.max_epochs=20 or data.gaps=linear. May be repeated.
    out
        A directory for report.html and forecasts.csv.
    allow_writes
        Let the run file's callbacks write outside of OUT too. Use it only with a file that you trust.
    json
        Print JSON.
    """
    flags = {"data": columns.fields(), "model": _given(h=h, input_size=input_size), "training": training.fields()}
    fields = sections(config, flags, set)
    n_windows = at_least_one("n_windows", n_windows)
    distance = None if step_size is None else at_least_one("step_size", step_size)
    path, names = table_path(data, fields["data"]), split((models,))
    if "h" not in fields["model"]:
        raise ConfigError("a horizon is required, but --h is missing. Give the number of steps, such as --h 28")
    described = _described(fields, names, 1, training)  # refuse a wrong request before the table is read
    if out is not None:
        writable_directory(out)
    read = read_table(path, fields["data"])
    check_horizon(read, int(fields["model"]["h"]))
    aside(json)("\n".join(read.report().lines(spelled)))

    from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation
    from neuro_divergent.forecasting.evaluate.folds import TimeSeriesSplit

    together = any(model.together for model, _ in described)
    steps = described[0][0].h
    named = None if metrics is None else split((metrics,))
    splitter = TimeSeriesSplit(
        n_splits=n_windows,
        test_size=steps,
        step_size=distance,
        gap=gap,
        align="date" if together else "auto",
    )
    oldest = splitter.folds(read, steps)[0].train[1]
    size = fields["model"].get("input_size") or lookback(read, steps, oldest)
    described = _described(fields, names, int(size), training)
    if config is not None:
        typed = sections(None, flags, set)["training"]
        described = [
            (model, confined(settings, fields["training"], typed, out, allowed=allow_writes))
            for model, settings in described
        ]
    found = cross_validation(
        [model for model, _ in described],
        read,
        config={model.name: settings for model, settings in described},
        splitter=splitter,
        refit=refit,
        level=levels(training.level),
        metrics=named,
    )
    by = named[0] if named else "mase"
    board = leaderboard(found, by)
    if out is not None:
        _write(found, board, out, path, by)
    if json:
        files = {} if out is None else {"report": str(out / REPORT), "forecasts": str(out / "forecasts.csv")}
        facts = {"leaderboard": board.to_dicts(), "by_fold": as_polars(found.by_fold).to_dicts()}
        say_json(facts | {"coverage": coverage_facts(found.evaluation)} | files)
        return
    say(f"\n{n_windows} tests of {steps} steps{f' after a gap of {gap}' if gap else ''}, best first:")
    say(score_text(board))
    if found.evaluation.coverage:
        say(coverage_text(found.evaluation, "held-out values"))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _described(fields: Sections, names: tuple[str, ...], size: int, training: Training) -> list[tuple[Model, Any]]:
    """Each model with its training configuration. Model fields of the run file apply only to the model of that kind."""
    from neuro_divergent.core import registry

    if not names:
        raise ConfigError("models are required, but --models is missing. Name some, such as --models nhits,dlinear")
    own = {name: value for name, value in fields["model"].items() if name in ("h", "input_size")}
    shared = {"input_size": size} | own
    kind = registry.normalise(str(fields["model"].get("kind", "")))
    result = []
    for name in names:
        extra = fields["model"] if registry.normalise(name) == kind else {}
        model = describe({**fields, "model": shared | extra | {"kind": name}})
        result.append((model, train_config(fields, model, training.level, None)))
    return result


def leaderboard(found: CrossValidation, by: str = "mase") -> pl.DataFrame:
    """One row per model with the mean of each metric over the tests. The best model by metric `by` comes first."""
    names = found.table["metric"].unique(maintain_order=True).to_list()
    wide = found.table.pivot(on="metric", index="model", values="mean", maintain_order=True)
    # A metric of intervals has one column per level, such as coverage-80.
    column = next((name for name in names if by in (name, name.partition("-")[0])), names[0])
    from neuro_divergent.metrics.base import badness

    rows = wide.select("model", *names)
    order = sorted(range(len(rows)), key=[badness(column, value) for value in rows[column]].__getitem__)
    return rows[order]


def _write(found: CrossValidation, board: pl.DataFrame, out: Path, path: Path, metric: str) -> None:
    from neuro_divergent.report.comparison import comparison_report

    write_frame(out / "forecasts.csv", as_polars(found.frame))
    comparison_report(found, board, source=str(path), metric=metric).save(out / REPORT)
    note(f"written: {out / REPORT}, {out / 'forecasts.csv'}")
