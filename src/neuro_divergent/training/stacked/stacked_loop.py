"""Members of a stack: their gradients, steps and validations in one computation, their records apart.

Letters: M members.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.core.errors import NeuroDivergentError
from neuro_divergent.optim import forget_gradients
from neuro_divergent.training.callbacks.base import Callback, CallbackList
from neuro_divergent.training.callbacks.progress import ProgressLine, watched
from neuro_divergent.training.compiled.assemble import engine_callbacks
from neuro_divergent.training.loop.loop import end_epoch, handle_nonfinite, run, set_learning_rate
from neuro_divergent.training.process.heartbeat import heartbeat
from neuro_divergent.training.stacked.eligibility import differing
from neuro_divergent.training.stacked.layers import CannotStackError, StackedModule
from neuro_divergent.training.stacked.validation import RowsTask, Still, Sums, held_batches, known_validation
from neuro_divergent.training.stacked.weights import Slab, clip_rows, group_of, own_weights, stacked_step
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task
from neuro_divergent.training.step.strategy import SingleProcess

AGREEMENT = 1e-4
"""How far stacked gradients may be from a member's own at its first step, as a share of their norm."""

Member = tuple[Task, TrainState]
"""A training: how a batch becomes numbers, and the prepared state."""


class Stack:
    """Members in one computation, row by row; finished ones leave it."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        first = members[0][1]
        states = [state for _, state in members]
        for state in states:
            state.module.train()
        self.module = StackedModule(first.module)
        self.slab = Slab(states)
        self.step = stacked_step(first.config.optimizer, self.slab, states)  # type: ignore[arg-type]  # resolved
        self.task = copy.copy(members[0][0])
        self.held = held_batches(states)
        self.still = {id(state): Still(state.module) for state in states}
        self._collect()
        self.begun = time.perf_counter()

    def _collect(self) -> None:
        """What rows have besides trained weights: frozen ones, buffers, numbers of their losses."""
        modules = [state.module for _, state in self.members]
        self.frozen = {
            name: torch.stack([module.get_parameter(name).detach() for module in modules])
            for name, parameter in modules[0].named_parameters()
            if not parameter.requires_grad
        }
        self.buffers = {
            name: torch.stack([module.get_buffer(name) for module in modules]) for name, _ in modules[0].named_buffers()
        }
        outer = {name: tensor for name, tensor in self.buffers.items() if name not in self.module.inner_buffers}
        self.spread = {name: tensor for name, tensor in outer.items() if not bool((tensor == tensor[:1]).all())}
        # [joint groups, M] the live groups of the members' optimizers, which hold their rates
        self.groups = [[group_of(state, names[0]) for _, state in self.members] for names in self.slab.groups]
        losses = [task.loss for task, _ in self.members]
        names = {name for loss in losses for name in differing(losses[0], loss) or ()}
        self.numbers = {
            name: self.slab.weights.new_tensor([getattr(loss, name) for loss in losses]) for name in sorted(names)
        }

    # The computation of a step

    def gradients(self, batches: Sequence[Any]) -> Tensor:
        """[M] the losses of all rows; their gradients are in the slab. Batches of one shape are one computation."""
        shapes = _by_shape(dict(enumerate(batches)))
        if len(shapes) == 1:  # the common case, without copies
            return self._of_rows(batches, None)
        losses: Tensor = self.slab.weights.new_empty(len(batches))
        for rows in shapes.values():
            losses[rows] = self._of_rows([batches[row] for row in rows], rows)
        return losses

    def _of_rows(self, batches: Sequence[Any], rows: list[int] | None) -> Tensor:
        chosen = self.slab.views if rows is None else self.slab.some(rows)
        task, batch = self._with_loss(rows, len(batches[0][0])), _joined(batches)
        values, weights = self._computed(lambda module: task(module, batch), chosen, rows, batch)
        losses = self.members[0][0].loss.finish(_means(values, weights, len(batches)))
        found = torch.autograd.grad(losses.sum(), list(chosen.values()), allow_unused=True)
        if any(gradient is None for gradient in found):
            raise CannotStackError("some of its weights are not reached by a layer's forward")
        self.slab.fill(found, rows)
        done: Tensor = losses.detach()
        return done

    def _computed(
        self, compute: Callable[[Any], Any], weights: Mapping[str, Tensor], rows: list[int] | None, batch: Any
    ) -> Any:
        """What `compute` makes of the module with the weights, and everything else, of some rows."""
        frozen, buffers = _chosen(self.frozen, rows), _chosen(self.buffers, rows)
        members = len(self.members) if rows is None else len(rows)
        if self.spread:
            assert isinstance(self.task, RowsTask)
            self.task.spread_buffers(self.module.module, _chosen(self.spread, rows), batch)
        return self.module(compute, {**weights, **frozen}, buffers, members=members, rows=len(batch[0]))

    def _with_loss(self, rows: list[int] | None, size: int) -> Task:
        """The task under a loss whose numbers are those of each row."""
        if self.numbers:
            own = _chosen(self.numbers, rows).items()
            spread = {name: values.repeat_interleave(size)[:, None, None] for name, values in own}
            loss = self.members[0][0].loss.model_copy(update=spread)
            self.task.loss = loss
            if hasattr(self.module.module, "loss"):
                self.module.module.loss = loss  # type: ignore[assignment]  # torch says Module
        return self.task

    @torch.no_grad()
    def scores(self, rows: list[int]) -> dict[int, Sums]:
        """The validation sums of some rows, those with batches of one shape computed together."""
        found: dict[int, Sums] = {}
        self.module.train(False)
        assert isinstance(self.task, RowsTask)
        for same in _by_shape({row: self.held[id(self.members[row][1])] for row in rows}).values():
            if len(same) > 1:
                batch = _joined([self.held[id(self.members[row][1])] for row in same])
                score = partial(self.task.score_rows, batch=batch, members=len(same))
                found |= zip(same, self._computed(score, self.slab.some(same), same, batch), strict=True)
        self.module.train(True)
        return found

    # Whether it can be trusted

    def obstacle(self) -> str | None:
        """Why these members cannot be stacked, in words; None when they can."""
        kept = self.slab.weights.clone()
        # Members may start from the same weights: rows that see each other would not be noticed.
        self.slab.weights.mul_(torch.linspace(1.0, 1.1, len(kept), dtype=kept.dtype, device=kept.device)[:, None])
        try:
            self._check()
        except CannotStackError as error:
            return str(error)
        finally:
            self.slab.weights.copy_(kept)
        return None

    def _check(self) -> None:
        """Compare the stacked gradients of the first step with each member's own."""
        foreign = [name for name in self.spread if name not in getattr(self.task, "row_buffers", ())]
        if foreign:
            raise CannotStackError(f"the buffer {foreign[0]} differs between the members")
        batches = [state.source.batch(0, 0) for _, state in self.members]
        own = [self._own_gradients(row, batch) for row, batch in enumerate(batches)]
        with _refused(), warnings.catch_warnings():
            warnings.simplefilter("error")  # where torch.vmap has no batched form it says so, and loops
            losses = self.gradients(batches).tolist()
        for row, (loss, gradients) in enumerate(own):
            norm = float(torch.linalg.vector_norm(gradients))
            error = float(torch.linalg.vector_norm(self.slab.gradients[row] - gradients))
            if not math.isfinite(loss) or not math.isfinite(norm):
                raise CannotStackError("its first step is not finite")
            if error > AGREEMENT * norm + 1e-12 or abs(losses[row] - loss) > AGREEMENT * abs(loss) + 1e-12:
                raise CannotStackError("its rows depend on each other, or its layers are not used as layers")
        self._check_scores()

    def _check_scores(self) -> None:
        """Stack validations only if they come out as each member's own, and draw nothing."""
        if not isinstance(self.task, RowsTask) or self.numbers:
            self.held = {}
        if not self.held:
            return
        drawn = torch.get_rng_state()
        try:
            with _refused(), warnings.catch_warnings():
                warnings.simplefilter("error")
                found = self.scores(list(range(len(self.members))))
            good = all(self._same_score(row, sums) for row, sums in found.items())
        except CannotStackError:
            good = False
        if not good or not torch.equal(drawn, torch.get_rng_state()):
            self.held = {}

    def _same_score(self, row: int, sums: Sums) -> bool:
        task, state = self.members[row]
        state.module.eval()
        with torch.no_grad():
            own = task.score(state.module, self.held[id(state)])
        state.module.train()
        # Members may be asked for different metrics: then each is validated by itself.
        return own.keys() == sums.keys() and all(
            torch.allclose(sums[name], part, rtol=AGREEMENT, atol=1e-12) for name, part in own.items()
        )

    def _own_gradients(self, row: int, batch: Any) -> tuple[float, Tensor]:
        """The loss and the gradients of a member by itself; refuses networks that draw or remember something."""
        task, state = self.members[row]
        drawn = torch.get_rng_state()
        with _unchanged_buffers(state) as changed:
            loss = SingleProcess().gradients(task, state, batch)
        flat = self.slab.row_gradients(state)
        forget_gradients(state.optimizer)
        if changed:
            raise CannotStackError("it counts what it sees while training, as a batch norm does")
        if not torch.equal(drawn, torch.get_rng_state()):
            raise CannotStackError("it draws random numbers, such as dropout's, while training")
        if flat is None:
            raise CannotStackError("some of its weights have no part in the loss")
        return loss, flat

    # The run

    def run(self, title: str) -> None:
        """Train every row to its end."""
        beats = heartbeat()
        progress = _progress(self.members[0][1], f"{len(self.members)} × {title}", beats)
        last = self.members[0][1]
        progress("on_fit_start", last)
        live = list(range(len(self.members)))
        callbacks = [CallbackList([*engine_callbacks(s.module, s.config), *beats]) for _, s in self.members]
        try:
            while live:
                self.train_step(live)
                last = self.members[live[0]][1]
                progress("on_batch_end", last)
                done = self._end_epochs(live, callbacks)
                if done:
                    live = self._go_on([row for row in live if row not in done], callbacks)
        except BaseException:
            progress("on_exception", last)
            raise
        progress("on_fit_end", last)

    def train_step(self, live: list[int]) -> None:
        """One optimizer step of every row; rows that are there for company see another's batch."""
        begun = time.perf_counter()
        drawn = {row: state.source.batch(state.epoch, state.position) for row, (_, state) in self._of(live)}
        batches = [drawn.get(row, drawn[live[0]]) for row in range(len(self.members))]
        for _, state in (self.members[row] for row in live):
            set_learning_rate(state)
        losses = self.gradients(batches).tolist()
        clipping = self.members[0][1].config.gradient_clipping
        norms = clip_rows(None if clipping == "auto" else clipping, self.slab.gradients).tolist()
        for row, (task, state) in self._of(live):
            state.loss, state.gradient_norm = losses[row], norms[row]
            if not (math.isfinite(state.loss) and math.isfinite(state.gradient_norm)):
                self.slab.lend_gradients(row, state)
                handle_nonfinite(task, state, batches[row])
        self.step(self._rates())
        seconds = (time.perf_counter() - begun) / len(live)
        for _, (_, state) in self._of(live):
            state.history.step_loss.append(state.loss)
            state.history.gradient_norm.append(state.gradient_norm)
            state.epoch_loss += state.loss
            state.epoch_seconds += seconds
            state.step += 1
            state.position += 1

    def _of(self, rows: list[int]) -> Iterator[tuple[int, Member]]:
        return ((row, self.members[row]) for row in rows)

    def _rates(self) -> list[list[float]]:
        return [[float(group["lr"]) for group in groups] for groups in self.groups]

    def _end_epochs(self, live: list[int], callbacks: list[CallbackList]) -> list[int]:
        """Close the epochs that are over, and the trainings that are; gives the rows of the latter."""
        over = [row for row, (_, state) in self._of(live) if _epoch_is_over(state)]
        due = [row for row, (_, state) in self._of(over) if _validation_is_due(state)] if self.held else []
        known = self.scores(due) if due else {}
        for row in over:
            self._end_epoch(row, known.get(row), callbacks[row])
        done = [row for row, (_, state) in self._of(over) if state.stopping or state.step >= state.total_steps]
        for row, (task, state) in self._of(done):
            own_weights(state)
            run(task, state, state.step, SingleProcess(), callbacks[row])
        return done

    def _end_epoch(self, row: int, sums: Sums | None, callbacks: CallbackList) -> None:
        task, state = self.members[row]
        if sums is None:
            end_epoch(task, state, callbacks)
            return
        with known_validation(task, state, self.still[id(state)], sums) as known:
            end_epoch(known, state, callbacks)

    def _go_on(self, live: list[int], callbacks: list[CallbackList]) -> list[int]:
        """Leave the finished rows out, but for one where only one is live: alone, it would be rounded differently."""
        if not live:
            return []
        company = [row for row in range(len(self.members)) if row not in live][:1] if len(live) == 1 else []
        kept = live + company
        self.members = [self.members[row] for row in kept]
        callbacks[:] = [callbacks[row] for row in kept]
        self.slab.keep(kept, [state for _, state in self.members[: len(live)]])
        self.step.keep(kept)
        self._collect()
        return list(range(len(live)))

    def release(self) -> None:
        """Give every member its own weights back."""
        for _, state in self.members:
            own_weights(state)


@contextmanager
def _unchanged_buffers(state: TrainState) -> Iterator[list[Tensor]]:
    """Buffers that change inside the context are listed, and put back."""
    before = [(buffer, buffer.clone()) for buffer in state.module.buffers()]
    changed: list[Tensor] = []
    try:
        yield changed
    finally:
        changed += [buffer for buffer, kept in before if not torch.equal(buffer, kept)]
        for buffer, kept in before:
            buffer.copy_(kept)


@contextmanager
def _refused() -> Iterator[None]:
    """Whatever a network says against being stacked is a reason not to do it."""
    try:
        yield
    except NeuroDivergentError:
        raise
    except Warning as warning:
        raise CannotStackError("torch.vmap has no batched form of one of its operations") from warning
    except Exception as error:
        text = str(error).strip()
        raise CannotStackError(f"torch says: {text.splitlines()[0] if text else type(error).__name__}") from error


def _progress(state: TrainState, title: str, beats: list[Callback]) -> CallbackList:
    wanted = state.config.progress
    lines: list[Callback] = [ProgressLine(title)] if wanted is True or (wanted == "auto" and watched()) else []
    return CallbackList([*lines, *beats])


def _epoch_is_over(state: TrainState) -> bool:
    return state.position >= state.steps_per_epoch or state.step >= state.total_steps


def _validation_is_due(state: TrainState) -> bool:
    return (state.epoch + 1) % state.config.validate_every == 0 or state.step >= state.total_steps


def _chosen(tensors: Mapping[str, Tensor], rows: list[int] | None) -> Mapping[str, Tensor]:
    return tensors if rows is None else {name: tensor[rows] for name, tensor in tensors.items()}


def _by_shape(batches: Mapping[int, Any]) -> dict[Any, list[int]]:
    """Rows whose batches have the same fields, shapes and types."""
    shapes: dict[Any, list[int]] = {}
    for row, batch in batches.items():
        shapes.setdefault(_shape(batch), []).append(row)
    return shapes


def _shape(batch: Any) -> tuple[Any, ...]:
    return tuple(None if part is None else (part.shape, part.dtype) for part in batch)


def _joined(batches: Sequence[Any]) -> Any:
    """One batch of the rows of several, which have one shape; what is not by row is the same in all of them."""
    size = len(batches[0][0])
    parts = (
        part[0] if part[0] is None or len(part[0]) != size else torch.cat(part) for part in zip(*batches, strict=True)
    )
    return type(batches[0])(*parts)


def _means(values: Tensor, weights: Tensor | None, members: int) -> Tensor:
    """[M] the mean of each member over everything that counts; 0 when nothing does."""
    values = values.reshape(members, -1)
    if weights is None:
        return values.mean(dim=1)
    weights = weights.reshape(members, -1)
    # A masked value may be anything: `where` keeps it out of the gradient too.
    kept = torch.where(weights > 0, values, torch.zeros_like(values)) * weights.to(values.dtype)
    return kept.sum(dim=1) / weights.sum(dim=1).clamp(min=1e-12)
