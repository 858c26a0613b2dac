"""From a naive training loop to all optimizations, rung by rung, and what activations cost in memory.

    python benchmarks/ladder.py [--epochs N] [--write]

Time: 1000 samples, a perceptron, the same number of epochs on every rung, the final loss of the last rung within 5 % of
the first one's (or below it). The first rung is a plain loop in eager float64 with batches of one sample on one thread
and an optimizer that walks over its parameters one by one. The target of 71 is the ladder of the specification.

Memory: bytes that the backward pass keeps, counted with saved-tensor hooks (each storage once; parameters and the batch
itself left out) for a network of nine layers, from float64 to float32 with activation checkpointing. The target is 75 %
less for 10-20 % more time than float32 without checkpointing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

import neuro_divergent as nd
from harness import Line, line, print_table, write
from neuro_divergent.training.step.activation_checkpointing import checkpointed

SAMPLES, INPUTS, WIDTH = 1000, 4, 64
SPEED_TARGET, MEMORY_TARGET, TIME_LIMIT = 71.0, 0.75, 0.20
CHOSEN = "float32, checkpoints every 1"


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, INPUTS, generator=generator, dtype=torch.float64)
    noise = 0.5 * torch.randn(SAMPLES, 1, generator=generator, dtype=torch.float64)
    return x, torch.sin(x[:, :2].sum(dim=1, keepdim=True)) + noise


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)]
    return nn.Sequential(*layers).to(dtype)


def full_loss(module: nn.Module) -> float:
    x, y = data()
    parameter = next(module.parameters())
    with torch.no_grad():
        return float((module(x.to(parameter.dtype)) - y.to(parameter.dtype)).double().square().mean())


def loop(dtype: torch.dtype, batch: int, epochs: int, *, rate: float, fused: bool) -> nn.Module:
    """A plain loop: shuffle, forward, backward, step."""
    x, y = (part.to(dtype) for part in data())
    module = network(dtype)
    optimizer = torch.optim.Adam(module.parameters(), lr=rate, fused=fused, foreach=False)
    generator = torch.Generator().manual_seed(1)
    for _ in range(epochs):
        for rows in torch.randperm(SAMPLES, generator=generator).split(batch):
            optimizer.zero_grad()
            (module(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()
    return module


def engine(batch: int, epochs: int, *, rate: float) -> nn.Module:
    """Ours: float32, fused optimizer, minibatches, all threads, with everything a run does besides."""
    module = network(torch.float32)
    config = nd.TrainingConfig(
        max_epochs=epochs,
        batch_size=batch,
        validation_split=None,
        optimizer=nd.Adam(learning_rate=rate),
        schedule=nd.OneCycle(),
        progress=False,
    )
    nd.Trainer(config).fit(module, data())
    return module


def rungs(epochs: int, threads: int) -> list[tuple[str, int, Callable[[], nn.Module]]]:
    """Name, threads, work. Rates follow the batch: √k for Adam, up to what the data bears.

    Our own rung goes back to one thread: a network this small loses more by sharing than it gains.
    """
    double, single = torch.float64, torch.float32
    return [
        ("naive: float64, batch 1", 1, lambda: loop(double, 1, epochs, rate=1e-3, fused=False)),
        ("minibatch: batch 100", 1, lambda: loop(double, 100, epochs, rate=1e-2, fused=False)),
        ("fused optimizer", 1, lambda: loop(double, 100, epochs, rate=1e-2, fused=True)),
        ("float32", 1, lambda: loop(single, 100, epochs, rate=1e-2, fused=True)),
        (f"parallel: {threads} threads", threads, lambda: loop(single, 100, epochs, rate=1e-2, fused=True)),
        ("our engine: one-cycle, batch 125", 1, lambda: engine(125, epochs, rate=2e-2)),
    ]


def climb(epochs: int) -> list[Line]:
    threads = torch.get_num_threads()
    results: list[dict[str, Any]] = []
    print(f"{SAMPLES} samples, {epochs} epochs, one perceptron of 2 × {WIDTH}")
    print(f"{'rung':<34} {'wall':>8} {'CPU':>8} {'faster':>8} {'loss':>8}")
    try:
        for name, used, work in rungs(epochs, threads):
            torch.set_num_threads(used)
            row = {"rung": name} | timed(work, 5 if results else 1)
            # Work of several threads is judged by the clock on the wall, the rest by what it really took.
            key = "cpu" if used == 1 else "wall"
            row["faster"] = (results[0] if results else row)[key] / row[key]
            results.append(row)
            print(f"{name:<34} {row['wall']:>8.3f} {row['cpu']:>8.3f} {row['faster']:>7.1f}× {row['loss']:>8.4f}")
    finally:
        torch.set_num_threads(threads)
    print()
    first, last = results[0], results[-1]
    lines = [line(f"{row['rung']}: times faster", row["faster"], note=f"{row['cpu']:.3g} s") for row in results[1:-1]]
    whole = f"{first['cpu']:.3g} s and {last['cpu']:.3g} s of CPU time"
    lines.append(line("the whole ladder: times faster", last["faster"], at_least=SPEED_TARGET, note=whole))
    losses = f"{last['loss']:.4f} and {first['loss']:.4f}"
    lines.append(line("its final loss over the naive one's", last["loss"] / first["loss"], at_most=1.05, note=losses))
    return lines


def timed(work: Callable[[], nn.Module], rounds: int) -> dict[str, float]:
    """The best wall and CPU seconds, and the loss over all samples afterwards."""
    wall = cpu = float("inf")
    loss = 0.0
    for _ in range(rounds):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        module = work()
        wall, cpu = min(wall, time.perf_counter() - begin), min(cpu, time.process_time() - begin_cpu)
        loss = full_loss(module)
    return {"wall": wall, "cpu": cpu, "loss": loss}


def deep(dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(128, 256)]
    for _ in range(7):
        layers += [nn.GELU(), nn.Linear(256, 256)]
    return nn.Sequential(*layers, nn.GELU(), nn.Linear(256, 1)).to(dtype)


def kept_bytes(module: nn.Module, x: Tensor) -> int:
    """Bytes of all tensors that a forward pass saves for the backward pass."""
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    own.add(x.untyped_storage().data_ptr())
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and storage.nbytes():
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module(x)  # alive until counted, so that no address is used twice
    total = sum(kept.values())
    del output
    return total


def memory_case(dtype: torch.dtype, every: int | None) -> tuple[int, Callable[[], float]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2048, 128, generator=generator, dtype=dtype)
    module = deep(dtype)
    optimizer = nd.AdamW().build(module)

    def step() -> float:
        begin = time.process_time()
        with ExitStack() as stack:
            if every is not None:
                stack.enter_context(checkpointed(module, every))
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()
        return time.process_time() - begin

    with ExitStack() as stack:
        if every is not None:
            stack.enter_context(checkpointed(module, every))
        return kept_bytes(module, x), step


def memory(rounds: int) -> list[Line]:
    cases = {
        "float64": memory_case(torch.float64, None),
        "float32": memory_case(torch.float32, None),
        CHOSEN: memory_case(torch.float32, 1),
        "float32, checkpoints every 2": memory_case(torch.float32, 2),
    }
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, (_, step) in cases.items():
            best[name] = min(best[name], step())
    whole, plain = cases["float64"][0], best["float32"]
    print("memory kept for the backward pass, 9 layers of 256, batch 2048, CPU time per step")
    found = {}
    for name, (kept, _) in cases.items():
        saved, extra = found[name] = 1 - kept / whole, best[name] / plain - 1
        print(
            f"{name:<30} {kept / 2**20:>7.1f} MiB  {saved:>5.0%} less  {best[name] * 1e3:>7.1f} ms  {extra:>+5.0%} time"
        )
    print()
    saved, extra = found[CHOSEN]
    return [
        line("float32: activation memory saved", 100 * found["float32"][0], unit="%"),
        line(f"{CHOSEN}: activation memory saved", 100 * saved, at_least=100 * MEMORY_TARGET, unit="%"),
        line(f"{CHOSEN}: more time than float32", 100 * extra, at_most=100 * TIME_LIMIT, unit="%"),
    ]


def main(argv: Sequence[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/ladder.json")
    arguments = parser.parse_args(argv)
    lines = climb(arguments.epochs)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lines += memory(arguments.rounds)
    torch.set_num_threads(threads)
    print_table(lines)
    if arguments.write:
        write("ladder", lines, "python benchmarks/ladder.py")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
