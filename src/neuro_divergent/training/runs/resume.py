"""Resume from a checkpoint: find it, refuse a different run, restore the state."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuro_divergent.core import registry
from neuro_divergent.core.errors import (
    ConfigError,
    CorruptFileError,
    NeuroDivergentError,
    NoCheckpointError,
    StorageError,
)
from neuro_divergent.losses.distribution import as_written
from neuro_divergent.optim import Optimizer, Optimizers, state_tensors, to_train
from neuro_divergent.training.config.checkpoints import is_remote
from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig
from neuro_divergent.training.runs import snapshot as checkpoint
from neuro_divergent.training.runs.checkpoint_store import (
    CHECKPOINTS,
    CheckpointStore,
    LocalCheckpoints,
    place_of,
    step_of,
)
from neuro_divergent.training.runs.requested import is_checkpoint, read_remote
from neuro_divergent.training.runs.saver import Saver
from neuro_divergent.training.runs.snapshot import Snapshot
from neuro_divergent.training.state.early_stopping import Patience

if TYPE_CHECKING:
    from neuro_divergent.training.callbacks.base import CallbackList
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

FREE = frozenset(name for name, facts in TrainingConfig.facts().items() if facts.resume == "free")
"""Fields that do not change what a step computes. They may differ in a resumed run."""

CHANGEABLE = frozenset(name for name, facts in TrainingConfig.facts().items() if facts.resume == "changeable")
"""Fields that `resume_with` may change: finished steps stay valid."""


@dataclass(frozen=True)
class Resume:
    """How a run begins: as a new run, or from a checkpoint."""

    source: str | os.PathLike[str] | None = None
    """None, "auto" for the newest checkpoint of the run directory, or the path of a run directory or checkpoint."""
    changes: Mapping[str, Any] | None = None
    """Fields of the configuration to change in the resumed run."""
    finished: bool = False
    """Whether the run ended in another process. Then its result is loaded, and no more steps are trained."""
    own: bool = False
    """Whether the checkpoint is one of the same run, wherever it lies: then the run's earlier checkpoints stay."""

    def __post_init__(self) -> None:
        if self.source is not None and not isinstance(self.source, str | os.PathLike):
            raise ConfigError(f'resume must be "auto", a path or None, but got resume={self.source!r}')

    def applied(self, config: TrainingConfig) -> TrainingConfig:
        """The configuration with the changes."""
        if not self.changes:
            return config
        if self.source is None:
            raise ConfigError(
                f"resume_with changes a resumed run, but got resume=None and {dict(self.changes)}. Set resume='auto'"
            )
        fixed = sorted(set(self.changes) - CHANGEABLE - FREE)
        if fixed:
            raise ConfigError(
                f"resume_with may change {', '.join(sorted(CHANGEABLE))}, but got {', '.join(fixed)}. Start a new run"
            )
        return config.replace(**self.changes)


def begin(
    state: TrainState,
    callbacks: CallbackList,
    resume: Resume,
    identity: Callable[[], Mapping[str, Any]],
    snapshot: Snapshot | None,
    decided: Mapping[str, Any],
    *,
    save: bool = True,
) -> None:
    """Make the state ready to run: restore it if the run is resumed, and add a saver if checkpoints are configured.

    Args:
        state: the prepared run.
        callbacks: their state is restored, too.
        resume: how the run begins.
        identity: returns what must be equal for a resume.
        snapshot: the result of `find`.
        decided: threads and compiling of the run; stored in its checkpoints.
        save: whether this process writes the checkpoints.
    """
    settings = state.config.checkpoints
    if settings is None and resume.source is None:
        return
    checkpoint.refuse_extra_state(state.module)
    known = identity()
    if snapshot is not None:
        _refuse_other(state, snapshot, known, resume)
        fresh_scale = snapshot.document["config"].get("loss_scale") != state.config.loss_scale
        checkpoint.restore(
            state, callbacks, snapshot, fresh_optimizer=_other_optimizer(state, snapshot), fresh_scale=fresh_scale
        )
        _forget_other_rule(state, snapshot)
        _stop_if_done(state)
        if resume.finished:
            state.stop(str(snapshot.document["history"].get("stopped") or "all epochs were done"))
    if settings is not None and save:
        state.saver = Saver(settings, run_facts(state, known, decided))
        # A run that continues in another directory does not change the first directory.
        own = snapshot is not None and _is_own(resume, state.saver.store)
        state.saver.begin(snapshot.step if snapshot is not None and own else None)


def run_facts(state: TrainState, identity: Mapping[str, Any], decided: Mapping[str, Any]) -> dict[str, Any]:
    """What stays the same throughout a run: its configuration, what it trains on, and what its bits depend on."""
    plain = state.config.replace(callbacks=()).to_dict()
    return {
        "config": plain,
        "identity": dict(identity),
        "versions": checkpoint.versions(),
        "decided": dict(decided),
    }


def newest(place: CheckpointStore) -> tuple[Snapshot | None, list[str]]:
    """The newest valid checkpoint, and the errors of newer ones."""
    damaged: list[str] = []
    other: StorageError | None = None
    for name in reversed(place.names()):
        try:
            return checkpoint.read(place.read(name), f"{place.address}/{name}"), damaged
        except NoCheckpointError:
            continue
        except CorruptFileError as error:
            damaged.append(str(error))
        except StorageError as error:
            # A damaged local manifest may look like one of a later version. Remotely, the network may have failed.
            if not isinstance(place, LocalCheckpoints):
                raise
            damaged.append(str(error))
            other = other or error
    if other is not None:
        raise other
    return None, damaged


def find(state: TrainState, resume: Resume) -> Snapshot | None:
    """The checkpoint from which a run resumes; None for a new run."""
    if resume.source is None:
        return None
    found = _looked_up(state.config, resume)
    if isinstance(found, Snapshot):
        return found
    snapshot = _newest_or_none(state, found)
    if snapshot is None and resume.source != "auto":
        raise NoCheckpointError(
            f"resume needs a checkpoint, but {resume.source} has none. Use resume='auto' to start a new run then"
        )
    return snapshot


def found_at(path: str | os.PathLike[str]) -> Snapshot:
    """The checkpoint at a path, or the newest one of a run there."""
    found = _looked_up(TrainingConfig(), Resume(path))
    snapshot = found if isinstance(found, Snapshot) else newest(found)[0]
    if snapshot is None:
        raise NoCheckpointError(f"{path} must be a run or a checkpoint, but has no checkpoint")
    return snapshot


def kept_facts(config: TrainingConfig, resume: Resume) -> Mapping[str, Any] | None:
    """Configuration and identity of the run, from the checkpoint that it resumes from; None for a new run."""
    if resume.source is None:
        return None
    found = _looked_up(config, resume)
    snapshot = found if isinstance(found, Snapshot) else newest(found)[0]
    if snapshot is None:
        return None
    kept = {name: snapshot.document.get(name) for name in ("config", "identity")}
    for name, facts in kept.items():
        if not isinstance(facts, dict):
            raise CorruptFileError(f"the checkpoint of step {snapshot.step} lacks '{name}'")
    return kept


def _looked_up(config: TrainingConfig, resume: Resume) -> Snapshot | CheckpointStore:
    """The named checkpoint, or the store whose newest checkpoint is meant."""
    assert resume.source is not None
    if resume.source == "auto":
        settings = config.checkpoints
        if settings is None:
            raise ConfigError(
                "resume='auto' needs a run directory, but checkpoints is None. Set checkpoints=Checkpoints(...)"
            )
        return place_of(settings.directory)
    path = Path(resume.source)
    if not is_remote(resume.source) and (step_of(path.name) >= 0 or is_checkpoint(path)):
        place = LocalCheckpoints(path.parent.parent)
        contents = place.read(path.name) if path.parent.name == CHECKPOINTS else checkpoint_files(path)
        return checkpoint.read(contents, str(path))
    if is_remote(resume.source):
        run, name = _remote_parts(str(resume.source))
        alone = read_remote(str(resume.source)) if name is None else None
        if alone is not None:
            return checkpoint.read(alone, str(resume.source))
        place_given = place_of(run)
        return place_given if name is None else checkpoint.read(place_given.read(name), str(resume.source))
    return place_of(path)


def checkpoint_files(path: Path) -> dict[str, bytes]:
    """The verified files of a checkpoint outside of a run directory."""
    from neuro_divergent.core import bundle

    return bundle.read(path)


def _newest_or_none(state: TrainState, place: CheckpointStore) -> Snapshot | None:
    found, damaged = newest(place)
    if damaged and found is None:
        raise CorruptFileError(
            f"resume needs a valid checkpoint in {place.address}, but all {len(damaged)} are damaged: {damaged[0]}"
        )
    if found is not None:
        for sentence in damaged:
            log.warning("a damaged checkpoint is ignored, resuming from step %d: %s", found.step, sentence)
            found.document["history"]["events"].append(
                {"step": found.step, "epoch": state.epoch, "event": "damaged_checkpoint", "why": sentence}
            )
    return found


def _remote_parts(address: str) -> tuple[str, str | None]:
    """(address of the run, name of the checkpoint or None) from the address of a run or of a checkpoint."""
    address = address.rstrip("/")
    run, _, name = address.rpartition(f"/{CHECKPOINTS}/")
    return (run, name) if run and step_of(name) >= 0 else (address, None)


def _is_own(resume: Resume, place: CheckpointStore) -> bool:
    if resume.source == "auto" or resume.own:
        return True
    if resume.source is not None and is_remote(resume.source):
        return f"{_remote_parts(str(resume.source))[0]}/{CHECKPOINTS}" == place.address
    if not isinstance(place, LocalCheckpoints) or resume.source is None:
        return False
    given = Path(resume.source).resolve()
    return given == place.run.resolve() or given.parent == place.path.resolve()


def _refuse_other(state: TrainState, snapshot: Snapshot, known: Mapping[str, Any], resume: Resume) -> None:
    """Raise with a list of all differences that would make this another run."""
    document = snapshot.document
    try:
        kept_config, kept_identity = document["config"], document["identity"]
        kept_versions, total = document["versions"], document["progress"]["steps_per_epoch"]
    except KeyError as error:
        raise CorruptFileError(f"the checkpoint of step {snapshot.step} lacks {error}") from None
    kept_config = _completed(kept_config)
    given = state.config.replace(callbacks=()).to_dict()
    allowed = FREE | set(resume.changes or ())
    if "learning_rate" in allowed:  # the optimizer holds it
        allowed |= {"optimizer"}
    # Another torch version may describe the same module differently; an older version of this library stored less.
    unsure = set() if kept_versions.get("torch") == checkpoint.versions()["torch"] else {"module"}
    # The run has done more steps than the new total.
    shorter = snapshot.step > state.total_steps and total == state.steps_per_epoch
    if shorter:
        allowed -= {"max_epochs", "max_steps"}
    found = [
        *_module_differences(state, snapshot),
        *(
            line
            for name in kept_identity
            if name not in unsure
            for line in differences(_described(kept_identity[name]), known.get(name), name)
        ),
        *(
            line
            for name in sorted(kept_config.keys() & given.keys() - allowed)
            for line in differences(kept_config[name], given[name], f"training.{name}")
        ),
        *([f"{snapshot.step} steps are done, but the new total is {state.total_steps}"] if shorter else []),
    ]
    if not found and total != state.steps_per_epoch:
        found.append(f"an epoch had {total} steps, but has {state.steps_per_epoch}")
    if found:
        got = "; ".join(found[:6])
        raise StorageError(
            f"a resumed run must have the same data, model and configuration, but {got}. "
            "Restore the old values, name the change in resume_with={...}, or start a new run",
            rule="same run",
            got=got,
        )
    for name, value in checkpoint.versions().items():
        if kept_versions.get(name) != value:
            log.warning(
                "%s was %s when the run was saved and is %s: bits may differ", name, kept_versions.get(name), value
            )


def _completed(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a checkpoint, plus the defaults of fields that an older version did not have.

    A field whose default is "auto" is omitted: the recipe decides its value, so the old value is unknown.
    """
    new = {name: value for name, value in TrainingConfig().to_dict().items() if name not in kept and value != "auto"}
    return {name: _with_defaults(name, value) for name, value in kept.items()} | new


def _described(kept: Any) -> Any:
    """A model's description with the defaults of fields that an older version did not have; other facts as they are."""
    if not isinstance(kept, dict) or "kind" not in kept:
        return kept
    try:
        return registry.resolve("model", kept["kind"]).from_saved(kept).to_dict()
    except NeuroDivergentError:  # a plugin that is not there: compared as it is
        return kept


def _with_defaults(name: str, value: Any) -> Any:
    if not isinstance(value, dict) or "kind" not in value:
        return value
    try:
        meant = as_written(value) if name in ("loss", "validation_loss") else value
        return TrainingConfig.from_dict({name: meant}).to_dict()[name]
    except ConfigError:  # a missing plugin or a callable of the user: compared as it is
        return value


def differences(kept: Any, given: Any, place: str = "") -> list[str]:
    """The differences of two plain values, one sentence each.

    >>> differences({"model": {"h": 12}}, {"model": {"h": 24}})
    ['model.h was 12, but is 24']
    """
    if isinstance(kept, dict) and isinstance(given, dict) and kept.get("kind") == given.get("kind"):
        names = dict.fromkeys([*kept, *given])
        return [
            line
            for name in names
            for line in differences(kept.get(name), given.get(name), ".".join(filter(None, (place, str(name)))))
        ]
    # A file does not distinguish tuples from lists.
    same = list(kept) == list(given) if isinstance(kept, list) and isinstance(given, list | tuple) else kept == given
    return [] if same else [f"{place} was {_short(kept)}, but is {_short(given)}"]


def _short(value: Any) -> str:
    text = value["kind"] if isinstance(value, dict) and "kind" in value else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _module_differences(state: TrainState, snapshot: Snapshot) -> list[str]:
    kept, own = checkpoint.part(snapshot.weights, "module/"), state.module.state_dict()
    missing = sorted(kept.keys() ^ own.keys())
    if missing:
        return [f"the module's parameters differ in {', '.join(missing[:4])}"]
    return [
        f"{name} had the shape {tuple(kept[name].shape)}, but has {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if kept[name].shape != tensor.shape
    ]


def _other_optimizer(state: TrainState, snapshot: Snapshot) -> bool:
    """Whether the optimizer has other state entries than the old one. Then it starts with a new state."""
    kept, given = snapshot.document["config"].get("optimizer"), state.config.optimizer
    other = not isinstance(kept, dict) or not isinstance(given, Optimizer) or kept.get("kind") != given.kind
    if not other and isinstance(given, Optimizer) and snapshot.optimizer and differences(kept, given.to_dict()):
        # A parameter that another one of several optimizers has now cannot go on with what the first one kept of it.
        kept_of = set if isinstance(given, Optimizers) else _entries
        other = not kept_of(_stepped(given, state.module)) <= kept_of(snapshot.optimizer)
    if other:
        log.warning("the optimizer differs from the one of the checkpoint: it starts with a new state")
    return other


def _stepped(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The state of an optimizer after one step on a copy of the module."""
    module = deepcopy(module)
    live = optimizer.build(module)
    to_train(live)
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    live.step()
    return state_tensors(live)


def _entries(tensors: Mapping[str, Tensor]) -> set[str]:
    """Names of the per-parameter optimizer state (exp_avg, ...). Entries of a whole group ("@...") are ignored."""
    return {entry for name in tensors if not (entry := name.rpartition("/")[2]).startswith("@")}


def _forget_other_rule(state: TrainState, snapshot: Snapshot) -> None:
    """Reset early stopping and best weights if the rule changed: they belong to the old rule."""
    rule, kept = state.config.early_stopping, snapshot.document["config"].get("early_stopping")
    watched = None if rule is None or rule == "auto" else (rule.monitor, rule.mode)
    if watched != ((kept["monitor"], kept["mode"]) if isinstance(kept, dict) else None):
        state.patience, state.best_weights, state.history.best_epoch = Patience(), None, None
    elif isinstance(rule, EarlyStopping) and not rule.restore_best_weights:
        state.best_weights = None


def _stop_if_done(state: TrainState) -> None:
    """Stop a resumed run that had already stopped early, unless its rule was changed."""
    rule = state.config.early_stopping
    if rule is not None and rule != "auto" and state.patience.bad >= rule.patience:
        state.stop(f"no improvement of {rule.monitor} in {rule.patience} validations")
