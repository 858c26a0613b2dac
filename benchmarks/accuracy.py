"""How accurate the models are on real data, beside the published figures.

    python benchmarks/accuracy.py [--quick] [--only NAME,...] [--data DIRECTORY] [--json PATH] [--page PATH]

The data folder holds etth1, m4_hourly_*, m4_yearly_*, m5_tail_* and vic_elec_30min as Parquet files. Seeds are fixed.
Settings are those of the papers or were chosen on the validation part of each set (`--validation` scores that part
instead of the test part); docs/accuracy.md says where a second try was needed. `--quick` takes the linear models, NHITS
and one transformer on ETTh1, and NHITS on M4 hourly, in less than 15 minutes on two cores. `--only` takes names of
cases (`--list` shows them) or of groups such as etth1. Ratio is ours over published; a bound that is missed says so.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from _accuracy_cases import CASES, Case, Figure
from harness import Line, machine, write

HERE = Path(__file__).resolve().parent
COMMAND = "python benchmarks/accuracy.py --data DIRECTORY"
HEADS = ("set", "model", "measure", "ours", "published", "ratio", "bound", "verdict", "seconds")


def main(argv: Sequence[str] | None = None) -> list[Figure]:
    arguments = parsed(argv)
    torch.set_num_threads(arguments.threads)
    figures: list[Figure] = []
    print_row(HEADS)
    for case in chosen(arguments.only, arguments.quick):
        begin = time.process_time()
        found = case.run(arguments.data, quick=arguments.quick, validation=arguments.validation)
        spent = time.process_time() - begin
        for figure in found:
            figure.seconds = spent if figure.seconds is None else figure.seconds
            print_row(cells(figure))
        figures += found
    report(arguments, figures)
    return figures


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the short selection, under 15 minutes")
    parser.add_argument("--only", default="", help="names or groups of cases, with commas; * is a wildcard")
    parser.add_argument("--list", action="store_true", help="show the names and stop")
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data", help="where the files are")
    parser.add_argument("--validation", action="store_true", help="score the validation parts, on which settings rest")
    parser.add_argument("--threads", type=int, default=1, help="threads of the math library")
    parser.add_argument("--json", type=Path, help="the results file; figures of other cases in it are kept")
    parser.add_argument("--page", type=Path, help="write the table as a page of the documentation, too")
    arguments = parser.parse_args(argv)
    if arguments.list:
        parser.exit(message="".join(f"{case.group}/{case.name}\n" for case in CASES))
    return arguments


def chosen(only: str, quick: bool) -> list[Case]:
    """The cases of a selection, in the order of the list."""
    patterns = [part.strip().lower() for part in only.split(",") if part.strip()]
    unknown = [part for part in patterns if not any(matches(case, part) for case in CASES)]
    if unknown:
        raise SystemExit(f"there is no case named {', '.join(unknown)}; --list shows them")
    if patterns:
        return [case for case in CASES if any(matches(case, part) for part in patterns)]
    return [case for case in CASES if case.quick or not quick]


def matches(case: Case, pattern: str) -> bool:
    """Whether a pattern means the case: its name, its group, or both with a slash."""
    names = (case.name, case.group, f"{case.group}/{case.name}")
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for name in names)


def cells(figure: Figure) -> tuple[str, ...]:
    """One row of the table as text."""
    verdict = {True: "met", False: "missed", None: ""}[figure.passed]
    return (
        figure.data,
        figure.model,
        figure.measure,
        f"{figure.ours:.4g}",
        "-" if figure.published is None else f"{figure.published:.4g}",
        "-" if figure.ratio is None else f"{figure.ratio:.3f}",
        figure.bound_text or "-",
        verdict,
        "-" if figure.seconds is None else f"{figure.seconds:.0f}",
    )


def print_row(row: Sequence[str]) -> None:
    widths = (14, 18, 12, 8, 9, 6, 14, 7, 7)
    print("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def report(arguments: argparse.Namespace, figures: list[Figure]) -> None:
    """Write what was asked for; a file that is there keeps the cases that did not run this time."""
    missed = [figure for figure in figures if figure.passed is False]
    judged = [figure for figure in figures if figure.passed is not None]
    print(f"{len(judged) - len(missed)} of {len(judged)} bounds met")
    if arguments.validation:
        return
    merged = figures
    if arguments.json is not None:
        merged = updated(arguments.json, figures)
        lines = [as_line(figure) for figure in merged]
        path = write(
            arguments.json.stem, lines, "python benchmarks/accuracy.py --data DIRECTORY", arguments.json.parent
        )
        document = json.loads(path.read_text(encoding="utf-8")) | {"figures": [figure.to_dict() for figure in merged]}
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.page is not None:
        arguments.page.write_text(page(merged), encoding="utf-8")


def updated(path: Path, figures: list[Figure]) -> list[Figure]:
    """The figures of a file with the new ones in their places, in the order of the cases."""
    kept = [Figure(**item) for item in json.loads(path.read_text(encoding="utf-8"))["figures"]] if path.exists() else []
    every = {figure.key: figure for figure in (*kept, *figures)}
    groups = list(dict.fromkeys(case.group for case in CASES))
    return sorted(every.values(), key=lambda figure: groups.index(figure.group))


def as_line(figure: Figure) -> Line:
    """The figure as every benchmark's results file has it."""
    published = "" if figure.published is None else f"published {figure.published:g}"
    note = "; ".join(part for part in (published, figure.note) if part)
    return {
        "what": f"{figure.data}, {figure.model}: {figure.measure}",
        "figure": figure.ours,
        "unit": "",
        "target": figure.bound_text,
        "ok": figure.passed,
        "note": note,
    }


HEAD = """# Accuracy on real data

Measured with `python benchmarks/accuracy.py --data DIRECTORY`, case by case, on {date}.
Machine: {machine}.
One training with one seed for each line; seconds are CPU seconds of training and scoring on one thread, on a machine
that did other work at the same time. A bound that was missed says so.

- **ETTh1**: 96 steps ahead from the lookback beside the name; 8,640 hours to train, 2,880 to validate, 2,880 to test;
  scaled by the training part; every window of the test part is scored. A bound is 3 % above the published error; of
  PatchTST, whose published errors are 0.370 to 0.375, it is 3 % above the larger one. NHITS is trained on the
  validation part too, as it was for its published figure; the others are not.
- **M4 hourly**: 48 steps. **M4 yearly**: 6 steps. sMAPE over all series; published is the competition's winner.
- **M5 tail**: 28 days with day of the week, day of the month and month as columns known ahead; the bound is 0.85 of
  the error of the seasonal naive forecast (last week again). RMSSE is scaled by the error of the one-step naive
  forecast. The 386 items with less than 140 known days are left out.
- **Coverage**: the share of what happened inside the 80 % and 95 % intervals, in percent; "published" is the level.
  The time of an ensemble is the sum over its trainings: 600 core seconds are five minutes of two busy cores, which is
  computed and not timed.
- **neuralforecast** 3.3 on the same machine ([time to accuracy](benchmarks.md#time-to-accuracy)): NHITS on M4 hourly
  ends at a sMAPE of 16.43 with its defaults and of 12.1 tuned by hand, the LSTM at 14.97; NHITS on ETTh1 at a MAE of
  0.468 with a lookback of 336.

## How the settings were chosen

By the papers where they say it, else by the error on a stretch that is not the test part: the validation part of ETTh1,
the last horizon of the known rows of M4 and M5, the week before the test week of the generated panel. Where that
falls short:

- NHITS on ETTh1, DeepAR on the panel and DeepNPTS on all three sets were tested, missed a bound, were changed by what
  validation said, and were tested again. DeepAR's first result was 78.9 % and 91.5 %.
- NHITS was tested six times, in this order: MSE 0.412 (validation 0.683), 0.4094 (0.6692), 0.411 (0.6627), 0.3908
  (0.6786), 0.3987 (0.6759) and 0.3858, which is in the table. The second and the third did not scale their windows.
  When they had missed the bound although they were best on validation, scaled windows were preferred, as in the papers
  of the linear models; among about fifteen such settings the fifth is best on validation. The fourth differs from it
  in dropout alone (0.5 instead of 0.7): that it tests better was no reason to take it. The sixth follows the experiment
  that the published figure is from: Huber loss with a delta of 0.5, windows not scaled, dropout 0.5, trained on the
  validation part too. Of five such settings, compared on three stretches of 1,440 hours before the test part (7,200 to
  11,520), it is the best, at a mean of 0.5665; the experiment's own lookback of 672 has 0.592, and the fifth, not
  trained on the 1,440 hours just before each stretch, 0.598.
- DeepNPTS was tested three times. First 84.2 % and 96.0 % (panel), 89.2 % and 96.2 % (M4 hourly), 81.9 % and 93.7 %
  (vic_elec); then, trained otherwise, 83.1 % and 95.2 %, 90.0 % and 96.5 %, 81.6 % and 91.9 %. Both had a normal
  distribution, whose spread could not become smaller than the window's least value allowed. Now the spread has an
  offset and the distribution is Student's t; on validation that covered 80.1 % and 95.9 % (panel) and 80.9 % and 94.8 %
  (M4 hourly).
- The ensemble is the one that was planned before anything was tested, eight members of 4,000 steps; a smaller one of
  five members and 2,500 steps had been tested before it, at 9.07.
- PatchTST, TiDE, TSMixer and XLinear were run with one setting that was not tuned, with fewer steps than in the papers.
  TimesNet has smaller kernels and fewer steps; it sees one channel at a time and no calendar, where the paper's sees
  all seven and the calendar. It was tested three times: 0.407 after 300 steps, 0.4003 (validation 0.7055) after 1,200
  steps of 32 windows, and with the best of four settings on validation (0.6925; 800 steps of 128, squared errors
  counted after the scaling is undone), which is in the table.
- The settings of DeepAR's and TFT's intervals rest on the panel alone.

## Recurrent models, DeepAR and TFT

With their recipes and no further settings than the lookback, MASE on a stretch before the test part: the last 48 known
rows of 80 series of M4 hourly (lookback 336), the week before the test week of the panel (168), the 56 days before the
last 56 of vic_elec (336), the last 8 known quarters of 304 series of tourism (24). Every choice (lags, anchor, width,
layers, steps, rate) was made on these, with one seed: differences of a few hundredths may be chance. Empty cells were
not measured. Seconds are CPU seconds of training.

| model | M4 hourly | panel | vic_elec | tourism |
|---|---|---|---|---|
| seasonal naive | 1.185 | 0.997 | 0.632 | 1.190 |
| NHITS | 0.902 (anchor) | 0.786 | 0.417 | 1.112 |
| LSTM, before | 1.192, 104 s | | | |
| LSTM | 0.796, 15 s | 0.859, 14 s | 0.438 | 1.100 |
| GRU | 0.823 | 0.860 | | 1.122 |
| RNN | 0.821 | | | 1.127 |
| DeepAR | 0.895, 31 s | 0.882 | 0.813 | 1.125 |
| TFT | 0.934 after 400 steps | 0.891 | | 1.146 |

- LSTM on M4 hourly: before, two layers of 128 read 168 steps: 1.192, with an anchor 1.167. Lags, a lookback of 336 of
  which 48 steps are read one by one, and one layer of 64 came together: 0.878; with the anchor 0.845; with 1,000 steps
  instead of 500 0.796.
- DeepAR on M4 hourly: 1.468 with lags, two layers of 40 and 500 steps; 0.911 with one layer of 64 and 1,500 steps. That
  its head reads the lags beside the state made little difference then: 0.895, while sMAPE rose from 12.9 to 13.2.
- On vic_elec the data confirms a day but no week. The lag of a week, usual at this frequency, changed the LSTM's error
  from 0.492 to 0.438 and DeepAR's from 1.075 to 0.813. DeepAR stays behind the seasonal naive forecast there; why was
  not examined.
- Columns of the calendar help where there are dates: LSTM 0.859 to 0.796 on the panel (hour, dayofweek), 0.492 to 0.393
  on vic_elec (hour, dayofweek, dayofyear; without the lag of a week). They are not added by themselves.
- On the airline passengers, one series of 144 months, the result depends on the year: mean absolute errors of LSTM and
  GRU are 21 and 9 in the year before the last (25 and 10 without lags and anchor, with the old widths), but 27 and 34
  in the last one, where the old ones had less than 19.
- The test part of M4 hourly (414 series) was looked at after the choices, once for each model: LSTM, sMAPE 9.28 in
  19 s (before: 11.73 with a lookback of 168); DeepAR, 11.89 in 35 s (before: 18.34; gluonts 12.96).
- The intervals of DeepAR and TFT in the table below were measured before these models had lags.

"""


def page(figures: list[Figure]) -> str:
    """The documentation's page."""
    facts = machine()
    where = f"{facts['cpu']}, {facts['cores']} cores, torch {torch.__version__}"
    table = ["| " + " | ".join((*HEADS, "note")) + " |", "|" + "---|" * (len(HEADS) + 1)]
    table += ["| " + " | ".join((*cells(figure), figure.note)) + " |" for figure in figures]
    return HEAD.format(date=time.strftime("%Y-%m-%d"), machine=where) + "\n".join(table) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
