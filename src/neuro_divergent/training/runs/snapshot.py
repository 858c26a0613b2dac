"""The contents of a checkpoint: weights, optimizer state, and all other state of a run.

Random numbers and batches are functions of (epoch, step), so there is no other random state to store.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_divergent._version import __version__
from neuro_divergent.core.bundle import MAX_BYTES
from neuro_divergent.core.errors import Advice, ConfigError, CorruptFileError, StorageError
from neuro_divergent.core.files import Content, whole
from neuro_divergent.core.json import dump_json, from_plain, parse_json, to_plain
from neuro_divergent.core.runs.names import STATE as STATE
from neuro_divergent.core.tensor_files import (
    MAX_DECOMPRESSED_BYTES,
    MAX_HEADER_BYTES,
    Packed,
    compress,
    decompress,
    read_tensors,
    tensor_parts,
)
from neuro_divergent.optim import PlateauState, to_train
from neuro_divergent.training.state.early_stopping import Patience
from neuro_divergent.training.state.history import History

if TYPE_CHECKING:
    from neuro_divergent.training.callbacks.base import CallbackList
    from neuro_divergent.training.state.state import TrainState

SCHEMA = 1
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
PACKED = ".zst"
EVENTS = "history/events"

SHOWN_EVENTS = 1000
"""Number of events in the JSON file: the newest that have a name. All events are stored beside the step losses."""

NUMBERS = (
    "step",
    "epoch",
    "position",
    "epoch_loss",
    "epoch_seconds",
    "rate_factor",
    "loss",
    "gradient_norm",
    "validation",
    "skipped",
    "micro_batches",
)
"""The plain fields of the state that a resume restores."""


@dataclass(frozen=True)
class Snapshot:
    """A copy of a run at one step. Its tensors are valid until the `SnapshotBuffer` is used again."""

    document: dict[str, Any]
    """All state but tensors and lists that grow with every step. It shares no object with the run."""
    weights: dict[str, Tensor]
    """module/<name>, best/<name>, average/<name>."""
    optimizer: dict[str, Tensor]
    step_loss: list[float]
    gradient_norm: list[float]
    events: Sequence[bytes] = ()
    """The logged events, each a JSON object. A monitor may log at every step, too much for the one JSON file."""

    @property
    def step(self) -> int:
        """Finished optimizer steps."""
        return int(self.document["progress"]["step"])

    def contents(self, compression: str | None = None) -> dict[str, Content]:
        """The files of the checkpoint."""
        records = {"step_loss": self.step_loss, "gradient_norm": self.gradient_norm}
        # Through numpy: for a list of a hundred thousand steps torch takes three times as long.
        steps = {f"history/{name}": torch.from_numpy(np.array(values, float)) for name, values in records.items()}
        if self.events:
            steps[EVENTS] = torch.frombuffer(bytearray(b"\n".join(self.events)), dtype=torch.uint8)
        parts = {WEIGHTS: _file(self.weights, steps), OPTIMIZER: _file(self.optimizer)}
        for name, data in parts.items():
            _refuse_unreadable(name, data, MAX_BYTES if compression is None else MAX_DECOMPRESSED_BYTES)
        files: dict[str, Content] = dict(parts)
        document = self.document
        if compression is not None:
            plain = {name: whole(data) for name, data in files.items()}
            document = document | {"unpacked": {name: len(data) for name, data in plain.items()}}
            files = {name + PACKED: compress(data) for name, data in plain.items()}
        return files | {STATE: dump_json(to_plain(document, "state"), "state", indent=None)}


def _refuse_unreadable(name: str, parts: Sequence[bytes | memoryview], limit: int) -> None:
    """Raise if a file would be too large to be read again; it would replace checkpoints that can be read."""
    size, header = sum(len(part) for part in parts), len(parts[0]) - 8
    if size > limit or header > MAX_HEADER_BYTES:
        raise StorageError(
            f"a file of a checkpoint must have at most {limit} bytes, {MAX_HEADER_BYTES} of them for the names of its "
            f"tensors, to be readable again, but {name} would have {size} and {header}. "
            "Make the model smaller, or set compression=None"
        )


def _file(tensors: dict[str, Tensor], others: Mapping[str, Tensor] | None = None) -> Sequence[bytes | memoryview]:
    """The file as parts to write. Tensors of the buffer are one block of memory and are written as such."""
    if isinstance(tensors, Packed):
        return tensor_parts(others or {}, block=tensors)
    return tensor_parts({**tensors, **(others or {})})


class SnapshotBuffer:
    """Memory for the tensors of a snapshot. The next snapshot reuses it: an allocation costs more than the copy.

    Each event is converted to JSON once. Later changes of its values do not change that text.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Packed] = {}
        self._still: dict[str, Tensor] = {}
        self._events: list[dict[str, Any]] = []
        self._lines: list[bytes] = []
        self.named: list[bytes] = []
        """The lines of events with a name, without the numbers that monitors log."""

    def copies(
        self, file: str, tensors: Mapping[str, Tensor], still: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Copies of the tensors for a file. They are valid until the next call for the same file.

        Args:
            file: the name of the file.
            tensors: tensors that every step changes.
            still: tensors that are replaced and never changed in place. They are copied only after a replacement.
        """
        still = still or {}
        whole = {**tensors, **still}
        kept = self._kept.get(file)
        if kept is None or _forms(kept) != _forms(whole):
            kept, self._still = Packed(whole), {}
            self._kept[file] = kept
        fresh = {name: tensor for name, tensor in still.items() if self._still.get(name) is not tensor}
        self._still |= fresh
        moving = {**tensors, **fresh}
        if moving:
            with torch.no_grad():
                torch._foreach_copy_([kept[name] for name in moving], list(moving.values()))
        return kept

    def lines(self, events: Sequence[dict[str, Any]]) -> list[bytes]:
        """Every event as a JSON object. Only new events are converted."""
        if len(events) < len(self._events) or not all(map(is_, self._events, events)):
            self._events, self._lines, self.named = [], [], []
        for event in events[len(self._events) :]:
            self._lines.append(dump_json(to_plain(event, "event"), "an event", indent=None))
            self._events.append(event)
            self.named += self._lines[-1:] if "event" in event else []
        return list(self._lines)


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def take(state: TrainState, callbacks: CallbackList, facts: Mapping[str, Any], room: SnapshotBuffer) -> Snapshot:
    """Return a snapshot: a copy of everything that the next step would change.

    Args:
        state: a run between two steps; an epoch that is over has been ended.
        callbacks: their state is stored, too.
        facts: constants of the run: configuration, identity, versions.
        room: memory for the copies. It overwrites the snapshot before.
    """
    to_train(state.optimizer)  # after a validation the module may have the weights for evaluation
    live = {f"module/{name}": tensor for name, tensor in state.module.state_dict().items()}
    if state.averager is not None:
        live |= {f"average/{name}": tensor for name, tensor in state.averager.state_tensors().items()}
    best = {f"best/{name}": tensor for name, tensor in (state.best_weights or {}).items()}
    weights = room.copies(WEIGHTS, live, best)
    history = state.history
    events = room.lines(history.events)
    rates = [float(group["lr"]) for group in state.optimizer.param_groups]
    document = {
        "schema": SCHEMA,
        "kind": "Checkpoint",
        "time": time.time(),
        "progress": to_plain({name: getattr(state, name) for name in NUMBERS}, "state.progress")
        | {"total_steps": state.total_steps, "steps_per_epoch": state.steps_per_epoch, "rates": rates},
        "random": {"scheme": "counted", "seed": state.config.seed, "step": state.step},
        "patience": state.patience._asdict(),
        "plateau": None if state.plateau is None else asdict(state.plateau),
        "precision": state.precision.state_dict(),
        "callbacks": _states(callbacks),
        "history": {name: getattr(history, name) for name in _told(history)}
        | {
            "epochs": [dict(record) for record in history.epochs],
            "events": [json.loads(line) for line in room.named[-SHOWN_EVENTS:]],
        },
    }
    kept = state.strategy.state_dict()
    if kept:
        document["strategy"] = to_plain(kept, "state.strategy")
    return Snapshot(
        document=document | dict(facts),
        weights=weights,
        optimizer=room.copies(OPTIMIZER, state.strategy.optimizer_tensors(state)),
        step_loss=list(history.step_loss),
        gradient_norm=list(history.gradient_norm),
        events=events,
    )


def refuse_extra_state(module: nn.Module) -> None:
    """Raise if a module has extra state that is not a tensor; otherwise the first save would fail."""
    odd = [name for name, value in module.state_dict().items() if not isinstance(value, Tensor)]
    if odd:
        raise ConfigError(
            f"a module with checkpoints must have tensors as its state, but get_extra_state returns something else for "
            f"{', '.join(odd[:4])}. Use a buffer (register_buffer) or return a tensor, or set checkpoints=None",
            advice=[Advice("training.checkpoints", None)],
        )


def _states(callbacks: CallbackList) -> list[dict[str, Any]]:
    """Copies of the callbacks' states. Copies, because the training changes the originals."""
    found = []
    for item in callbacks.callbacks:
        own = item.state_dict()
        _refuse_other_keys(own, f"{type(item).__name__}.state_dict()")
        found.append({"name": type(item).__name__, "state": own})
    plain: list[dict[str, Any]] = to_plain(found, "state.callbacks")
    return plain


def _refuse_other_keys(value: Any, where: str) -> None:
    """Raise if a dictionary has keys that are not strings: JSON would turn them into strings."""
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise StorageError(
                f"the keys in a callback's state_dict must be strings, because JSON has no others, but {where} has the "
                f"key {odd!r}. Use str({odd!r}), or a list of pairs"
            )
        for key, item in value.items():
            _refuse_other_keys(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_other_keys(item, where)


def read(contents: Mapping[str, bytes], where: str) -> Snapshot:
    """A snapshot from the verified files of a checkpoint."""
    document = from_plain(parse_json(contents.get(STATE, b""), f"{where}/{STATE}"))
    if not isinstance(document, dict) or document.get("kind") != "Checkpoint":
        raise CorruptFileError(f"{where} must be a checkpoint, but {STATE} does not say so")
    if not isinstance(document.get("history"), dict):
        raise CorruptFileError(f"{where}/{STATE} must contain the history of the run, but does not")
    if not isinstance(document.get("schema"), int) or document["schema"] > SCHEMA:
        raise StorageError(
            f"this version reads checkpoints of schema {SCHEMA} and older, but {where} has {document.get('schema')!r}. "
            "Update neuro-divergent to resume from it"
        )
    files = {name: _unpacked(contents, document, name, where) for name in (WEIGHTS, OPTIMIZER)}
    weights = read_tensors(files[WEIGHTS], f"{where}/{WEIGHTS}")
    records = {name: weights.pop(f"history/{name}", None) for name in ("step_loss", "gradient_norm")}
    if any(values is None for values in records.values()):
        raise CorruptFileError(f"{where}/{WEIGHTS} lacks the losses of the steps")
    events = weights.pop(EVENTS, None)
    if events is not None:
        document["history"] = {**document["history"], "events": _events(events, f"{where}/{WEIGHTS}")}
    return Snapshot(
        document=document,
        weights=weights,
        optimizer=read_tensors(files[OPTIMIZER], f"{where}/{OPTIMIZER}"),
        **{name: values.tolist() for name, values in records.items() if values is not None},
    )


def _events(tensor: Tensor, where: str) -> list[dict[str, Any]]:
    """The events of a run from bytes with one event per line."""
    if tensor.dtype != torch.uint8:
        raise CorruptFileError(f"{where} must contain {EVENTS} as bytes, but has {tensor.dtype}")
    lines = tensor.numpy().tobytes().split(b"\n")
    return [from_plain(parse_json(line, f"{EVENTS} of {where}")) for line in lines]


def restore(
    state: TrainState,
    callbacks: CallbackList,
    snapshot: Snapshot,
    *,
    fresh_optimizer: bool = False,
    fresh_scale: bool = False,
) -> None:
    """Restore a prepared state from a snapshot; with `fresh_optimizer` or `fresh_scale` without that part."""
    document = snapshot.document
    try:
        state.module.load_state_dict(part(snapshot.weights, "module/"))
        if not fresh_optimizer:
            state.strategy.load_optimizer(state, snapshot.optimizer)
        if state.averager is not None:
            state.averager.load_state(part(snapshot.weights, "average/"))
        best = part(snapshot.weights, "best/")
        state.best_weights = {name: tensor.to(state.precision.device) for name, tensor in best.items()} or None
        for name in NUMBERS:
            setattr(state, name, document["progress"][name])
        # Every step sets its rate. But the end of an epoch may come first, and it records the rate of the last step.
        for group, rate in zip(state.optimizer.param_groups, document["progress"].get("rates", ()), strict=False):
            group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else float(rate)
        state.patience = Patience(**document["patience"])
        if state.plateau is not None and document["plateau"] is not None:
            state.plateau = PlateauState(**document["plateau"])
        if not fresh_scale:
            state.precision.load_state_dict(document["precision"])
        if "strategy" in document:
            state.strategy.load_state_dict(document["strategy"])
        history = {name: value for name, value in document["history"].items() if name in _told(state.history)}
        history |= {"stopped": ""}
        state.history = History(step_loss=snapshot.step_loss, gradient_norm=snapshot.gradient_norm, **history)
        _restore_callbacks(callbacks, document["callbacks"])
    except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise StorageError(f"the checkpoint of step {snapshot.step} does not fit this run: {error}") from error


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def returned_weights(snapshot: Snapshot) -> dict[str, Tensor]:
    """What the run would return if it ended here: the best weights, else the averaged ones, else the last ones."""
    best = part(snapshot.weights, "best/")
    if best:
        return best
    last, average = (part(snapshot.weights, name) for name in ("module/", "average/"))
    counted = any(int(tensor) > 0 for name, tensor in average.items() if name not in last)
    return last | ({name: average[name] for name in last if name in average} if counted else {})


def versions() -> dict[str, Any]:
    """The versions and settings that may change the bits of a result, besides configuration and data."""
    return {
        "neuro_divergent": __version__,
        "torch": torch.__version__.split("+")[0],
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _told(history: History) -> list[str]:
    """The parts of the history that go into the JSON; the long lists of numbers are kept as tensors."""
    return [field.name for field in fields(history) if field.name not in ("step_loss", "gradient_norm")]


def _unpacked(contents: Mapping[str, bytes], document: dict[str, Any], name: str, where: str) -> bytes:
    if name in contents:
        return contents[name]
    sizes = document.get("unpacked")
    if name + PACKED not in contents or not isinstance(sizes, dict):
        raise CorruptFileError(f"{where} must contain {name}, but does not")
    return decompress(contents[name + PACKED], sizes.get(name, -1), f"{where}/{name}{PACKED}")


def _restore_callbacks(callbacks: CallbackList, kept: list[dict[str, Any]]) -> None:
    """Restore the state of each callback, matched by class name and order."""
    waiting = list(kept)
    for callback in callbacks.callbacks:
        own = next((item for item in waiting if item["name"] == type(callback).__name__), None)
        if own is not None:
            waiting.remove(own)
            callback.load_state_dict(own["state"])
