"""What the adapter stores about a model besides its description and its training; written beside a saved model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from neuro_divergent.compat.neuralforecast.losses.base import POINT, Outputs
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.training.config.training_config import TrainingConfig

Roles = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Facts:
    """The part that our own files do not contain."""

    outputs: Outputs = POINT
    """Columns of a forecast if no levels are requested."""
    future: tuple[str, ...] = ()
    historical: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    check_steps: int = 100
    """Steps between two validations."""
    pad: bool = False
    """Whether series that are too short are padded at the front, or left out."""
    n_series: int | None = None
    """How many series a multivariate model is for."""
    cardinalities: tuple[tuple[str, int], ...] = ()
    """The declared number of values of each categorical column."""
    parameters: bool = False
    """Whether a forecast has the parameters of its distribution as columns."""
    untrained: bool = False
    """Whether it forecasts with its first weights, max_steps=0."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Facts:
        """The inverse of `to_dict`."""
        lists = {name: tuple(data[name]) for name in ("future", "historical", "static", "categorical")}
        outputs = tuple((str(name), None if share is None else float(share)) for name, share in data["outputs"])
        count = data["n_series"]
        return cls(
            outputs, **lists, check_steps=int(data["check_steps"]), pad=bool(data["pad"]),
            n_series=None if count is None else int(count),
            cardinalities=tuple((str(name), int(number)) for name, number in data.get("cardinalities", ())),
            parameters=bool(data.get("parameters", False)), untrained=bool(data.get("untrained", False)),
        )  # fmt: skip


@dataclass(frozen=True)
class Member:
    """One model of a NeuralForecast."""

    description: Model
    config: TrainingConfig
    facts: Facts = field(default_factory=Facts)

    @property
    def name(self) -> str:
        """The column of its forecasts."""
        return self.description.name

    @property
    def roles(self) -> Roles:
        """The roles of its columns, except those of a table of static columns."""
        facts = self.facts
        return {"future": facts.future, "historical": facts.historical, "categorical": facts.categorical}

    def renamed(self, description: Model) -> Member:
        """The same with another alias."""
        return replace(self, description=description)

    def training(self, table: TimeSeriesDataFrame, held_out: int) -> TrainingConfig:
        """The training configuration for a table of which `held_out` rows of each series are for validation."""
        if not held_out:
            return self.config.replace(steps_per_epoch=None, validate_every=1)
        batch = self.config.batch_size
        assert isinstance(batch, int)
        steps = -(-max(1, self._windows(table, held_out)) // batch)
        wanted = min(self.facts.check_steps, self.config.max_steps or self.facts.check_steps)
        cap = max(1, min(steps, wanted))
        return self.config.replace(
            steps_per_epoch=cap if cap < steps else None, validate_every=max(1, round(wanted / cap))
        )

    def _windows(self, table: TimeSeriesDataFrame, held_out: int) -> int:
        model, rows = self.description, table.store.lengths - held_out
        needed = model.h if self.facts.pad else model.h + model.input_size
        counts = np.maximum(rows - needed + 1, 0)
        return int(counts.max(initial=0) if model.capabilities.multivariate else counts.sum())

    def check(self, table: TimeSeriesDataFrame) -> None:
        """Refuse a table with another number of series than a multivariate model was described for."""
        wanted = self.facts.n_series
        if wanted is not None and wanted != table.n_series:
            raise ConfigError(
                f"{self.name} was described for n_series={wanted}, but the table has {table.n_series} series. "
                f"Set n_series={table.n_series}"
            )


def with_names(member: Member, ids: Sequence[Any]) -> Member:
    """The member with names for the rows of a hierarchy that has none."""
    matrix = getattr(member.description, "S", None)
    if matrix is None or matrix.ids is not None or len(matrix.rows) != len(ids):
        return member
    named = matrix.replace(ids=tuple(str(name) for name in ids))
    return member.renamed(member.description.replace(S=named))
