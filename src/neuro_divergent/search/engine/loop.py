"""The loop of a search: gives groups of trials to executors, and decides by their scores which go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.executors.processes import InlineExecutor, WorkerDiedError, WorkError
from neuro_divergent.search.amounts import in_words
from neuro_divergent.search.engine.groups import Groups
from neuro_divergent.search.engine.interrupts import Interrupts, TimeIsOverError
from neuro_divergent.search.engine.ledger import Ledger
from neuro_divergent.search.engine.progress import Progress
from neuro_divergent.search.engine.rungs import Stage, rule_of
from neuro_divergent.search.engine.slots import Running, Slot, slots_of
from neuro_divergent.search.engine.work import TIME_OVER, Order, Outcome, Workshop, order_text, outcomes_from, work
from neuro_divergent.search.plan import Plan
from neuro_divergent.search.settings import Search
from neuro_divergent.search.storage import LATER, RESUME
from neuro_divergent.search.study import Trials

TICK = 0.5
"""Longest time in seconds between two looks at the clock, if there is a time limit."""
LONGEST_END = 30.0
"""Longest time in seconds to wait for workers of a given executor whose time is over."""


class Engine:
    """Runs the trials of a search.

    Args:
        search: what is searched.
        plan: rows, folds and seeds.
        directory: the directory of the study.
        do: does an order in this process instead of training, for measurements of the engine itself.
    """

    def __init__(
        self, search: Search, plan: Plan, directory: Path, do: Callable[[Order], dict[int, Outcome]] | None = None
    ) -> None:
        self.search, self.plan, self.directory = search, plan, directory
        self.deadline = None if search.timeout is None else time.monotonic() + search.timeout
        self.slots = slots_of(search, directory)
        self.inline = isinstance(self.slots[0].executor, InlineExecutor)
        self._shared = search.deterministic or self.slots[0].shared
        self.rule, pruner = rule_of(search, len(plan.folds))
        self.trials = Trials(search, directory, plan, pruner)
        self.workshop = Workshop(directory, plan)
        self._do = do or self.workshop.do
        progress = Progress(search.progress, search.metric, search.budget, self.deadline)
        self.ledger = Ledger(search, plan, directory, self.trials, self.rule, progress)
        self.groups = Groups(search, self.trials, self.rule, self.ledger, one_thread=not self.inline)
        self._queue: list[list[Running]] = []
        self._collected: list[tuple[Slot, Running, Outcome]] = []

    def close(self) -> None:
        """End the executors and give all claims up."""
        for slot in self.slots:
            slot.executor.shutdown(wait=True, cancel_futures=True)
        self.trials.close()

    def run(self) -> None:
        """Run until the budget, the time or the patience is used up."""
        try:
            while self._work_left():
                self._wait([slot for slot in self.slots if slot.future is not None])
        except BaseException:
            if self.inline:
                with suppress(StorageError):  # the first error is the one that matters
                    self.workshop.save_all()
            raise
        finally:
            self.ledger.show(last=True)
        self.ledger.conclude()

    def _work_left(self) -> bool:
        """Give idle executors a group; False if there is none. At the end, the best of each rung go on first."""
        self._fill()
        if not any(slot.future for slot in self.slots) and self.rule.pauses and not self.groups.closing:
            self.groups.closing = True
            self._fill()
        return any(slot.future for slot in self.slots)

    def _fill(self) -> None:
        idle = [slot for slot in self.slots if slot.future is None]
        if self._out_of_time():
            self.ledger.stopped = True
        if not idle or self.ledger.stopped:
            return
        if self.search.deterministic and len(idle) == len(self.slots) and not self._queue:
            self._queue = self.groups.batch()
        for slot in idle:
            if not slot.group and self._queue:
                slot.group = self._queue.pop(0)
            elif not slot.group and not self.search.deterministic:
                slot.group = self.groups.next()
            if slot.group:
                self._submit(slot)

    def _submit(self, slot: Slot) -> None:
        stage = slot.group[0].stage
        order = Order(
            trials=tuple(one.wanted for one in slot.group),
            share=stage.share,
            folds=stage.folds,
            save=self.rule.pauses or self._shared,
            drop=self._shared,
            keep=self.ledger.bound(),
            forget=tuple(slot.forget),
            stacked=self.search.stacked if self.groups.size > 1 or len(self.plan.parts) > 1 else False,
            checkpoint_every=self.search.checkpoint_every,
            seconds=self._seconds_left() if slot.shared else None,
        )
        slot.forget = []
        if self.inline:
            slot.future = self._done_here(slot, order)
        else:
            slot.start()
            slot.future = slot.executor.submit(work, str(self.directory.resolve()), order_text(order))

    def _done_here(self, slot: Slot, order: Order) -> Future[dict[int, Outcome]]:
        """The order, done in this process. If its time is over, it ends like an order whose process was ended."""
        future: Future[dict[int, Outcome]] = Future()
        try:
            with Interrupts(self._end_of(slot)) as interrupts:
                self.workshop.asked = interrupts.asked
                future.set_result(self._do(order))
        except TimeIsOverError:
            slot.slow = not self._out_of_time()
            self.workshop.drop_moving()
            future.set_exception(WorkerDiedError("its time was over"))
        return future

    def _end_of(self, slot: Slot) -> float | None:
        """When a group in this process must end, on the monotonic clock; None for no limit."""
        limit = self.search.trial_timeout
        ends = [] if limit is None else [min(one.begun for one in slot.group) + limit]
        return min(ends + ([] if self.deadline is None else [self.deadline]), default=None)

    def _seconds_left(self) -> float | None:
        """How long a task may take that cannot be ended from here."""
        limits = [] if self.search.trial_timeout is None else [self.search.trial_timeout]
        limits += [] if self.deadline is None else [max(0.0, self.deadline - time.monotonic())]
        return min(limits, default=None)

    # Waiting

    def _wait(self, busy: Sequence[Slot]) -> None:
        """Wait until a group is done, or all groups of a deterministic search; end what takes too long."""
        pending = {slot.future for slot in busy if slot.future is not None}
        count = len(pending)
        while pending and (len(pending) == count or self.search.deterministic):
            _, pending = wait(pending, timeout=self._patience(), return_when=FIRST_COMPLETED)
            self.ledger.show()
            self._end_slow()
            if self._out_of_time():
                break
        for slot in busy:
            if slot.future is not None and slot.future.done():
                self._collected += self._collect(slot)
        if self._out_of_time():
            if self.inline:
                self.workshop.save_all()
            self._stop_all()
        elif self.search.deterministic and (self._queue or any(slot.future for slot in self.slots)):
            return
        # A deterministic search judges a whole batch, in the order of its trials.
        collected, self._collected = sorted(self._collected, key=lambda one: one[1].number), []
        for slot, running, outcome in collected:
            self._judge(slot, running, outcome)

    def _patience(self) -> float | None:
        """Seconds until the next look at the clock; None if there is no limit."""
        if self.deadline is None and self.search.trial_timeout is None:
            return None
        left = TICK if self.deadline is None else self.deadline - time.monotonic()
        return max(0.0, min(TICK, left))

    def _out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _stop_all(self) -> None:
        """End all processes. Their trials can go on later from their last checkpoint."""
        self.ledger.stopped = True
        if self.slots[0].shared:  # their tasks save their trials and end by themselves
            wait([slot.future for slot in self.slots if slot.future is not None], timeout=LONGEST_END)
        for slot in self.slots:
            slot.end()
            for running in slot.group:
                self.trials.claims.release(running.number)
            slot.future, slot.group = None, []
        self._queue = []

    def _end_slow(self) -> None:
        """End the processes of trials that take longer than they may."""
        limit = self.search.trial_timeout
        for slot in self.slots:
            if slot.shared or slot.future is None or slot.future.done():
                continue
            if limit is not None and slot.seconds() > limit:
                future = slot.future
                slot.slow = True
                slot.end()
                wait([future], timeout=5.0)

    # Outcomes

    def _collect(self, slot: Slot) -> list[tuple[Slot, Running, Outcome]]:
        """The outcomes of a slot's group."""
        assert slot.future is not None
        future, group = slot.future, slot.group
        slot.future, slot.group = None, []
        try:
            result = future.result()
        except WorkerDiedError as error:
            if error.with_executor:  # the trials may not even have begun
                self._queue.append(group)
                return []
            return self._died(slot, group, str(error))
        except WorkError as error:
            return [(slot, one, Outcome(error=str(error))) for one in group]
        outcomes = outcomes_from(result) if isinstance(result, str) else result
        if outcomes[group[0].number].error == TIME_OVER:
            slot.slow = not self._out_of_time()
            return self._died(slot, group, TIME_OVER) if slot.slow else self._left(group)
        return [(slot, one, outcomes[one.number]) for one in group]

    def _died(self, slot: Slot, group: list[Running], why: str) -> list[tuple[Slot, Running, Outcome]]:
        """Trials whose process ended. They go on once more: somebody may have killed it. Then each is tried alone."""
        slow, slot.slow, slot.started, slot.ready_since = slot.slow, False, False, None
        if len(group) > 1 or not (slow or group[0].again):
            self._queue += [[one] for one in group] if slow or group[0].again else [group]
            for one in group:
                one.begun, one.again = time.monotonic(), True
            return []
        if slow:
            why = f"it took longer than trial_timeout, {in_words(self.search.trial_timeout or 0.0)}"
        return [(slot, group[0], Outcome(error=why))]

    def _left(self, group: list[Running]) -> list[tuple[Slot, Running, Outcome]]:
        """Trials that another search may go on with, because the time of this one is over."""
        for one in group:
            self.trials.claims.release(one.number)
        return []

    def _judge(self, slot: Slot, running: Running, outcome: Outcome) -> None:
        """Tell the study what became of a trial, and decide whether it goes on."""
        number = running.number
        if outcome.unwritable:
            raise StorageError(f"{outcome.error}. {LATER}", advice=[RESUME])
        if outcome.error is not None:
            self.ledger.fail(number, outcome.error)
            return
        if outcome.finished and running.stage.folds is None:
            self.ledger.complete(number, outcome)
            return
        trial = self.trials.report(number, running.stage.step, self._stage_value(running.stage, outcome))
        following = self.rule.following(trial)
        if outcome.finished:
            self.ledger.complete(number, outcome)
        elif following is not None and self._goes_on(number, trial):
            running.stage = following
            self._go_on(slot, running)
        else:
            slot.forget.append(number)
            if self.rule.pauses:
                self.trials.claims.release(number)
                self.ledger.prune_hopeless()
            else:
                self.ledger.prune(number, outcome)

    def _goes_on(self, number: int, trial: Any) -> bool:
        if not self.rule.pauses:
            return not self.trials.should_prune(trial)
        return number in self.rule.promotable(self.trials.all(), self.trials.sign, closing=self.groups.closing)

    def _go_on(self, slot: Slot, running: Running) -> None:
        """Let a trial go on where it is, with those of its group that go on, too."""
        if self.search.deterministic:  # any process may take it: it was saved
            groups = (group for group in self._queue if group[0].stage == running.stage)
            before = next((group for group in groups if group[0].batch == running.batch), None)
            if before is None:
                self._queue.append([running])
            else:
                before.append(running)
        elif slot.group and slot.group[0].stage != running.stage:
            self._queue.append([running])
        else:
            slot.group.append(running)

    def _stage_value(self, stage: Stage, outcome: Outcome) -> float:
        """The score that is reported after a stage: that of the stage's fold, or of all folds."""
        if stage.folds is None:
            return self.ledger.values(outcome)[0]
        seeds = len(self.plan.seeds)
        own = outcome.by_part[(stage.folds - 1) * seeds : stage.folds * seeds]
        return float(sum(part[self.search.metric] for part in own) / len(own))
