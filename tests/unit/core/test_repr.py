"""The repr of a description is code: pasted where the public names are imported, it gives an equal object."""

import math
from pathlib import Path

import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.config import Description

PUBLIC = {name: getattr(nd, name) for name in nd.__all__}
SIZES = {"h": 3, "input_size": 12}
SPACE = {"learning_rate": nd.loguniform(1e-5, 1e-1)}
SEARCH = {"space": nd.SearchSpace(**SPACE), "model": nd.NHITS(**SIZES)}
REQUIRED = {
    "Cluster": {"nodes": [nd.Node("10.0.0.10:29500", role="master"), nd.Node("10.0.0.11:29500")]},
    "Node": {"address": "10.0.0.10:29500"},
    "HINT": {"model": nd.MLP(**SIZES), "S": [[1, 1], [1, 0], [0, 1]]},
    "Hierarchy": {"ids": ("total", "a", "b"), "rows": ((0, 1), (0,), (1,)), "bottom": (1, 2)},
    "Joined": {"schedules": ["constant", nd.CosineAnnealing()], "at": [5]},
    "Compose": {"steps": [nd.Jitter()]},
    "Checkpoints": {"directory": "runs/a"},
    "CsvLog": {"path": Path("a.csv")},
    "JsonLines": {"path": "a.jsonl"},
    "LossPlot": {"path": "a.png"},
    "TensorBoard": {"directory": "board"},
    "MultiStepDecay": {"milestones": [10, 20]},
    "Optimizers": {"by": {"*.bias": nd.SGD(), "*": nd.AdamW()}},
    "ParameterGroup": {"pattern": "*.bias"},
    "TorchOptimizer": {"cls": torch.optim.Adagrad},
    "Weighted": {"loss": nd.MQLoss(level=80)},
    "SearchSpace": SPACE,
    "BayesianOptimization": SEARCH,
    "GridSearch": SEARCH,
    "MultiObjectiveSearch": SEARCH,
    "RandomSearch": SEARCH,
    "TPESearch": SEARCH,
    "TimeLLM": SIZES | {"llm": "gpt2"},
    "CustomCallback": {"function": torch.nn.functional.relu},
    "CustomLoss": {"function": torch.nn.functional.mse_loss},
    "CustomSchedule": {"function": math.sqrt},
}


FOUND = {"Architecture", "FirstNonfinite", "LearningCurveResult", "WeightReport"}
"""What the library returns and nobody writes: their repr is a summary for people."""


def examples():
    for name, kind in PUBLIC.items():
        if name in FOUND or not (isinstance(kind, type) and issubclass(kind, Description)):
            continue
        try:
            kind._refuse_abstract()
            needed = {field for field, facts in kind.model_fields.items() if facts.is_required()}
            given = REQUIRED.get(name, {field: value for field, value in SIZES.items() if field in needed})
            yield kind(**given)
        except nd.ConfigError as error:
            if "is a base class" not in str(error):
                raise


EXAMPLES = [
    *examples(),
    nd.MQLoss(quantiles=[0.1, 0.5, 0.9], weights=[1, 2, 1], point="mean"),
    nd.DistributionLoss(distribution="StudentT", point="median"),
    nd.TrainingConfig(
        loss=nd.Weighted(loss="mae"), schedule=nd.WarmupCosine(), callbacks=[nd.CsvLog(path="a.csv")],
        early_stopping=15, checkpoints=nd.Checkpoints("runs/a"), gradient_clipping=1.0,
    ),
]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_the_repr_pasted_gives_an_equal_object(example):
    assert eval(repr(example), PUBLIC | {"torch": torch, "math": math}) == example


def test_every_public_description_is_an_example():
    assert len(EXAMPLES) > 130


def test_the_repr_has_the_names_that_a_user_writes():
    assert repr(nd.MQLoss(level=80)) == "MQLoss(point='auto', level=(80.0,), quantiles=None, weights=None)"


def test_infinite_numbers_paths_and_own_functions_are_code():
    class Limits(Description):
        values: tuple[float, ...]
        path: Path

    limits = Limits(values=(math.inf, -math.inf), path=Path("a b"))
    assert repr(limits) == "Limits(values=(float('inf'), float('-inf')), path='a b')"


def test_a_message_names_the_field_as_the_user_wrote_it():
    with pytest.raises(nd.ConfigError, match=r"^quantiles must be"):
        nd.MQLoss(quantiles="some")
    with pytest.raises(nd.ConfigError, match="HINT needs the field 'S'"):
        nd.HINT(model=nd.MLP(**SIZES))
