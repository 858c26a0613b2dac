"""Write tests/golden/curves.json: the first losses of ten recipes, to be compared with by test_golden_curves.py.

    python tests/golden/make_curves.py

Run it only when a change of the numbers is meant, and say in the change why they moved.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.data import samples

CURVES = Path(__file__).with_name("curves.json")
STEPS = 12


def on_arrays(**fields: object) -> list[float]:
    """Step losses of a small perceptron on a fixed problem; the weights are written down, not drawn."""
    x = np.stack([np.sin(np.arange(96) * k / 7) for k in (1, 2, 3)], axis=1)
    y = x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:]
    module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.cos(torch.arange(parameter.numel()) * 1.7).view_as(parameter) * 0.4)
    config = nd.TrainingConfig(
        **{"max_epochs": None, "max_steps": STEPS, "batch_size": 16, "validation_split": None, "progress": False}
        | fields
    )
    return nd.Trainer(config).fit(module, (x, y)).step_loss


def on_table(model: nd.Model, **fields: object) -> list[float]:
    """Step losses of a model on the airline passengers with its own recipe, but fewer steps."""
    config = nd.TrainingConfig(**{"max_epochs": None, "max_steps": STEPS, "progress": False, "seed": 3} | fields)
    return model.fit(samples.air_passengers(), config, freq="1mo").history.step_loss


RECIPES: dict[str, Callable[[], list[float]]] = {
    "adamw, cosine, clipping": lambda: on_arrays(schedule=nd.CosineAnnealing(), gradient_clipping=nd.ClipByNorm(0.5)),
    "sgd, nesterov, step decay": lambda: on_arrays(
        optimizer=nd.SGD(learning_rate=0.05, nesterov=True), schedule=nd.StepDecay(every=1, factor=0.5)
    ),
    "rmsprop, one-cycle, huber": lambda: on_arrays(
        optimizer=nd.RMSprop(learning_rate=0.01), schedule=nd.OneCycle(), loss=nd.Huber()
    ),
    "lookahead, accumulation, penalties": lambda: on_arrays(
        optimizer=nd.Lookahead(every=3), accumulate_gradients=3, regularization=nd.Regularization(l1=1e-3, l2=1e-2)
    ),
    "schedule-free, float64": lambda: on_arrays(optimizer=nd.ScheduleFreeAdamW(), precision="float64"),
    "gradient noise, weight average, in order": lambda: on_arrays(
        gradient_noise=nd.GradientNoise(), averaging=nd.EMA(), shuffle=False
    ),
    "mlp recipe": lambda: on_table(nd.MLP(h=6, input_size=12, hidden_size=16, anchor="last")),
    "recurrent recipe": lambda: on_table(nd.LSTM(h=6, input_size=12, hidden_size=8, layers=1)),
    "n-hits, quantiles, growing horizon": lambda: on_table(
        nd.NHITS(h=6, input_size=12), loss=nd.MQLoss(level=[80]), curriculum=nd.GrowingHorizon()
    ),
    "dlinear, jitter, warm-up": lambda: on_table(
        nd.DLinear(h=6, input_size=12), augmentation=nd.Jitter(), schedule=nd.WarmupCosine(warmup=0.3)
    ),
}
"""Ten ways to train: together they touch every part of the engine."""


def main() -> None:
    """Write the file."""
    curves = {name: [float(f"{loss:.7g}") for loss in recipe()] for name, recipe in RECIPES.items()}
    CURVES.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
