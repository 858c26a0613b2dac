"""`neuro-divergent inspect`: show and verify a run, a checkpoint, a saved model or a study."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.study_text import study_facts, study_lines
from neuro_divergent.cli.io.terminal import harmless, say, say_json, table
from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.runs.names import STUDY, is_remote
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.core.runs.saved import Saved

WIDTH, HEIGHT = 60, 8


def inspect(path: str, /, *, storage: str | None = None, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show and verify a run, a checkpoint, a saved model or a study: configuration, metrics, sizes, loss curve, trials.

    Parameters
    ----------
    path
        The directory or address of a run, a directory of several runs, one checkpoint, one or several saved models, or
        the directory of a search.
    storage
        The URL of the database of a study, if the search had one.
    json
        Print JSON.
    """
    if not is_remote(path) and (Path(path) / STUDY).is_file():
        return _inspect_study(path, storage, json)
    if storage is not None:
        raise ConfigError(f"--storage is for the directory of a search, but {path} has no {STUDY}. Leave it out")
    record = read_run(path)
    found = [_thing(run) for run in record.runs or (record,)]
    if json:
        _say_json(path, found)
    else:
        for thing in found:
            thing.show()
    return int(not all(entry.trusted for thing in found for entry in thing.entries))


def _inspect_study(path: str, storage: str | None, as_json: bool) -> int:
    from neuro_divergent.search.result import SearchResult

    found = SearchResult.load(path, storage=storage)
    if as_json:
        say_json(study_facts(found))
    else:
        say("\n".join(study_lines(found)))
    return 0


@dataclass(frozen=True)
class Entry:
    """A checkpoint, a model or an index: its content, or None and the reason why it could not be verified."""

    path: str
    verdict: str
    size: int | None
    document: dict[str, Any] | None = None
    epoch: int | None = None
    score: float | None = None
    facts: tuple[str, ...] = ()
    """The facts to print, line by line."""

    @property
    def trusted(self) -> bool:
        """Whether every byte is unchanged since it was written and the content has a form that can be shown."""
        return self.document is not None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return harmless(self.path.replace(os.sep, "/").rsplit("/", 1)[-1])

    def line(self, what: str) -> str:
        """The kind of entry, its path, and whether it was verified."""
        return f"{what} {harmless(self.path)}: {self.verdict}, {_readable(self.size)}"


@dataclass(frozen=True)
class Thing:
    """What the path names: a run, a checkpoint, a model, or several models that were saved together."""

    what: str
    path: str
    checkpoints: list[Entry] = field(default_factory=list)
    models: list[Entry] = field(default_factory=list)
    """One model, or the index and the models that it lists."""

    @property
    def entries(self) -> list[Entry]:
        """All entries that have to be verified."""
        return [*self.checkpoints, *self.models]

    def show(self) -> None:
        """Print the entries for a person."""
        if self.what != "run":
            self._show_one()
            return
        say(f"run {harmless(self.path)}")
        if self.checkpoints:
            rows = [
                [item.name, item.verdict, _or_dash(item.epoch), _figure(item.score), _readable(item.size)]
                for item in self.checkpoints
            ]
            say(table(["checkpoint", "", "epochs", "score", "size"], rows, left=2))
        else:
            say("no checkpoint yet")
        for fact in next((item.facts for item in reversed(self.checkpoints) if item.trusted), ()):
            say(fact)
        for item in self.models:
            say(item.line("model"))

    def _show_one(self) -> None:
        first, *members = self.entries
        say(first.line(self.what))
        for fact in first.facts:
            say(fact)
        for member in members:
            say(member.line("model"))
            for fact in member.facts[:1]:
                say(f"  {fact}")


def _thing(record: RunRecord) -> Thing:
    """The record in the form that is printed."""
    checkpoints = [_entry(saved) for saved in record.checkpoints]
    return Thing(record.what, record.path, checkpoints, [_entry(saved) for saved in record.models])


def _entry(saved: Saved) -> Entry:
    """The JSON of a checkpoint or a model, if every byte is unchanged since it was written."""
    size = None if is_remote(saved.path) else _bytes(saved)
    try:
        document, read = saved.verify()
        epoch, facts = document.get("progress", {}).get("epoch"), tuple(_facts(document))
        if epoch is not None and type(epoch) is not int:
            raise TypeError(f"epoch={epoch!r}")
        if saved.kind == "index":
            facts = (harmless(f"{document.get('kind')} of {document.get('count')} models"),)
        return Entry(saved.path, "verified", read if size is None else size, document, epoch, _score(document), facts)
    except StorageError as error:
        why = str(error)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        why = f"{saved.document_name} is missing or has a wrong form: {error!r}"
    return Entry(saved.path, harmless(f"NOT VERIFIED: {why}"), size)


def _say_json(path: str, found: list[Thing]) -> None:
    entries = [entry for thing in found for entry in thing.entries]
    good = [entry.document for entry in entries if entry.document is not None]
    newest = good[-1] if good else {}
    kept = ("model", "config", "identity", "lineage", "versions", "progress", "history")
    say_json(
        {
            "what": found[0].what if len(found) == 1 else "runs",
            "path": path,
            "verified": len(good) == len(entries),
            "parts": [_part(entry) for entry in entries],
            **{name: newest[name] for name in kept if name in newest and len(found) == 1},
        }
    )


def _part(entry: Entry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "verified": entry.trusted,
        "why": None if entry.trusted else entry.verdict,
        "bytes": entry.size,
        "epoch": entry.epoch,
        "score": entry.score,
    }


def _score(document: dict[str, Any]) -> float | None:
    """The monitored value as in the history. A checkpoint stores it with the sign with which smaller is better."""
    rule, score = document.get("config", {}).get("early_stopping"), document.get("score")
    if score is None:
        return None
    larger_is_better = isinstance(rule, dict) and rule.get("mode") == "max"
    return float(-score if larger_is_better else score)


def _facts(document: dict[str, Any]) -> Iterator[str]:
    """The facts to print, line by line. Text from the file is escaped: it cannot control the terminal."""
    identity = document.get("identity", {})
    yield from _settings("model", document.get("model") or identity.get("model", {}))
    yield from _settings("training", _changed(document.get("config", {})))
    if data := identity.get("data"):
        # This fingerprint covers the rows and their split. The fingerprint of the table is in the model's lineage.
        shown = {name: value for name, value in data.items() if name != "fingerprint"}
        yield harmless("data: " + ", ".join(f"{name}={str(value)[:16]}" for name, value in shown.items()))
    if fingerprint := (document.get("lineage") or {}).get("data_fingerprint"):
        yield harmless(f"data fingerprint {str(fingerprint)[:16]}")
    if versions := document.get("versions"):
        yield harmless("versions: " + ", ".join(f"{name} {value}" for name, value in versions.items()))
    if progress := document.get("progress"):
        done, total = progress["step"], progress["total_steps"]
        yield harmless(f"step {done} of {total}, epoch {progress['epoch']} + {progress['position']} steps")
    history = document.get("history", {})
    if history.get("stopped"):
        yield harmless(f"stopped: {history['stopped']}")
    for event in history.get("events", []):
        if "event" in event:
            yield harmless(f"event at step {event.get('step')}: {event['event']} {event.get('why', '')}".rstrip())
    if epochs := history.get("epochs"):
        last = ", ".join(f"{name} {value:.5g}" for name, value in epochs[-1].items())
        yield harmless(f"{len(epochs)} epochs, best {history.get('best_epoch') or '-'}; the last: {last}")
        column = "validation_loss" if "validation_loss" in epochs[-1] else "train_loss"
        yield f"{column}:"
        yield curve([float(record[column]) for record in epochs if column in record])


def _settings(title: str, fields: dict[str, Any]) -> Iterator[str]:
    if fields:
        shown = ", ".join(
            f"{name}={_short(value)}" for name, value in fields.items() if name != "kind" and value is not None
        )
        yield harmless(f"{title}: {fields.get('kind', '')}({shown})")


def _changed(config: dict[str, Any]) -> dict[str, Any]:
    """The fields that differ from a default configuration."""
    from neuro_divergent.training.config.training_config import TrainingConfig

    usual = TrainingConfig().to_dict()
    return {name: value for name, value in config.items() if name == "kind" or value != usual.get(name)}


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(
            f"{name}={_short(item)}" for name, item in value.items() if name != "kind" and item is not None
        )
        return f"{value.get('kind', '')}({inner})"
    return str(value)


def _bytes(saved: Saved) -> int:
    return sum(entry.stat().st_size for entry in files.present(Path(saved.path)).rglob("*") if entry.is_file())


def _readable(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / 2**20:.1f} MB" if size >= 2**20 else f"{size / 1024:.1f} kB"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


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
    """One block character, filled from below by a fraction."""
    return " ▁▂▃▄▅▆▇█"[max(0, min(8, round(8 * filled)))]


def _resampled(values: list[float], width: int) -> list[float]:
    if len(values) <= width:
        return values
    edges = [len(values) * part // width for part in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
