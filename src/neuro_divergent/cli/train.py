"""`neuro-divergent train`: a table, a model, a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from cyclopts import Parameter

from neuro_divergent.cli.output import say
from neuro_divergent.core.errors import ConfigError

if TYPE_CHECKING:
    from neuro_divergent.data.frame import TimeSeriesDataFrame


def train(
    data: Path,
    /,
    *,
    model: str = "nhits",
    h: int,
    input_size: int | None = None,
    freq: str | None = None,
    target: str = "y",
    time: str = "ds",
    id: str = "unique_id",  # noqa: A002
    config: Path | None = None,
    set: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,  # noqa: A002
    out: Path = Path("runs/latest"),
    overwrite: bool = False,
    resume: bool = False,
) -> None:
    """Train a model on a table and save it.

    Parameters
    ----------
    data
        A CSV or Parquet file.
    model
        The model's name; `neuro-divergent models` lists them.
    h
        How many steps ahead to forecast.
    input_size
        How many past steps the model sees; four horizons unless given.
    freq
        The distance of two rows, such as 1h, 1d, 1mo; inferred unless given.
    target
        The column to forecast.
    time
        The column of time stamps.
    id
        The column that names the series; a table without it is one series.
    config
        A run file (YAML or JSON) with `model` and `training` fields.
    set
        One field, such as training.max_epochs=20 or model.hidden_size=256; may be repeated.
    out
        The run's directory: the model goes to OUT/model.
    overwrite
        Replace a model that is there already.
    resume
        Go on from the last checkpoint in OUT, with the same bits as if nothing had happened; start if there is none.
    """
    from neuro_divergent.core import registry
    from neuro_divergent.forecasting.model import Model
    from neuro_divergent.training.checkpointing import Checkpoints
    from neuro_divergent.training.config import TrainingConfig

    fields = run_fields(config, set or [])
    described = {"kind": model, "h": h, "input_size": input_size or 4 * h} | fields["model"]
    registry.resolve("model", str(described["kind"]))
    description = Model.from_dict(described)
    training = TrainingConfig.from_dict(fields["training"])
    if training.checkpoints is None:
        training = training.replace(checkpoints=Checkpoints(out))
    if (out / "model").exists() and not (overwrite or resume):
        raise ConfigError(f"{out / 'model'} exists already. Choose another --out, or say --overwrite or --resume")
    table = read_table(data, id_col=id, time_col=time, target_col=target, freq=freq)
    say(str(table.report()))
    fitted = description.fit(table, training, resume="auto" if resume else None)
    fitted.save(out / "model", overwrite=overwrite or resume)
    say(f"{fitted.history!r}: {fitted.history.stopped}")
    say(f"saved to {out / 'model'}; forecast with: neuro-divergent predict {out / 'model'}")


def read_table(path: Path, **columns: Any) -> TimeSeriesDataFrame:
    """A CSV or Parquet file by its name."""
    from neuro_divergent.data.frame import TimeSeriesDataFrame

    if path.suffix.lower() in (".parquet", ".pq") or path.is_dir():
        return TimeSeriesDataFrame.from_parquet(path, **columns)
    return TimeSeriesDataFrame.from_csv(path, **columns)


def run_fields(config: Path | None, settings: list[str]) -> dict[str, dict[str, Any]]:
    """The run file's fields with the --set ones over them, by section."""
    fields: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    if config is not None:
        try:
            read = yaml.safe_load(config.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"the run file {config} could not be read: {error.strerror or error}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"the run file {config} must be YAML or JSON, but is not: {error}") from None
        for section, content in (read or {}).items():
            if section not in fields or not isinstance(content, dict):
                raise ConfigError(f"a run file has the sections model and training, but {config} has {section!r}")
            fields[section] = dict(content)
    for setting in settings:
        _apply(fields, setting)
    return fields


def _apply(fields: dict[str, dict[str, Any]], setting: str) -> None:
    path, equals, value = setting.partition("=")
    section, *names = path.strip().split(".")
    if not equals or not names or section not in fields:
        raise ConfigError(f"--set takes model.FIELD=VALUE or training.FIELD=VALUE, but got {setting!r}")
    place: Any = fields[section]
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise ConfigError(f"--set {setting!r} goes into {name!r}, which is a plain value")
    try:
        place[names[-1]] = yaml.safe_load(value)
    except yaml.YAMLError:
        place[names[-1]] = value
