"""The work of an AutoForecaster, from the first model to the fitted ensemble.

|- portfolio, then search -| choose |- chosen models on all rows -|
0                       70-90 %                                 96 % of the time

Letters: M members, N windows, H steps, K columns of a forecast.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from neuro_divergent.core import files
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.core.runs.names import AUTO, FINAL, HELD_OUT_FORECASTS, MEMBER, MEMBERS, MODEL
from neuro_divergent.forecasting.fit.continue_training import shown
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.storage.save_load import load
from neuro_divergent.losses import MAE, Loss
from neuro_divergent.search.auto.auto_forecaster import AutoForecaster
from neuro_divergent.search.auto.crew import Crew, Line, Task
from neuro_divergent.search.auto.held_out import HeldOut
from neuro_divergent.search.auto.member import NOT_BEGUN, Outcome, Wanted, forecasts_at, place_of
from neuro_divergent.search.auto.more import More, can_search, unused_name
from neuro_divergent.search.auto.naive import MEANS, naive_forecaster, with_quantiles
from neuro_divergent.search.auto.portfolio import MOST_LOOKBACK, asked_levels, loss_for
from neuro_divergent.search.auto.profile import Profile
from neuro_divergent.search.auto.scores import Scorer
from neuro_divergent.training.config.other_process import own_modules

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]

WHOLE_SHARE = 0.96
"""Until this share of the time everything is finished."""
REFIT_SHARE, REFIT_MEMBERS = 0.4, 5
"""Seconds of a training on all rows, as a share of the first one; and of how many members it is expected."""
LARGEST_REFIT_SHARE = 0.3
"""At most this share of the time is kept for the trainings on all rows."""
AHEAD = 2.0
"""An early model may take so many times the time that would be its share if all took the same."""
LEAST_SECONDS = 0.3
"""With less time left nothing is begun."""
LEAST_SEARCHED = 2
"""At most as many settings are searched as there are selection windows, and at least so many: a few windows cannot tell
which of many settings is best."""
LEAST_FINE_TUNING = 3
"""A fine-tuning of fewer steps is left out."""


@dataclass
class Member:
    """A model of the portfolio or of the search, and what is known of it."""

    number: int
    wanted: Wanted
    outcome: Outcome | None = None
    selection: Floats | None = None
    """[N, H, K] its forecasts of the windows that choose."""
    final: Floats | None = None
    """[N, H, K] its forecasts of the windows that only score."""
    badness: float = float("inf")
    fitted: Forecaster | None = None
    """The naive forecasts, which need no training."""

    @property
    def name(self) -> str:
        """Its name in the leaderboard."""
        return self.wanted.name

    @property
    def scored(self) -> bool:
        """Whether it has a finite score."""
        return self.selection is not None and bool(np.isfinite(self.badness))


class Engine:
    """One run of an AutoForecaster."""

    def __init__(
        self,
        settings: AutoForecaster,
        held: HeldOut,
        profile: Profile,
        wanted: list[Wanted],
        left_out: dict[str, str],
        directory: Path,
        begun: float,
    ) -> None:
        self.settings, self.held, self.profile, self.directory, self.begun = settings, held, profile, directory, begun
        self.left_out = left_out
        self._wanted = wanted
        self.loss: Loss = loss_for(settings.metric_name, settings.level) or MAE()
        self.members: list[Member] = []
        self.ended = False
        self._crew: Crew | None = None
        self._more: list[More] = []
        self._line = Line(settings.progress, settings.metric_name)

    def run(self) -> None:
        """Train the portfolio, and search with the time that is left."""
        season = self.profile.season
        naive = [self._naive(one) for one in sorted({1, season}, reverse=True)]
        means = [self._naive(season, mean) for mean in MEANS if self._room(mean * season)]
        level = asked_levels(self.settings)
        self.columns = naive[0].columns(list(level)) if level else naive[0].columns().point
        self.choosing, self.judging = (self._scorer(part) for part in (self.held.selection, self.held.final))
        trainable = len(self.held.selection) > 0
        for fitted in naive:
            self._add_naive(fitted, "naive", scored=trainable)
        if trainable:
            for fitted in means:
                self._add_naive(fitted, "mean", scored=True)
            self._register(self._wanted)
            self._train()
        else:
            why = f"no series has the {2 * self.settings.h + 1} rows that a training and a window to score it need"
            self.left_out |= {one.name: why for one in self._wanted}

    def _scorer(self, origins: Any) -> Scorer:
        return Scorer(origins, self.profile.season, self.settings.metric, self.columns)

    def close(self) -> None:
        """End the worker processes and the progress line."""
        if self._crew is not None:
            self._crew.close()
        self._line.close()

    @property
    def limit(self) -> float:
        """The time for everything, in seconds."""
        return float(self.settings.time_limit)

    def until(self, share: float) -> float:
        """The moment at which a share of the time is used up."""
        return self.begun + share * self.limit

    # --- members

    def _room(self, rows: int) -> bool:
        """Whether a typical series has so many rows before its held-out windows."""
        return rows <= min(self.profile.typical, MOST_LOOKBACK)

    def _naive(self, season: int, mean: int = 1) -> Forecaster:
        return naive_forecaster(self.held.table, self.settings.h, season, self.loss, self.settings.seed, mean)

    def _add_naive(self, fitted: Forecaster, source: str, *, scored: bool) -> None:
        if fitted.loss.probabilistic:
            with_quantiles(fitted, self.held)
        one = Member(-1, Wanted(fitted.model, fitted.config, fitted.model.name, source), fitted=fitted)
        self.members.append(one)
        if scored:
            level, held = asked_levels(self.settings), self.held
            self._scored(one, forecasts_at(fitted, held.selection, level), forecasts_at(fitted, held.final, level))

    def _scored(self, one: Member, selection: Floats, final: Floats) -> None:
        one.selection, one.final = selection, final
        one.badness = self.choosing.badness(selection)

    def _register(self, wanted: list[Wanted]) -> None:
        """Give every model of the portfolio a directory, and find those that an earlier session has trained."""
        known = sorted(int(name) for name in files.names(self.directory / MEMBERS))
        spent = [self._known(number) for number in known]
        self.begun -= max(spent, default=0.0)  # a model that was not finished has used time, too
        for number, one in enumerate(wanted):
            if number not in known:
                self._new(number, one)

    def _known(self, number: int) -> float:
        """Take over a member of an earlier session. Returns the seconds of one that was not finished."""
        place = place_of(self.directory, number)
        if not (place / MEMBER).exists():
            return 0.0
        document = parse_json(plain_bytes(place / MEMBER, MAX_JSON_BYTES), MEMBER)
        one = Member(number, Wanted.from_dict(document["wanted"]))
        self.members.append(one)
        outcome = Outcome.read(place)
        if outcome is None:
            return float(document.get("spent", 0.0))
        self._take(one, outcome)
        return 0.0

    def _new(self, number: int, wanted: Wanted) -> Member:
        one = Member(number, wanted)
        files.write_json(place_of(self.directory, number) / MEMBER, {"wanted": wanted.to_dict()})
        self.members.append(one)
        return one

    def _take(self, one: Member, outcome: Outcome) -> None:
        """Take over what became of a training."""
        one.outcome = outcome
        if outcome.error is not None:
            return
        data = plain_bytes(place_of(self.directory, one.number) / HELD_OUT_FORECASTS, 1 << 31)
        arrays = safetensors.numpy.load(data)
        self._scored(one, arrays["selection"], arrays["final"])
        if not np.isfinite(one.badness):
            finite = bool(np.isfinite(arrays["selection"]).all())
            outcome.error = "its score is not defined" if finite else "its forecasts are not finite"

    # --- training

    @property
    def crew(self) -> Crew:
        """The workers."""
        if self._crew is None:
            self._crew = Crew(self.directory, self.settings.n_jobs)
        return self._crew

    def _train(self) -> None:
        """Train the portfolio in its order, then search, until the time for it is used up."""
        self._waiting = sorted((one for one in self.members if one.outcome is None and one.fitted is None),
                               key=lambda one: one.number)  # fmt: skip
        if self._left() < LEAST_SECONDS:
            return
        self.crew.work(self._next, self._done, self.until(WHOLE_SHARE))

    def _left(self) -> float:
        """Seconds in which models may still be trained, before the chosen ones are trained on all rows."""
        done = [one for one in self.members if one.scored and one.outcome is not None]
        likely = sorted(done, key=lambda one: one.badness)[:REFIT_MEMBERS]
        needed = 0.5 + REFIT_SHARE * sum(one.outcome.seconds for one in likely if one.outcome) / self.crew.size
        if not done:
            needed = LARGEST_REFIT_SHARE * self.limit
        kept = min(needed + 0.02 * self.limit, LARGEST_REFIT_SHARE * self.limit)
        return self.until(WHOLE_SHARE) - kept - time.perf_counter()

    def _next(self, _: float, busy: int) -> Task | None:
        left = self._left()
        if left < LEAST_SECONDS:
            return None
        if self._waiting:
            one = self._waiting.pop(0)
            share = AHEAD * left * self.crew.size / (len(self._waiting) + 1 + busy)
            return self._task(one, min(left, share))
        return self._search(left)

    def _task(self, one: Member, seconds: float) -> Task:
        modules = sorted(own_modules([[one.wanted.model, one.wanted.config]])) if self.crew.size > 1 else []
        return Task("work", {"number": one.number, "seconds": seconds, "modules": modules}, seconds)

    def _done(self, number: int, found: dict[str, Any] | None, error: str | None) -> bool:
        """Take over a finished training, and tell the callbacks. True if one of them ends the work."""
        one = next(one for one in self.members if one.number == number)
        self._take(one, Outcome(**found) if found is not None else Outcome(error=error))
        for more in self._more:
            more.tell(one.name, one.badness if one.scored else None)
        self._note_spent()
        ended = sum(one.outcome is not None for one in self.members)
        best = min((one for one in self.members if one.scored), key=lambda one: one.badness, default=None)
        if best is not None and best.selection is not None:
            left = self.begun + self.limit - time.perf_counter()
            count = sum(one.fitted is None for one in self.members)
            self._line.show(ended, count, best.name, self.choosing.value(best.selection), left)
        row = {
            "model": one.name,
            "selection": self.choosing.value(one.selection) if one.selection is not None else None,
            "seconds": one.outcome.seconds if one.outcome else None,
            "note": (one.outcome.error if one.outcome else None) or "",
            "best": None if best is None else best.name,
        }
        self.ended = sum(callback(row) is True for callback in self.settings.callbacks) > 0 or self.ended
        return self.ended

    def _note_spent(self) -> None:
        document = parse_json(plain_bytes(self.directory / AUTO, MAX_JSON_BYTES), AUTO)
        files.write_json(self.directory / AUTO, document | {"spent": time.perf_counter() - self.begun})

    # --- search

    def _search(self, left: float) -> Task | None:
        """A further setting of one of the best models, if a training of it fits into the time that is left."""
        if not self.settings.search or not can_search():
            return None
        done = [one for one in self.members if one.scored and one.fitted is None]
        searched = sum(one.wanted.source == "search" for one in self.members)
        if searched >= max(LEAST_SEARCHED, len(self.held.selection)):
            return None
        best = sorted((one for one in done if one.wanted.source != "search"), key=lambda one: one.badness)[:2]
        if not best:
            return None
        if not self._more:
            self._more = [self._around(one) for one in best]
        turn = searched % len(self._more)
        for more in self._more[turn:] + self._more[:turn]:  # the other one may fit if this one does not
            needed = self._seconds(more.base.name)
            if left >= needed + 1.0:
                break
        else:
            return None
        wanted = more.ask(unused_name(more.base.model.name, [one.name for one in self.members]))
        if wanted is None:
            return None
        one = self._new(1 + max(one.number for one in self.members), wanted)
        return self._task(one, min(left, 3.0 * needed + 1.0))

    def _seconds(self, name: str) -> float:
        """How long the training of a member took."""
        return next(one.outcome.seconds for one in self.members if one.name == name and one.outcome is not None)

    def _around(self, one: Member) -> More:
        more = More(one.wanted, self.settings.seed)
        more.begin(one.badness)
        for other in self.members:
            if other.wanted.source == "search" and other.scored and other.wanted.model.kind == one.wanted.model.kind:
                more.told(other.wanted.point or {}, other.badness)
        return more

    # --- the chosen models on all rows

    def refit(self, chosen: list[Member]) -> dict[str, Forecaster]:
        """The chosen members with weights from all rows, as far as the time allows, else without the last ones."""
        deadline = self.until(WHOLE_SHARE)
        waiting = [one for one in chosen if one.fitted is None
                   and not (place_of(self.directory, one.number) / FINAL).exists()]  # fmt: skip

        def following(left: float, busy: int) -> Task | None:
            if not waiting:
                return None
            one = waiting.pop(0)
            seconds = max(0.0, min(left, AHEAD * left * self.crew.size / (len(waiting) + 1 + busy)))
            assert one.outcome is not None
            steps = int((0.7 * seconds - 0.3) / max(one.outcome.step_seconds, 1e-6))
            order = {"number": one.number, "steps": steps if steps >= LEAST_FINE_TUNING else 0}
            modules = sorted(own_modules([[one.wanted.model, one.wanted.config]])) if self.crew.size > 1 else []
            return Task("final", order | {"modules": modules}, max(seconds, 1.0))

        def done(number: int, _: dict[str, Any] | None, error: str | None) -> bool:
            if error is not None:
                log.warning("member %d could not be trained on all rows: %s", number, error)
            return False

        if waiting:
            self.crew.work(following, done, deadline)
        return {one.name: self._final(one) for one in chosen}

    def _final(self, one: Member) -> Forecaster:
        if one.fitted is not None:
            return one.fitted
        place = place_of(self.directory, one.number)
        there = (place / FINAL).exists()
        fitted = load(place / (FINAL if there else MODEL))
        assert isinstance(fitted, Forecaster)
        if not there:
            return shown(fitted, self.held.table)
        fitted.data = fitted.in_own_codes(self.held.table)
        return fitted

    def note(self, one: Member) -> str:
        """Why a member was not scored."""
        if one.outcome is not None and one.outcome.error is not None:
            return one.outcome.error
        return "" if one.scored else NOT_BEGUN
