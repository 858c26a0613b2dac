"""Memory that is kept between steps: fewer new pages, and given back at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SCRIPT = """
import gc, json, resource
import torch
import neuro_divergent as nd

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

class Faults(nd.Callback):
    def __init__(self):
        self.seen = []
    def on_batch_end(self, state):
        self.seen.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

faults = Faults()
module = torch.nn.Sequential(torch.nn.Linear(4, 2048), torch.nn.Tanh(), torch.nn.Linear(2048, 1))
x = torch.randn(8192, 4)
config = nd.TrainingConfig(
    max_steps=12, batch_size=4096, validation_split=None, early_stopping=None, progress=False,
    callbacks=(faults,), threads=1,
)
before = resident()
nd.Trainer(config).fit(module, (x, x[:, :1]))
gc.collect()
print(json.dumps({"faults": (faults.seen[-1] - faults.seen[3]) / (len(faults.seen) - 4), "kept": resident() - before}))
"""


def run(**environment: str) -> dict[str, float]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=clean | environment, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_step_reuses_the_memory_of_the_last_one_and_the_end_returns_it():
    ours, untouched = run(), run(MALLOC_TRIM_THRESHOLD_="131072")
    activations = 4096 * 2048 * 4
    assert untouched["faults"] > activations / 4096  # the system's own behaviour: every page anew in every step
    assert ours["faults"] < untouched["faults"] / 20
    assert ours["kept"] < 4 * activations  # code and threads that came with the first step, not the activations
