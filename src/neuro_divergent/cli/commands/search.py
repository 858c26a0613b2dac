"""`neuro-divergent search`: search better settings of a model, and of its training, on a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from neuro_divergent.cli.io.output_paths import writable_directory
from neuro_divergent.cli.io.study_text import study_facts, study_lines
from neuro_divergent.cli.io.terminal import aside, say, say_json
from neuro_divergent.cli.request.confine import confined
from neuro_divergent.cli.request.hints import command, resumed_command, table_flags
from neuro_divergent.cli.request.horizon import check_horizon, lookback
from neuro_divergent.cli.request.read_table import read_table, table_path
from neuro_divergent.cli.request.run_file import (
    Columns,
    MetricName,
    ModelName,
    Sections,
    Settings,
    Training,
    describe,
    sections,
    train_config,
)
from neuro_divergent.cli.request.shell_wording import spelled
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import BEST, REPORT, STUDY

if TYPE_CHECKING:
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.search.result import SearchResult
    from neuro_divergent.search.settings import Search
    from neuro_divergent.training.config.training_config import TrainingConfig

Method = Literal["tpe", "random", "grid", "bayesian"]
KINDS = {"tpe": "TPESearch", "random": "RandomSearch", "grid": "GridSearch", "bayesian": "BayesianOptimization"}
BUDGETS = {"BayesianOptimization": "n_calls"}
"""The field for the number of trials, where it is not n_trials."""


def search(
    data: Path | None = None,
    /,
    *,
    model: ModelName = None,
    h: int | None = None,
    input_size: int | None = None,
    method: Method | None = None,
    trials: int | None = None,
    timeout: str | None = None,
    metric: MetricName = None,
    folds: int | None = None,
    jobs: int | None = None,
    pruner: str | None = None,
    space: Path | None = None,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    training: Training = Training(),  # noqa: B008  # frozen
    config: Path | None = None,
    set: Settings = (),  # noqa: A002
    out: Path = Path("study"),
    resume: Annotated[bool, Parameter(negative="")] = False,
    report: bool = True,
    allow_writes: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Search better settings of a model and of its training, and score the winner on rows that no trial saw.

    Parameters
    ----------
    data
        A CSV, Parquet or .xlsx file, or - for standard input. The run file may name it instead.
    model
        The model's name; `neuro-divergent models` lists them. Default: nhits.
    h
        How many steps ahead to forecast.
    input_size
        The lookback window of the first trial. Default: about four horizons.
    method
        How trials are chosen: tpe (by the results so far), random, grid, or bayesian. Default: tpe.
    trials
        Maximum number of trials. Default: 50. A grid has all its points, unless it is given.
    timeout
        Time for the whole search, such as 90s, 30m or 6h. Trials that still run can go on with --resume.
    metric
        The metric that decides, such as mae, rmse or mase. Default: mae.
    folds
        Number of test parts, one after the other in time. Every trial is trained once for each.
    jobs
        Trials at the same time, each in a process of its own; -1 for one per core.
    pruner
        Which trials end early: median, successive_halving, hyperband, patient or wilcoxon. Default: none.
    space
        A YAML or JSON file with what is varied, and over which values. Default: the model's default space;
        `neuro-divergent models --space NAME` shows it.
    config
        A run file (YAML or JSON) with data, model, training and search fields.
    set
        Set one field, such as search.seeds=3, training.max_epochs=20 or data.gaps=linear. May be repeated.
    out
        The directory of the study.
    resume
        Go on with the study in OUT. Give the same flags again; more --trials or another --timeout are allowed.
    report
        Write OUT/report.html.
    allow_writes
        Let the run file's callbacks write outside of OUT too. Use it only with a file that you trust.
    json
        Print JSON.
    """
    asked = {"cv_folds": folds, "n_jobs": jobs, "pruner": pruner, "timeout": timeout, "scoring": metric}
    flags = {
        "data": columns.fields(),
        "model": _given(kind=model, h=h, input_size=input_size),
        "training": training.fields(),
        "search": _given(**asked) | _chosen(method),
    }
    fields = sections(config, flags, set, more=("search",))
    path = table_path(data, fields["data"])
    if "h" not in fields["model"]:
        raise ConfigError("a horizon is required, but --h is missing. Give the number of steps, such as --h 28")
    described = describe({**fields, "model": {"input_size": 1} | fields["model"]})
    settings = train_config(fields, described, training.level, None)
    wanted = _described(fields, described, settings, trials, space, out)  # refuse a wrong request before the work
    if (out / STUDY).exists() and not resume:
        raise ConfigError(f"{out} has a study already. Choose another --out, or go on with it: --resume")
    writable_directory(out, "the directory of the study")
    table = read_table(path, fields["data"])
    check_horizon(table, described.h)
    show = aside(json)
    show("\n".join(table.report().lines(spelled)))
    if "input_size" not in fields["model"]:
        from neuro_divergent.search.plan import make_plan

        rows = make_plan(wanted, described, table)[0].folds[0].train[1]  # what every trial may know
        described = described.replace(input_size=lookback(table, described.h, rows))
    if config is not None:
        typed = sections(None, flags, set, more=("search",))["training"]
        settings = confined(settings, fields["training"], typed, out, allowed=allow_writes)
    wanted = _described(fields, described, settings, trials, space, out)
    assert wanted.space is not None
    show(f"{wanted.budget:,} trials of {described.kind} over {', '.join(wanted.space.dimensions)}")
    try:
        found = wanted.fit(table, resume="auto" if resume else None)
    except (KeyboardInterrupt, SystemExit):
        show(f"stopped; finished trials are in {out}. Go on with: {resumed_command()}")
        raise
    _finish(found, path, fields, report, json)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _chosen(method: Method | None) -> dict[str, Any]:
    return {} if method is None else {"kind": KINDS[method]}


def _described(
    fields: Sections, model: Model, config: TrainingConfig, trials: int | None, space: Path | None, out: Path
) -> Search:
    """The search of the fields, with its space."""
    from neuro_divergent.core import registry
    from neuro_divergent.search.settings import Search

    given: dict[str, Any] = {"kind": "TPESearch"} | fields["search"]
    kind = registry.resolve("search", str(given["kind"])).kind
    budget = BUDGETS.get(kind, "n_trials")
    if trials is not None and kind != "MultiObjectiveSearch":
        given[budget] = trials
    elif budget not in given and kind not in ("GridSearch", "MultiObjectiveSearch"):
        given[budget] = 50
    if space is not None:
        given["space"] = _space_file(space)
    if given.get("space") is None:
        given["space"] = model.search_space(config).to_dict()
    wanted = Search.from_dict({**given, "model": model.to_dict(), "config": config.to_dict(), "directory": str(out)})
    assert wanted.space is not None
    wanted.space.check(model, config)
    return wanted


def _space_file(path: Path) -> dict[str, Any]:
    from neuro_divergent.cli.request.run_file import yaml_file

    return dict(yaml_file(path, "the space"))


def _finish(found: SearchResult, path: Path, fields: Sections, report: bool, json: bool) -> None:
    """Write the winner's settings and the report, and say what was found."""
    from neuro_divergent.core import files

    out, best = found.directory, found.best
    files.write_text(out / BEST, _run_file(best.model, best.config))
    again = command("train", path, "--config", out / BEST, *table_flags(fields["data"]))
    if report:
        from neuro_divergent.report.search import search_report

        search_report(found, source=str(path), train=again).save(out / REPORT)
    if json:
        say_json(study_facts(found) | {"settings": str(out / BEST), "report": str(out / REPORT) if report else None})
        return
    say("\n".join(study_lines(found)))
    say(f"settings of the best trial in {out / BEST}" + (f", report in {out / REPORT}" if report else ""))
    say(f"train it on all rows with: {again}")


def _run_file(model: Model, config: TrainingConfig) -> str:
    """The winner as a run file: what differs from the defaults."""
    import yaml

    kept = {"kind": model.kind} | {name: model.to_dict()[name] for name in sorted(model.model_fields_set)}
    usual = type(config)().to_dict()
    training = {name: value for name, value in config.to_dict().items() if value != usual[name] and name != "kind"}
    return yaml.safe_dump({"model": kept, "training": training}, sort_keys=False)
