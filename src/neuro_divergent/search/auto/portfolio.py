"""The portfolio: which models are trained on a table, and in which order.

The order is the expected gain per second, measured on rows before the test parts of four public sets (benchmarks/
automl.py --choose): what helps most in little time comes first, so that a short time limit gets the best of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.losses import MAE, MSE, SMAPE, Loss, MQLoss
from neuro_divergent.metrics.by_name import PROBABILISTIC
from neuro_divergent.search.auto.member import Wanted
from neuro_divergent.search.auto.profile import Profile
from neuro_divergent.training.config.training_config import TrainingConfig

if TYPE_CHECKING:
    from neuro_divergent.search.auto.auto_forecaster import AutoForecaster

Preset = Literal["fast", "medium", "best"]
FAMILIES = ("mlp", "recurrent", "convolutional", "transformer", "other")
SQUARED = ("mse", "rmse", "rmsse", "r2", "nrmse", "bias", "bias_percent")
"""Metrics that the mean of the future minimises: models are trained with the squared error for them."""
MOST_CHANNELS = 64
"""Multivariate models are tried on tables of at most this many series."""
MOST_LOOKBACK = 1024
FIELDS: dict[str, dict[str, Any]] = {
    "NBEATS": {"stacks": ("trend", "generic"), "blocks": (2, 2), "hidden_sizes": (256, 256)},
    "TiDE": {"hidden_size": 256},
    "PatchTST": {"hidden_size": 32, "heads": 4, "ff_size": 128, "patch_len": 16, "stride": 8},
    "TFT": {"hidden_size": 16},
}
"""Fields of models other than their defaults: smaller networks, which were as good (docs/accuracy.md)."""

SEASONAL = (
    ("MLP", 1.0), ("LSTM", 1.0), ("NHITS", 1.0), ("NLinear", 1.0), ("TSMixer", 1.0), ("GRU", 1.0), ("MLP", 1.5),
    ("TiDE", 1.0), ("PatchTST", 1.0), ("TFT", 1.0), ("DeepAR", 1.0), ("NHITS", 1.5), ("RLinear", 1.5),
)  # fmt: skip
"""Models for tables with a season, each with the factor of its lookback."""
PLAIN = (
    ("NBEATS", 1.0), ("MLP", 1.0), ("NHITS", 1.0), ("NBEATS", 1.5), ("LSTM", 1.0), ("GRU", 1.0), ("NLinear", 1.0),
    ("NBEATS", 0.75), ("TSMixer", 1.0), ("TiDE", 1.0), ("TCN", 1.0), ("TFT", 1.0),
)  # fmt: skip
"""Models for tables without a season."""
COUNTS: dict[Preset, int] = {"fast": 3, "medium": 7, "best": 13}
"""How many models of the portfolio a preset tries."""


def portfolio(
    profile: Profile,
    preset: Preset,
    metric: str,
    level: Sequence[float],
    seed: int,
    include: Sequence[Any] | None = None,
    exclude: Sequence[Any] = (),
) -> tuple[list[Wanted], dict[str, str]]:
    """The models in the order of their training, and those that were left out, with the reason."""
    loss, out = loss_for(metric, level), dict[str, str]()
    found: list[Wanted] = []
    for model, source in _models(profile, include):
        if _among(model, exclude):
            continue
        if include is None and len(found) == COUNTS[preset]:
            break
        why = _unsuitable(model, profile)
        name = _unique(model.name, [one.name for one in found])
        if why is not None and source == "portfolio":
            out[name] = why
            continue
        found.append(Wanted(model, config_for(model, profile, loss, seed), name, source))
    if not found and not out:
        given = "all models" if include is None else f"include={_told(include)}"
        raise ConfigError(
            f"an AutoForecaster needs a model to train, but {given} without exclude={_told(exclude)} leaves none. "
            "Exclude fewer"
        )
    return found, out


def loss_for(metric: str, level: Sequence[float]) -> Loss | None:
    """The loss that suits a metric; None for that of the recipe (the absolute error)."""
    if metric in PROBABILISTIC:
        return MQLoss(level=list(level))
    if metric in SQUARED:
        return MSE()
    return SMAPE() if metric == "smape" else None


def asked_levels(settings: AutoForecaster) -> tuple[float, ...]:
    """The intervals that members forecast at held-out windows: none if the metric is one of points."""
    return settings.level if settings.metric_name in PROBABILISTIC else ()


def config_for(model: Model, profile: Profile, loss: Loss | None, seed: int) -> TrainingConfig:
    """How a model of the portfolio is trained: by its recipe, with the loss that suits the metric."""
    own: dict[str, Any] = {} if loss is None or model.kind == "DeepAR" else {"loss": loss}
    if profile.intermittent and loss is None:
        own["loss"] = MAE()
    return TrainingConfig(seed=seed, progress=False, **own)


def lookback(profile: Profile, factor: float = 1.0) -> int:
    """How far back models look: two horizons or two seasons, and less if the series are short.

    A season that is much longer than the horizon is seen once.
    """
    season = profile.season
    seasons = [length for length in profile.seasons if length <= MOST_LOOKBACK] or [season]
    wanted = max(2 * profile.h, (2 if 2 * seasons[0] <= 8 * profile.h else 1) * max(seasons), 3 * min(seasons))
    most = max(profile.h, min(MOST_LOOKBACK, profile.longest - profile.h), 2)
    typical = max(2, profile.typical - profile.h)
    return int(max(2, min(round(factor * wanted), most, max(typical, profile.h))))


def _models(profile: Profile, include: Sequence[Any] | None) -> list[tuple[Model, str]]:
    order = SEASONAL if profile.seasons else PLAIN
    if include is None:
        wanted = [(kind, factor) for kind, factor in order if profile.aligned or kind != "TSMixer"]
        if profile.columns:  # linear models see the target alone: models that see the columns come first
            wanted.sort(key=lambda one: not _sees(one[0], profile))
        return [(_model(kind, profile, factor), "portfolio") for kind, factor in wanted]
    known = [kind for kind, _ in order]
    found: list[tuple[Model, str]] = []
    for one in include:
        if isinstance(one, Model):
            found.append((one, "given"))
        elif isinstance(one, str) and one in FAMILIES:
            kinds = [kind for kind in registry.members("model") if _class(kind).group == one and kind != "HINT"]
            kinds.sort(key=lambda kind: known.index(kind) if kind in known else len(known))
            found += [(_model(kind, profile), "portfolio") for kind in kinds if kind not in ("TimeLLM", "DeepNPTS")]
        else:
            found.append((_model(_kind(one), profile), "given"))
    return found


def check_named(given: Sequence[Any]) -> None:
    """Refuse a name that is no model and no family."""
    for one in given:
        if not isinstance(one, Model) and one not in FAMILIES:
            _kind(one)


def _kind(one: Any) -> str:
    if isinstance(one, type) and issubclass(one, Model):
        return one.kind
    if isinstance(one, str):
        return str(registry.resolve("model", one).kind)
    raise ConfigError(
        "include and exclude take names of models, families or descriptions, such as 'NHITS', 'recurrent' or "
        f"nd.LSTM(...), but got {one!r}"
    )


def _class(kind: str) -> type[Model]:
    found = registry.resolve("model", kind)
    assert issubclass(found, Model)
    return found


def _sees(kind: str, profile: Profile) -> bool:
    can = _class(kind).capabilities
    return any(getattr(can, name) for name in profile.columns)


def _model(kind: str, profile: Profile, factor: float = 1.0) -> Model:
    """A model of the portfolio for a table."""
    fields: dict[str, Any] = {"h": profile.h, "input_size": lookback(profile, factor)} | FIELDS.get(kind, {})
    if profile.seasons and kind in ("MLP", "NHITS", "NBEATS", "TiDE", "NLinear", "RLinear", "TCN"):
        fields["anchor"] = "auto" if profile.confirmed else _usual(profile, fields["input_size"])
    if profile.seasons and kind in ("MLP", "NHITS"):
        fields["scaler"] = "robust"
    if kind == "PatchTST" and fields["input_size"] < 2 * fields["patch_len"]:
        fields |= {"patch_len": max(1, fields["input_size"] // 4), "stride": max(1, fields["input_size"] // 8)}
    return _class(kind)(**fields)


def _usual(profile: Profile, lookback: int) -> tuple[int, ...] | None:
    """The anchor of the usual season, which the training would not find itself."""
    return profile.seasons[:1] if lookback >= profile.season else None


def _unsuitable(model: Model, profile: Profile) -> str | None:
    """Why a model is not tried on a table; None if it is."""
    if model.capabilities.multivariate and not profile.aligned:
        return "it sees all series at once, which have different time stamps here, or there is only one"
    if model.capabilities.multivariate and profile.series > MOST_CHANNELS:
        return f"it sees all series at once, of which there are more than {MOST_CHANNELS}"
    need = model.h + 1
    if profile.longest < need:
        return f"it needs {need} rows before the held-out windows, but the longest series has {profile.longest}"
    return None


def _among(model: Model, exclude: Sequence[Any]) -> bool:
    named = [one for one in exclude if not isinstance(one, Model)]
    names = {_kind(one) for one in named if one not in FAMILIES}
    return model.kind in names or model.group in named or any(model == one for one in exclude)


def _unique(name: str, taken: Sequence[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found


def _told(given: Sequence[Any]) -> list[str]:
    return [one if isinstance(one, str) else getattr(one, "kind", str(one)) for one in given]
