"""The engine of a search: gives groups of trials to executors, and tells their outcomes to the study."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, TrainingError, first_line
from neuro_divergent.core.executors import InlineExecutor, ProcessExecutor, WorkerDiedError
from neuro_divergent.core.extras import require
from neuro_divergent.core.runs.names import STUDY
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import check_arguments
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.search import disk
from neuro_divergent.search.amounts import in_words
from neuro_divergent.search.plan import (
    Plan,
    check_resume,
    document_of,
    make_plan,
    read_document,
    refuse_other_study,
    write_plan,
)
from neuro_divergent.search.progress import Progress
from neuro_divergent.search.rungs import Rule, Stage, rule_of
from neuro_divergent.search.searches import COSTS, MultiObjectiveSearch
from neuro_divergent.search.settings import Search
from neuro_divergent.search.study import EXCLUDED, STACK, Trials, best_of, quiet, refuse_all_failed
from neuro_divergent.search.work import Order, Outcome, Wanted, Workshop, order_text, outcomes_from, work
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.config.training_config import TrainingConfig

if TYPE_CHECKING:
    from neuro_divergent.search.result import SearchResult

log = logging.getLogger(__name__)

STACK_OF_ANY, STACK_OF_ADAPTIVE = 16, 4
"""Trials that are trained together: many if trials do not depend on earlier results, few if they do."""
BATCH = 16
"""Trials that a deterministic search asks for at once."""
MANY_TRAININGS = 1000
"""More trainings than this are announced as a warning, so that they are seen."""
TICK = 0.5
"""Seconds between two looks at the clock while trials run."""


def run_search(search: Search, data: Any, resume: str | None, columns: Mapping[str, Any]) -> SearchResult:
    """Run a search, or go on with it, and return its result."""
    require("optuna", extra="search", purpose="A search")
    from neuro_divergent.search.result import SearchResult, score_winner

    check_arguments(columns, Search)
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    search, model = _completed(search)
    plan, nested = make_plan(search, model, table)
    _announce(search, plan)
    directory, cleanup = _directory(search)
    check_resume(resume, directory)
    document = document_of(search, plan, table)
    kept = read_document(directory)
    if kept is not None:
        refuse_other_study(kept, document, directory)
    else:
        write_plan(directory, document, plan)
    with quiet():
        engine = Engine(search, plan, directory)
        try:
            engine.run()
        finally:
            engine.close()
    result = SearchResult.load(directory)
    if cleanup is not None:
        weakref.finalize(result, cleanup)
    if nested is not None:
        score_winner(result, table, nested)
    return result


def _completed(search: Search) -> tuple[Search, Model]:
    """The search with its space, checked, and a model that shows the horizon."""
    if search.space is None:
        assert search.model is not None
        search = search.replace(space=search.model.search_space(search.config))
    space = search.space
    assert space is not None
    space.check(search.model, search.config)
    model = search.model or space.apply(next(space.grid(1, most=None)), None, search.config)[0]
    return search, model


def _announce(search: Search, plan: Plan) -> None:
    """Say how many trainings are coming, before they start."""
    count = search.budget * len(plan.parts)
    level = logging.WARNING if count > MANY_TRAININGS else logging.INFO
    more = f": {search.budget:,} trials × {len(plan.parts)} folds and seeds" if len(plan.parts) > 1 else ""
    log.log(
        level, "%s trainings are coming%s; the study may use %.1f GB of disk", f"{count:,}", more, search.max_disk / 1e9
    )


def _directory(search: Search) -> tuple[Path, Callable[[], None] | None]:
    if search.directory is not None:
        search.directory.mkdir(parents=True, exist_ok=True)
        return search.directory, None
    folder = tempfile.TemporaryDirectory(prefix="neuro-divergent-search-", ignore_cleanup_errors=True)
    return Path(folder.name), folder.cleanup


@dataclass
class _Running:
    """A trial that this process works on."""

    wanted: Wanted
    stage: Stage
    begun: float = field(default_factory=time.monotonic)
    batch: int = -1
    """The first number of its group, in a deterministic search."""


@dataclass
class _Slot:
    """An executor, and the group of trials that it has."""

    executor: Any
    future: Future[Any] | None = None
    group: list[_Running] = field(default_factory=list)
    forget: list[int] = field(default_factory=list)


class Engine:
    """Runs the trials of a search.

    Args:
        search: what is searched.
        plan: rows, folds and seeds.
        directory: the directory of the study.
        work: does an order in this process instead of training, for measurements of the engine itself.
    """

    def __init__(
        self, search: Search, plan: Plan, directory: Path, do: Callable[[Order], dict[int, Outcome]] | None = None
    ) -> None:
        self.search, self.plan, self.directory = search, plan, directory
        self.rule, pruner = rule_of(search, len(plan.folds))
        self.deadline = None if search.timeout is None else time.monotonic() + search.timeout
        self.trials = Trials(search, directory, plan, pruner)
        self.workshop = Workshop(directory, plan)
        self._do = do or self.workshop.do
        self.slots = self._made_slots()
        self.progress = Progress(search.progress, search.metric, search.budget, self.deadline)
        self._queue: list[list[_Running]] = []
        self._collected: list[tuple[_Slot, _Running, Outcome]] = []
        self._closing = self._stopped = False
        self._counts = {"done": 0, "pruned": 0, "failed": 0}
        self._best: tuple[float, int] | None = None
        self._without_gain = 0
        self._known()

    def _known(self) -> None:
        """Take over what earlier sessions, or other processes, have found."""
        trials = self.trials.all()
        for one in sorted((one for one in trials if one.state.is_finished()), key=lambda one: one.number):
            if EXCLUDED not in one.user_attrs:
                value = one.values[0] if one.state.name == "COMPLETE" else None
                self._count(one.state.name, one.number, value)
        self.progress.before = self._counts["done"]

    # Executors

    def _made_slots(self) -> list[_Slot]:
        search = self.search
        jobs = (
            search.n_jobs
            if search.n_jobs > 0
            else len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        wanted = jobs > 1 or search.timeout is not None or search.trial_timeout is not None
        self.in_processes = wanted and self._can_leave(jobs)
        if not self.in_processes:
            return [_Slot(InlineExecutor())]
        return [_Slot(ProcessExecutor()) for _ in range(jobs)]

    def _can_leave(self, jobs: int) -> bool:
        """Whether trials can be handed to other processes; if they must be and cannot, the search is refused."""
        search = self.search
        found = not_in_files(search.config, search.model, search.scoring)
        own = search.model is not None and type(search.model).__module__ == "__main__"
        if not found and not own:
            return True
        what = (
            f"your own callables ({', '.join(found)})"
            if found
            else f"the class {type(search.model).__name__} of your script"
        )
        if jobs > 1:
            raise ConfigError(f"other processes get trials as files, which cannot contain {what}. Use n_jobs=1")
        if search.trial_timeout is not None:
            raise ConfigError(
                f"trial_timeout ends a process, which gets trials as files, and these cannot contain {what}. Leave "
                "trial_timeout out"
            )
        log.info(
            "trials run in this process, because files cannot contain %s: the timeout is checked between trials", what
        )
        return False

    def close(self) -> None:
        """End the executors and give all claims up."""
        for slot in self.slots:
            slot.executor.shutdown(wait=True, cancel_futures=True)
        self.trials.close()

    # The loop

    def run(self) -> None:
        """Run until the budget, the time or the patience is used up."""
        try:
            while True:
                self._fill()
                busy = [slot for slot in self.slots if slot.future is not None]
                if not busy:
                    if self._out_of_time() or self._finished():
                        break
                    continue
                self._wait(busy)
        except BaseException:
            if not self.in_processes:
                self.workshop.save_all()
            raise
        finally:
            self._show(last=True)
        self._conclude()

    def _wait(self, busy: Sequence[_Slot]) -> None:
        futures = {slot.future: slot for slot in busy}
        timed = self.deadline is not None or self.search.trial_timeout is not None
        barrier = self.search.deterministic
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=TICK if timed else None, return_when=FIRST_COMPLETED)
            self._show()
            if self._out_of_time():
                self._stop_all()
                return
            pending -= self._end_slow({future: futures[future] for future in pending})  # type: ignore[arg-type]
            if not barrier and len(pending) < len(futures):
                break
        for slot in busy:
            if slot.future is not None and slot.future.done():
                self._collected += self._collect(slot)
        if barrier and (self._queue or any(slot.future is not None for slot in self.slots)):
            return
        # A deterministic search judges a whole batch, in the order of its trials.
        collected, self._collected = sorted(self._collected, key=lambda one: one[1].wanted.number), []
        for slot, running, outcome in collected:
            self._judge(slot, running, outcome)

    def _out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _stop_all(self) -> None:
        """End all processes. Their trials can go on later from their last checkpoint."""
        self._stopped = True
        for slot in self.slots:
            slot.executor.kill()
            for running in slot.group:
                self.trials.claims.release(running.wanted.number)
            slot.future, slot.group = None, []
        self._queue = []

    def _end_slow(self, pending: Mapping[Future[Any], _Slot]) -> set[Future[Any]]:
        """End the processes of trials that take longer than they may; return their futures."""
        limit = self.search.trial_timeout
        ended: set[Future[Any]] = set()
        for future, slot in pending.items():
            if limit is not None and time.monotonic() - min(one.begun for one in slot.group) > limit:
                slot.executor.kill()
                wait([future], timeout=5.0)
                ended.add(future)
        return ended

    def _finished(self) -> bool:
        """Whether nothing is left to do. At the end, the best of each rung go on first."""
        if self.rule.pauses and not self._closing and not self._stopped:
            self._closing = True
            return False
        return True

    # Groups of trials

    def _size(self) -> int:
        if self.search.stacked is False or self._measures_time():
            return 1
        return STACK_OF_ADAPTIVE if self.search.adaptive or self.rule.pauses else STACK_OF_ANY

    def _measures_time(self) -> bool:
        return isinstance(self.search, MultiObjectiveSearch) and COSTS[0] in self.search.objectives

    def _fill(self) -> None:
        """Give each idle executor a group."""
        idle = [slot for slot in self.slots if slot.future is None]
        if not idle or self._out_of_time() or self._stopped:
            return
        if self.search.deterministic and len(idle) == len(self.slots) and not self._queue:
            self._queue = self._batch()
        for slot in idle:
            if not slot.group and self._queue:
                slot.group = self._queue.pop(0)
            elif not slot.group and not self.search.deterministic:
                slot.group = self._next_group()
            if slot.group:
                self._submit(slot)

    def _batch(self) -> list[list[_Running]]:
        """The groups of the next batch of a deterministic search, written down before they start."""
        found: list[_Running] = []
        groups: list[list[_Running]] = []
        while len(found) < BATCH:
            group = self._next_group()
            if not group:
                break
            found += group
            groups.append(group)
            if self._closing:
                break
        for group in groups:
            members = [one.wanted.number for one in group]
            for one in group:
                one.batch = members[0]
                self.trials.note(one.wanted.number, STACK, members)
        return groups

    def _next_group(self) -> list[_Running]:
        """Trials that are promoted, or that another process left, or new ones."""
        size = self._size()
        with self.trials.claims.asking():
            left = self._left_over(size) or self._promoted(size)
        if left:
            return left
        if self._closing or self._patience_over():
            return []
        return [run for number, point in self.trials.ask(size) if (run := self._started(number, point)) is not None]

    def _patience_over(self) -> bool:
        limit = self.search.early_stopping
        return limit is not None and self._without_gain >= limit

    def _left_over(self, size: int) -> list[_Running]:
        """Trials whose process was killed before their first pause."""
        left = [one for one in self.trials.abandoned() if not (self.rule.pauses and one.intermediate_values)]
        if left and self.search.deterministic:  # trained together again, as it was written down
            members = left[0].user_attrs.get(STACK, [left[0].number])
            left = [one for one in left if one.number in members]
        stage = None if not left else self.rule.following(left[0])
        return self._taken([one.number for one in left if self.rule.following(one) == stage][:size])

    def _promoted(self, size: int) -> list[_Running]:
        """Paused trials that go on. Members of a group have the same next stage."""
        if not self.rule.pauses:
            return []
        trials = {one.number: one for one in self.trials.all()}
        numbers = self.rule.promotable(list(trials.values()), self.trials.sign, closing=self._closing)
        free = [number for number in numbers if number not in self.trials.claims.held]
        same = [one for one in free if self.rule.following(trials[one]) == self.rule.following(trials[free[0]])]
        return self._taken(same[:size])

    def _taken(self, numbers: Sequence[int]) -> list[_Running]:
        found = []
        for trial in self.trials.take(numbers):
            stage = self.rule.following(trial)
            run = self._started(trial.number, self.trials.point(trial), stage)
            if run is not None:
                found.append(run)
        return found

    def _started(self, number: int, point: dict[str, Any], stage: Stage | None = None) -> _Running | None:
        """A trial that is ready to be trained; None if its point is impossible, which is a failure."""
        try:
            model, config = self.search.space.apply(point, self.search.model, self.search.config)  # type: ignore[union-attr]
        except NeuroDivergentError as error:
            self._fail(number, first_line(error))
            return None
        return _Running(Wanted(number, model, self._trained_as(config)), stage or self.rule.stages(number)[0])

    def _trained_as(self, config: TrainingConfig) -> TrainingConfig:
        """The configuration of a trial: small trainings are not worth a compiler, and processes share the cores."""
        changes: dict[str, Any] = {"compile": False} if config.compile == "auto" else {}
        if config.threads == "auto" and (self.in_processes or self.search.deterministic):
            changes["threads"] = 1
        return config.replace(**changes) if changes else config

    def _submit(self, slot: _Slot) -> None:
        stage = slot.group[0].stage
        order = Order(
            trials=tuple(one.wanted for one in slot.group),
            share=stage.share,
            folds=stage.folds,
            save=self.rule.pauses or self.search.deterministic,
            drop=self.search.deterministic,
            keep=self._bound(),
            forget=tuple(slot.forget),
            stacked=self.search.stacked if self._size() > 1 or len(self.plan.parts) > 1 else False,
            checkpoint_every=self.search.checkpoint_every,
        )
        slot.forget = []
        if self.in_processes:
            slot.future = slot.executor.submit(work, str(self.directory.resolve()), order_text(order))
        else:
            slot.future = _done(self._do, order)

    def _bound(self) -> dict[str, float] | None:
        """Which finished trials may be the best. With several objectives all are kept until the front is known."""
        if isinstance(self.search, MultiObjectiveSearch):
            return None
        name, direction = next(iter(self.search.directions.items()))
        if self._best is None:
            return None
        return {name: self._best[0]} if direction == "minimize" else {f"-{name}": -self._best[0]}

    # Outcomes

    def _collect(self, slot: _Slot) -> list[tuple[_Slot, _Running, Outcome]]:
        """The outcomes of a slot's group."""
        assert slot.future is not None
        future, group = slot.future, slot.group
        slot.future, slot.group = None, []
        try:
            result = future.result()
        except WorkerDiedError as error:
            return [(slot, one, self._died(slot, one, len(group), str(error))) for one in group]
        outcomes = outcomes_from(result) if isinstance(result, str) else result
        return [(slot, one, outcomes[one.wanted.number]) for one in group]

    def _died(self, slot: _Slot, running: _Running, size: int, why: str) -> Outcome:
        """A trial whose process ended. If it was not alone there, it is tried again alone."""
        limit = self.search.trial_timeout
        if limit is not None and time.monotonic() - running.begun > limit:
            why = f"it took longer than trial_timeout, {in_words(limit)}"
        if size > 1:
            self._queue_again(running)
            return Outcome(error="")
        return Outcome(error=why)

    def _queue_again(self, running: _Running) -> None:
        running.begun = time.monotonic()
        self._queue.append([running])

    def _judge(self, slot: _Slot, running: _Running, outcome: Outcome) -> None:
        """Tell the study what became of a trial, and decide whether it goes on."""
        number = running.wanted.number
        if outcome.error is not None:
            if outcome.error:
                self._fail(number, outcome.error)
            return
        values = self._values(outcome)
        facts = {
            "seconds": round(outcome.seconds, 4),
            "steps": outcome.steps,
            "parameters": outcome.parameters,
            "scores": outcome.scores,
            "by_part": outcome.by_part,
        }
        if outcome.finished and not self._wilcoxon():
            self._complete(number, values, facts)
            return
        reported = self._stage_value(running.stage, outcome, values[0])
        trial = self.trials.report(number, running.stage.step, reported)
        if outcome.finished:
            self._complete(number, values, facts)
            return
        if self.rule.pauses:
            going = number in self.rule.promotable(self.trials.all(), self.trials.sign, closing=self._closing)
        else:
            going = not self.trials.should_prune(trial)
        following = self.rule.following(trial)
        if going and following is not None:
            running.stage = following
            self._go_on(slot, running)
            return
        slot.forget.append(number)
        if self.rule.pauses:
            self.trials.claims.release(number)
            self._prune_hopeless()
        else:
            self._prune(number, facts)

    def _go_on(self, slot: _Slot, running: _Running) -> None:
        """Let a trial go on where it is, with those of its group that go on, too."""
        if self.search.deterministic:  # any process may take it: it was saved
            before = next((group for group in self._queue if self._together(group[0], running)), None)
            if before is None:
                self._queue.append([running])
            else:
                before.append(running)
        elif slot.group and slot.group[0].stage != running.stage:
            self._queue_again(running)
        else:
            slot.group.append(running)

    def _together(self, one: _Running, other: _Running) -> bool:
        return one.stage == other.stage and one.batch == other.batch

    def _wilcoxon(self) -> bool:
        return self.rule.stages(0)[0].folds is not None

    def _stage_value(self, stage: Stage, outcome: Outcome, whole: float) -> float:
        """The score that is reported after a stage: that of the stage's fold, or of all folds."""
        if stage.folds is None:
            return whole
        seeds = len(self.plan.seeds)
        own = outcome.by_part[(stage.folds - 1) * seeds : stage.folds * seeds]
        return float(sum(part[self.search.metric] for part in own) / len(own))

    def _values(self, outcome: Outcome) -> list[float]:
        """The objectives of a trial."""
        metric = self.search.metric
        known = dict(outcome.scores) | {COSTS[0]: outcome.seconds, COSTS[1]: float(outcome.parameters)}
        if isinstance(self.search, MultiObjectiveSearch):
            from neuro_divergent.search.scoring import direction_of

            known["accuracy"] = (
                outcome.scores[metric] if direction_of(metric) == "maximize" else -outcome.scores[metric]
            )
        return [known[name] for name in self.search.directions]

    def _complete(self, number: int, values: Sequence[float], facts: dict[str, Any]) -> None:
        self.trials.tell(number, values, facts)
        best = self._best
        self._count("COMPLETE", number, values[0])
        if self._best != best and best is not None and self._best is not None and self._best[1] == number:
            disk.delete_trial(self.directory, best[1])
        disk.delete_checkpoints(self.directory, number)
        if isinstance(self.search, MultiObjectiveSearch):
            self._keep_front(number)
        self._tell_callbacks(number)

    def _prune(self, number: int, facts: dict[str, Any] | None) -> None:
        self.trials.prune(number, facts)
        self._count("PRUNED", number, None)
        disk.delete_trial(self.directory, number)
        self._tell_callbacks(number)

    def _fail(self, number: int, why: str) -> None:
        self.trials.fail(number, why)
        self._count("FAIL", number, None)
        disk.delete_trial(self.directory, number)
        self._tell_callbacks(number)

    def _prune_hopeless(self) -> None:
        """End the paused trials that cannot be promoted any more, and keep the others within the disk limit."""
        with self.trials.claims.asking():
            hopeless = self.rule.hopeless(self.trials.all(), self.trials.sign, self.search.budget)
            for trial in self.trials.take([one for one in hopeless if one not in self.trials.claims.held]):
                self._prune(trial.number, None)
            while disk.used(self.directory) > self.search.max_disk and self._prune_worst():
                pass

    def _prune_worst(self) -> bool:
        """End the paused trial with the worst score; False if there is none."""
        paused = [one for one in self.trials.abandoned() if one.intermediate_values]
        if not paused:
            return False
        worst = max(
            paused,
            key=lambda one: (one.last_step is None, self.trials.sign * list(one.intermediate_values.values())[-1]),
        )
        for trial in self.trials.take([worst.number]):
            log.warning(
                "trial %d was pruned, because the study may use %d bytes of disk", trial.number, self.search.max_disk
            )
            self._prune(trial.number, None)
            return True
        return False

    def _keep_front(self, number: int) -> None:
        """Delete the models of trials that are not on the Pareto front."""
        front = {one.number for one in self.trials.study.best_trials}
        for other in disk.numbers(self.directory):
            if other not in front and other not in self.trials.claims.held:
                disk.delete_trial(self.directory, other)

    def _count(self, state: str, number: int, value: float | None) -> None:
        self._counts["done"] += 1
        self._counts["pruned"] += state == "PRUNED"
        self._counts["failed"] += state == "FAIL"
        sign = self.trials.sign
        if value is not None and (self._best is None or sign * value < sign * self._best[0]):
            self._best, self._without_gain = (value, number), 0
        else:
            self._without_gain += 1

    def _tell_callbacks(self, number: int) -> None:
        if not self.search.callbacks:
            return
        trial = next(one for one in self.trials.all() if one.number == number)
        for callback in self.search.callbacks:
            if callback(self.trials.study, trial) is True:
                self._stopped = True

    def _show(self, *, last: bool = False) -> None:
        counts = self._counts
        self.progress.show(counts["done"], counts["pruned"], counts["failed"], self._best, last=last)

    def _conclude(self) -> None:
        """End paused trials, unless the search can go on later; refuse a search without any result."""
        if not self._stopped and not self._out_of_time():
            with self.trials.claims.asking():
                running = [one for one in self.trials.all() if one.state.name == "RUNNING"]
                abandoned = self.trials.abandoned()
                if len(abandoned) == len(running):  # another process may still promote them
                    for trial in self.trials.take([one.number for one in abandoned]):
                        self._prune(trial.number, None)
        trials = [one for one in self.trials.all() if EXCLUDED not in one.user_attrs]
        finished = [one for one in trials if one.state.is_finished()]
        if finished and all(one.state.name == "FAIL" for one in finished):
            refuse_all_failed(finished)
        if not finished and self._out_of_time():
            raise TrainingError(
                f"a search needs one trial that ends, but none did within timeout, {in_words(self.search.timeout or 0)}. "
                "Go on with resume='auto', or give it more time"
            )


def _done(do: Callable[[Order], dict[int, Outcome]], order: Order) -> Future[Any]:
    """A future that is done: the order was done in this process."""
    future: Future[Any] = Future()
    future.set_result(do(order))
    return future


__all__ = ["STUDY", "Engine", "Rule", "best_of", "run_search"]
