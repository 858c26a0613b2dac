"""How often the doctor is right, how often it is alarmed for nothing, whether its remedies help, and what it costs.

    python benchmarks/doctor.py --data ../shared/data             # faults, healthy runs, treatment, cost
    python benchmarks/doctor.py --data ../shared/data --only cost
    python benchmarks/doctor.py --data ../shared/data --only faults --keep /tmp/evidence    # goes on where it ended

Faults are those of `_doctor_cases.py`. The thresholds were set on its data sets TUNED_ON; the figures are those of
REPORTED_ON, which have decided nothing. A cause counts as found if it is among the first two verdicts.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import neuro_divergent as nd
from neuro_divergent.diagnostics.doctor.diagnose import judged
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare

try:
    import _doctor_cases as cases
    from harness import Line, line, print_table, write
except ImportError:  # imported as a package, by the tests
    from benchmarks import _doctor_cases as cases
    from benchmarks.harness import Line, line, print_table, write

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
TREATED = ("rate 1.0", "rate 0.2", "rate 1e-6", "large initial weights", "few rows, wide network", "no scaler")
"""The faults that `treat` has to mend."""
CLOSE = 1.05
"""A treated run is mended if its error is at most this many times that of the healthy run."""

Say = Callable[[str], None]


def faults(
    folder: Path, seeds: int, say: Say, names: tuple[str, ...] = cases.FAULTS_REPORTED, keep: Path | None = None
) -> dict[str, list[int]]:
    """For each fault, how often its cause was among the first two verdicts, and how often it was tried."""
    found: dict[str, list[int]] = {}
    for name, case in cases.faulty(names, folder, seeds):
        told = [verdict.cause for verdict in judged(cases.kept_evidence(name, case, keep)).verdicts]
        row = found.setdefault(name.split(" · ")[0], [0, 0])
        row[0], row[1] = row[0] + (case.cause in told[:2]), row[1] + 1
        if case.cause not in told[:2]:
            say(f"missed: {name} → {', '.join(told[:3])}")
    return found


def healthy(
    folder: Path, count: int, say: Say, names: tuple[str, ...] = cases.REPORTED_ON, keep: Path | None = None
) -> tuple[int, int]:
    """How many of the healthy runs, which beat the naive forecast, had any verdict, and how many there were."""
    alarms = tried = 0
    for name, case in cases.healthy(names, folder, count):
        if tried == count:
            break
        evidence = cases.kept_evidence(name, case, keep)
        if evidence.forecasts is None or not evidence.forecasts.mae < evidence.forecasts.naive:
            continue
        told = judged(evidence)
        tried, alarms = tried + 1, alarms + (not told.healthy)
        if not told.healthy:
            say(f"false alarm: {name} → {told.verdicts[0].line()}")
    return alarms, tried


def treated(
    folder: Path, seeds: int, say: Say, names: tuple[str, ...] = cases.FAULTS_REPORTED, keep: Path | None = None
) -> tuple[int, int]:
    """How many faulty trainings `nd.treat` brought close to the healthy validation loss, and how many there were."""
    good = tried = 0
    for name in names:
        frame, h, lookback = cases.table(name, folder)
        for kind, model in cases.models(h, lookback).items():
            for seed in range(1, seeds + 1):
                for fault in TREATED:
                    case = f"{fault} · {name} · {kind} · {seed}"
                    make = partial(_treated_ratio, cases.base(model, frame, seed), fault)
                    ratio = cases.kept(case, keep, make)
                    tried, good = tried + 1, good + (ratio <= CLOSE)
                    if ratio > CLOSE:
                        say(f"not mended: {case}: {ratio:.3f} of the healthy loss")
    return good, tried


def _treated_ratio(base: cases.Case, fault: str) -> float:
    """Validation loss of the treated training over that of the healthy one on the same rows, both of the weights that
    are returned; the held-out error where another loss or scaler makes the losses differ in kind."""
    case = cases.FAULTS[fault](base)
    mended = {"early_stopping": 10, "learning_rate": 2e-3, "gradient_clipping": 1.0}
    model = case.model.replace(scaler="standard")
    reference = model.fit(case.frame, nd.TrainingConfig(**case.config | mended), **case.columns)
    fitted = nd.treat(
        case.model, case.frame, nd.TrainingConfig(**case.config), begin_with=case.begin_with, **case.columns
    )
    if (fitted.config.loss, fitted.model.scaler) == (reference.config.loss, reference.model.scaler):
        return _validation_loss(fitted) / _validation_loss(reference)
    return _error(fitted) / _error(reference)


def _validation_loss(fitted: nd.Forecaster) -> float:
    """The validation loss of the returned weights: the lowest one if they were restored, else the last one."""
    losses = fitted.history.validation_loss
    return losses[-1] if fitted.history.best_epoch is None else min(losses)


def _error(fitted: nd.Forecaster) -> float:
    """Mean absolute error of the held-out rows, in units of the data: it can be compared across losses and scalers."""
    from neuro_divergent.diagnostics.doctor.forecast_facts import forecast_facts

    facts = forecast_facts(fitted, fitted.data)
    assert facts is not None
    return facts.mae


def cost(repeats: int) -> float:
    """Processor time of a step with the doctor over that of a bare step; both sides alternate."""
    data = nd.samples.hourly_panel(series=30, hours=600)
    model = nd.MLP(h=24, input_size=96, hidden_size=256)

    def seconds(callbacks: tuple[Any, ...]) -> float:
        config = nd.TrainingConfig(
            max_steps=1000, steps_per_epoch=50, batch_size=128, progress=False, compile=False, callbacks=callbacks
        )
        run = prepare(job_of(model, data, config.replace(early_stopping=None, refit=None)))
        begin = time.process_time()
        run.advance(1000)
        used = time.process_time() - begin
        run.close()
        return used

    seconds(())
    pairs = [(seconds(()), seconds((nd.Doctor(),))) for _ in range(repeats)]
    return sorted(watched / bare for bare, watched in pairs)[len(pairs) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--treat-seeds", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", choices=("faults", "healthy", "treat", "cost"))
    parser.add_argument("--keep", type=Path, help="folder that keeps the evidence, so that a run can go on later")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/doctor.json")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    lines: list[Line] = []
    if given.only in (None, "faults"):
        table = faults(given.data, given.seeds, print, keep=given.keep and given.keep / "faults")
        for name, (good, tried) in table.items():
            lines.append(line(f"found: {name}", good / tried, unit="", note=f"{good} of {tried}"))
        total = Counter({"good": sum(row[0] for row in table.values()), "tried": sum(row[1] for row in table.values())})
        share = total["good"] / total["tried"]
        lines.append(line("all faults found", share, at_least=0.95, note=f"{total['good']} of {total['tried']}"))
    if given.only in (None, "healthy"):
        alarms, tried = healthy(given.data, given.healthy, print, keep=given.keep and given.keep / "healthy")
        lines.append(line("false alarms in healthy runs", alarms / tried, at_most=0.02, note=f"{alarms} of {tried}"))
    if given.only in (None, "treat"):
        good, tried = treated(given.data, given.treat_seeds, print, keep=given.keep and given.keep / "treat")
        lines.append(line("trainings mended by treat", good / tried, at_least=0.85, note=f"{good} of {tried}"))
    if given.only in (None, "cost"):
        lines.append(line("step with the doctor over a bare step", cost(given.repeats), at_most=1.03, unit="x"))
    print_table(lines)
    if given.write:
        command = f"python benchmarks/doctor.py --seeds {given.seeds} --healthy {given.healthy} --write"
        write("doctor", lines, command=command, partial=given.only is not None)


if __name__ == "__main__":
    main()
