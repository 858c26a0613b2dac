"""`neuro-divergent inspect`: what a run, a checkpoint or a saved model holds, and whether it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.output import say, say_json, table
from neuro_divergent.core.errors import DataFileError, StorageError

WIDTH, HEIGHT = 60, 8


def inspect(path: Path, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show a run, a checkpoint or a saved model: verified or not, configuration, epochs, metrics, sizes, loss curve.

    Parameters
    ----------
    path
        A run's directory, one of its checkpoints, or a saved model.
    json
        Print JSON for machines.
    """
    from neuro_divergent.core import files

    if not files.present(path).is_dir():
        raise DataFileError(f"{path} must be the directory of a run, a checkpoint or a model, but there is none")
    if (path / "state.json").exists():
        return _as_json("checkpoint", path, [_entry(path, "state.json")]) if json else _checkpoint(path)
    if (path / "model.json").exists():
        return _as_json("model", path, [_entry(path, "model.json")]) if json else _model(path)
    if (path / "checkpoints").is_dir() or (path / "config.json").exists() or (path / "model").is_dir():
        return _as_json("run", path, _entries(path)) if json else _run(path)
    raise DataFileError(
        f"{path} is not a run, a checkpoint or a model: it has no config.json, state.json or model.json"
    )


@dataclass(frozen=True)
class Entry:
    """A checkpoint or a model: what it says, or None and the reason why it is not to be trusted."""

    path: Path
    document: dict[str, Any] | None
    verdict: str


def _entry(path: Path, name: str) -> Entry:
    return Entry(path, *_document(path, name))


def _entries(path: Path) -> list[Entry]:
    from neuro_divergent.training.places import LocalPlace

    place = LocalPlace(path)
    found = [_entry(place.path / name, "state.json") for name in place.names()]
    return [*found, *([_entry(path / "model", "model.json")] if (path / "model").is_dir() else [])]


def _as_json(what: str, path: Path, entries: list[Entry]) -> int:
    good = [entry.document for entry in entries if entry.document is not None]
    newest = good[-1] if good else {}
    kept = ("model", "config", "identity", "versions", "progress", "history")
    say_json(
        {
            "what": what,
            "path": str(path),
            "verified": len(good) == len(entries),
            "parts": [_part(entry) for entry in entries],
            **{name: newest[name] for name in kept if name in newest},
        }
    )
    return int(len(good) < len(entries))


def _part(entry: Entry) -> dict[str, Any]:
    document = entry.document or {}
    return {
        "path": str(entry.path),
        "verified": entry.document is not None,
        "why": None if entry.document is not None else entry.verdict,
        "bytes": _bytes(entry.path),
        "epoch": document.get("progress", {}).get("epoch"),
        "score": _score(document),
    }


def _score(document: dict[str, Any]) -> float | None:
    """The monitored value as the history has it: a checkpoint keeps it so that smaller is better."""
    rule, score = document.get("config", {}).get("early_stopping"), document.get("score")
    larger_is_better = isinstance(rule, dict) and rule.get("mode") == "max"
    return -score if larger_is_better and isinstance(score, float) else score


def _run(path: Path) -> int:
    from neuro_divergent.training.places import LocalPlace

    place = LocalPlace(path)
    say(f"run {path}")
    rows, newest, bad = [], None, 0
    for name in place.names():
        document, verdict = _document(place.path / name, "state.json")
        bad += document is None
        newest = document or newest
        progress = (document or {}).get("progress", {})
        epoch, score = str(progress.get("epoch", "-")), _score(document or {})
        size = _size(place.path / name)
        rows.append([name, verdict, epoch, "-" if score is None else f"{score:.5g}", size])
    if rows:
        say(table(["checkpoint", "", "epochs", "score", "size"], rows, left=2))
    else:
        say("no checkpoint yet")
    if newest is not None:
        _facts(newest)
    if (path / "model").is_dir():
        document, verdict = _document(path / "model", "model.json")
        say(f"model {path / 'model'}: {verdict}, {_size(path / 'model')}")
        bad += document is None
    return int(bad > 0)


def _checkpoint(path: Path) -> int:
    document, verdict = _document(path, "state.json")
    say(f"checkpoint {path}: {verdict}, {_size(path)}")
    if document is None:
        return 1
    _facts(document)
    return 0


def _model(path: Path) -> int:
    document, verdict = _document(path, "model.json")
    say(f"model {path}: {verdict}, {_size(path)}")
    if document is None:
        return 1
    _settings("model", document.get("model", {}))
    _facts(document)
    return 0


def _document(path: Path, name: str) -> tuple[dict[str, Any] | None, str]:
    """The JSON of a bundle, if every byte of the bundle is the one that was written."""
    from neuro_divergent.core import bundle
    from neuro_divergent.core.exact import from_plain

    try:
        contents = bundle.read(path)
        document = from_plain(bundle.parse_json(contents.get(name, b""), name))
    except StorageError as error:
        return None, f"NOT VERIFIED: {error}"
    return (document, "verified") if isinstance(document, dict) else (None, f"NOT VERIFIED: {name} is no object")


def _facts(document: dict[str, Any]) -> None:
    _settings("model", document.get("identity", {}).get("model", {}))
    _settings("training", _changed(document.get("config", {})))
    data = document.get("identity", {}).get("data")
    if data:
        say("data: " + ", ".join(f"{name}={str(value)[:16]}" for name, value in data.items()))
    versions = document.get("versions")
    if versions:
        say("versions: " + ", ".join(f"{name} {value}" for name, value in versions.items()))
    progress = document.get("progress")
    if progress:
        done, total = progress["step"], progress["total_steps"]
        say(f"step {done} of {total}, epoch {progress['epoch']} + {progress['position']} steps")
    history = document.get("history", {})
    epochs = [record for record in history.get("epochs", []) if isinstance(record, dict)]
    if history.get("stopped"):
        say(f"stopped: {history['stopped']}")
    for event in history.get("events", []):
        if "event" in event:
            say(f"event at step {event.get('step')}: {event['event']} {event.get('why', '')}".rstrip())
    if epochs:
        last = ", ".join(f"{name} {value:.5g}" for name, value in epochs[-1].items())
        say(f"{len(epochs)} epochs, best {history.get('best_epoch') or '-'}; the last: {last}")
        column = "validation_loss" if "validation_loss" in epochs[-1] else "train_loss"
        say(f"{column}:")
        say(curve([float(record[column]) for record in epochs if column in record]))


def _settings(title: str, fields: dict[str, Any]) -> None:
    if fields:
        shown = ", ".join(
            f"{name}={_short(value)}" for name, value in fields.items() if name != "kind" and value is not None
        )
        say(f"{title}: {fields.get('kind', '')}({shown})")


def _changed(config: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not what an empty configuration has."""
    from neuro_divergent.training.config import TrainingConfig

    usual = TrainingConfig().to_dict()
    return {name: value for name, value in config.items() if name == "kind" or value != usual.get(name)}


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(
            f"{name}={_short(item)}" for name, item in value.items() if name != "kind" and item is not None
        )
        return f"{value.get('kind', '')}({inner})"
    return str(value)


def _bytes(path: Path) -> int:
    return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())


def _size(path: Path) -> str:
    total = _bytes(path)
    return f"{total / 2**20:.1f} MB" if total >= 2**20 else f"{total / 1024:.1f} kB"


def curve(values: list[float], width: int = WIDTH, height: int = HEIGHT) -> str:
    """A small plot of a falling or rising line in block characters.

    >>> print(curve([1.0, 2.0, 3.0], width=3, height=3))
    3 │  █
      │ ██
    1 │███
    """
    finite = [value for value in values if value - value == 0]
    if not finite:
        return "(no finite values)"
    shown = _resampled(finite, width)
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    labels = [f"{high:.4g}", f"{low:.4g}"]
    margin = max(len(label) for label in labels)
    lines = []
    for row in range(height):
        cells = "".join(_cell((value - low) / span * (height - 1) + 1 - (height - 1 - row)) for value in shown)
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        lines.append(f"{label.rjust(margin)} │{cells}")
    return "\n".join(lines)


def _cell(filled: float) -> str:
    """One character that is filled from below by a share."""
    return " ▁▂▃▄▅▆▇█"[max(0, min(8, round(8 * filled)))]


def _resampled(values: list[float], width: int) -> list[float]:
    if len(values) <= width:
        return values
    edges = [len(values) * part // width for part in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
