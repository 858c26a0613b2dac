"""Limits where a run file may write: inside the run's directory, unless --allow-writes is given.

A run file may come from somebody else, and a callback in it could name any file of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import is_remote

if TYPE_CHECKING:
    from neuro_divergent.training.config.training_config import TrainingConfig

FLAG = "--allow-writes"


def confined(
    config: TrainingConfig,
    fields: Mapping[str, Any],
    typed: Mapping[str, Any],
    directory: Path | None,
    *,
    allowed: bool,
) -> TrainingConfig:
    """The configuration with every relative path of the run file placed inside the run's directory.

    Args:
        config: the result of run file, flags and --set together.
        fields: the training fields that `config` was made from.
        typed: the fields that were typed on the shell. Their paths are used unchanged.
        directory: the run's directory; None if nothing is written.
        allowed: whether paths outside of the run's directory are allowed.
    """
    plain = config.to_dict()
    for path, place in config.written():
        if _covers(fields, path) and not _covers(typed, path):
            _put(plain, path, _inside(".".join(map(str, path)), str(place), directory, allowed=allowed))
    return type(config).from_dict(plain)


def _inside(name: str, place: str, directory: Path | None, *, allowed: bool) -> str:
    if directory is not None and not is_remote(place):
        wanted = directory / place  # an absolute path stays as it is
        if allowed or wanted.resolve().is_relative_to(directory.resolve()):
            return str(wanted)
    elif allowed:
        return place
    where = "; there is none without --out" if directory is None else f", {directory},"
    raise ConfigError(
        f"a run file may write only inside of the run's directory{where}, but its training.{name} is "
        f"{place}. Give a relative path, or add {FLAG} if you trust the file"
    )


def _covers(fields: Any, path: Sequence[str | int]) -> bool:
    """Whether `fields` contains the field at `path`, directly or inside of a value."""
    for part in path:
        if not isinstance(fields, Mapping):
            return True
        if part not in fields:
            return False
        fields = fields[part]
    return True


def _put(plain: Any, path: Sequence[str | int], value: str) -> None:
    for part in path[:-1]:
        plain = plain[part]
    plain[path[-1]] = value
