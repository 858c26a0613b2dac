"""What a batch of windows costs: against one plain gather of the same bytes, and against neuralforecast.

    python benchmarks/windows.py --peer-python PATH      # PATH: a Python that has neuralforecast

A plain gather is torch's index_select of 1024 rows of a contiguous [rows, L + H] matrix as large as the data. Ours
begins with a step number: shuffle, look-up, gather, batch. neuralforecast's is what its training step does before the
network sees anything: load a batch of series (its default of 32), make all windows, sample 1024 of them. Everything on
one thread; alternating rounds, the best of each; both sides with memory kept as in a training. Every case is set up
anew several times, because where its arrays happen to lie in memory alone makes a plain gather take 19 to 23 µs.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter, thread_time

import numpy as np
import torch

L, H, B = 96, 24, 1024
CASES = [(100, 800), (400, 800), (1_000, 800), (10_000, 800), (100_000, 300), (1, 1_000_000), (10, 100_000)]
STEPS = 256
SETUPS = 5


def best(functions: dict[str, Callable[[int], object]], rounds: int) -> dict[str, float]:
    """Microseconds per call: rounds of STEPS calls, alternating, the best round of each."""
    found = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            begin = thread_time()  # of this thread alone: other programs on the machine do not count
            for step in range(STEPS):
                function(step)
            found[name] = min(found[name], (thread_time() - begin) / STEPS * 1e6)
    return found


def ours(series: int, length: int, rounds: int, *, varied: bool) -> dict[str, float]:
    from neuro_divergent.data.store.store import SeriesStore
    from neuro_divergent.data.windows.samplers import Shuffled
    from neuro_divergent.data.windows.windows import Windows

    rng = np.random.default_rng(0)
    lengths = rng.integers(L + H + 1, 2 * length - L - H, series) if varied else np.full(series, length)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    y = rng.standard_normal(offsets[-1], dtype=np.float32)
    store = SeriesStore(ids=np.arange(series), offsets=offsets, y=y, start=np.zeros(series, np.int64), freq="1i")
    windows = Windows(store, lookback=L, horizon=H)
    sampler = Shuffled(len(windows), B, seed=0)
    steps = sampler.steps_per_epoch - 1
    matrix = torch.from_numpy(y)[: len(y) // (L + H) * (L + H)].view(-1, L + H)
    rows = [torch.from_numpy(rng.integers(0, len(matrix), B)) for _ in range(STEPS)]
    batch, count = windows.batches(sampler), itertools.count()  # epoch after epoch: nothing is asked for twice
    numbers = [sampler.numbers(0, step % steps).copy() for step in range(STEPS)]
    return best(
        {
            "plain": lambda step: matrix.index_select(0, rows[step]),
            "gather": lambda step: windows.gather(numbers[step]),
            "step": lambda _: batch(*divmod(next(count), steps)),
        },
        rounds,
    )


def peer() -> None:
    """Runs under the peer's Python: microseconds per step of neuralforecast's window creation."""
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import pandas as pd
    from neuralforecast.models import MLP
    from neuralforecast.tsdataset import TimeSeriesDataset, TimeSeriesLoader

    torch.set_num_threads(1)
    series, length = 400, 800
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(series), length),
            "ds": np.tile(np.arange(length), series),
            "y": np.random.default_rng(0).standard_normal(series * length, dtype=np.float32),
        }
    )
    dataset = TimeSeriesDataset.from_df(frame)[0]
    model = MLP(h=H, input_size=L, windows_batch_size=B, max_steps=1)
    loader = TimeSeriesLoader(dataset, batch_size=model.batch_size, shuffle=True)

    def step(batch: dict[str, object]) -> object:
        windows, static, static_cols, valid, weight, columns = model._create_windows(batch, step="train")
        chosen = torch.randperm(len(valid))[:B]
        return model._sample_windows(
            windows_temporal=windows,
            static=static,
            static_cols=static_cols,
            temporal_cols=columns,
            w_idxs=chosen,
            final_condition=valid,
            sample_weight=weight,
        )

    found = float("inf")
    for _ in range(5):
        begin, count = perf_counter(), 0
        for batch in loader:
            step(batch)
            count += 1
        found = min(found, (perf_counter() - begin) / count * 1e6)
    print(found)


def run_peer(python: str) -> float | None:
    if subprocess.run([python, "-c", "import neuralforecast"], capture_output=True, check=False).returncode:
        print(f"neuralforecast cannot be imported by {python}: the comparison with it is skipped.")
        return None
    done = subprocess.run([python, __file__, "--peer"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the peer's measurement failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/windows.json")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer()
        return
    from harness import line, write
    from neuro_divergent.training.process.malloc import kept_memory

    torch.set_num_threads(1)
    lines = []
    print(f"{B} windows of {L} + {H} rows, microseconds and ratio to a plain gather")
    print(
        f"{'series':>8} {'length':>14} {'plain':>8} {'gather':>8} {'step':>8} {'gather/plain':>13} {'step/plain':>11}"
    )
    for series, length in CASES:
        for varied in (False, True) if series > 1 else (False,):
            found = dict.fromkeys(("plain", "gather", "step"), float("inf"))
            for _ in range(SETUPS):
                with kept_memory():
                    once = ours(series, length, -(-arguments.rounds // SETUPS), varied=varied)
                found = {name: min(found[name], once[name]) for name in found}
            spread = f"{L + H + 1}-{2 * length - L - H}" if varied else str(length)
            row = f"{series:>8} {spread:>14} {found['plain']:>8.1f} {found['gather']:>8.1f} {found['step']:>8.1f}"
            ratio = found["step"] / found["plain"]
            print(f"{row} {found['gather'] / found['plain']:>13.2f} {ratio:>11.2f}")
            note = f"{found['step']:.1f} and {found['plain']:.1f} µs"
            lines.append(line(f"a batch over a plain gather, {series:,} × {spread}", ratio, at_most=2, note=note))
    theirs, mine = [], []
    for _ in range(3):
        with kept_memory():
            mine.append(ours(400, 800, arguments.rounds, varied=False)["step"])
        result = run_peer(arguments.peer_python)
        if result is None:
            break
        theirs.append(result)
    if theirs:
        ratio = min(theirs) / min(mine)
        print(f"neuralforecast, 400 series of 800: {min(theirs):.0f} us a step; ours {min(mine):.1f} us, ", end="")
        print(f"ratio {ratio:.0f}")
        lines.append(line("times faster than neuralforecast's windows", ratio, at_least=10))
    if arguments.write:
        write("windows", lines, command="python benchmarks/windows.py --peer-python PATH")


if __name__ == "__main__":
    main()
