"""Short forms are the full forms: in memory, in files, and in a resumed run."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.config.shorthands import mixed_precision

T = nd.TrainingConfig


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ({"early_stopping": 15}, {"early_stopping": nd.EarlyStopping(patience=15)}),
        ({"early_stopping": False}, {"early_stopping": None}),
        ({"early_stopping": True}, {"early_stopping": nd.EarlyStopping()}),
        ({"gradient_clipping": 0.5}, {"gradient_clipping": nd.ClipByNorm(max_norm=0.5)}),
        ({"gradient_clipping": np.float32(0.5)}, {"gradient_clipping": nd.ClipByNorm(max_norm=0.5)}),
        ({"gradient_clipping": nd.AdaptiveClip}, {"gradient_clipping": nd.AdaptiveClip()}),
        ({"teacher_forcing": 0.5}, {"teacher_forcing": nd.TeacherForcing(start=0.5, end=0.5)}),
        ({"augmentation": True}, {"augmentation": nd.Compose(steps=(nd.Jitter(), nd.MagnitudeWarp()))}),
        ({"augmentation": [nd.Jitter(), "scaling"]}, {"augmentation": nd.Compose(steps=(nd.Jitter(), nd.Scaling()))}),
        ({"optimizer": nd.SGD}, {"optimizer": nd.SGD()}),
        ({"optimizer": "adamw"}, {"optimizer": nd.AdamW()}),
        ({"optimizer": torch.optim.Adamax}, {"optimizer": nd.TorchOptimizer(cls=torch.optim.Adamax)}),
        ({"schedule": nd.CosineAnnealing}, {"schedule": nd.CosineAnnealing()}),
        ({"loss": "mae"}, {"loss": nd.MAE()}),
        ({"loss": nd.MAE, "validation_loss": nd.MSE}, {"loss": nd.MAE(), "validation_loss": nd.MSE()}),
        ({"verbose": True}, {"progress": True}),
        ({"verbose": 0}, {"progress": False}),
        ({"mixed_precision": True, "device": "cpu"}, {"precision": "bf16", "device": "cpu"}),
        ({"mixed_precision": False}, {"precision": "float32"}),
        ({"freeze": "encoder"}, {"freeze": ("encoder",)}),
        ({"metrics": "mae"}, {"metrics": ("mae",)}),
        ({"checkpoints": "runs/a"}, {"checkpoints": nd.Checkpoints("runs/a")}),
        ({"callbacks": nd.Timer}, {"callbacks": (nd.Timer(),)}),
        ({"optimizer": nd.SGD, "learning_rate": 0.5}, {"optimizer": nd.SGD(learning_rate=0.5)}),
        ({"optimizer": "lion", "learning_rate": 0.5}, {"optimizer": nd.Lion(learning_rate=0.5)}),
        ({"activation_checkpointing": True}, {"activation_checkpointing": nd.ActivationCheckpointing()}),
    ],
    ids=str,
)
def test_a_short_form_is_its_full_form(short, full):
    assert T(**short) == T(**full)
    assert T(**short).to_json() == T(**full).to_json()
    assert T.from_json(T(**short).to_json()) == T(**full)
    assert T.from_dict(short) == T(**full)
    assert T().replace(**short) == T(**full)


def test_short_forms_of_parts():
    assert nd.Checkpoints("a", compression=True) == nd.Checkpoints("a", compression="zstd")
    assert nd.Checkpoints("a", compression=False) == nd.Checkpoints("a")
    assert nd.ClipByValue(-1, 2) == nd.ClipByValue((-1.0, 2.0)) == nd.ClipByValue(bound=(-1, 2))
    for name in ("Gaussian", "gaussian", "normal"):
        assert nd.DistributionLoss(distribution=name) == nd.DistributionLoss(distribution="Normal")
    assert nd.DistributionLoss(distribution="student-t").distribution == "StudentT"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"learning_rate": 1e-3, "optimizer": nd.AdamW(learning_rate=1e-4)},
            "one learning rate, but got learning_rate=0.001 and an optimizer with learning_rate=0.0001",
        ),
        ({"learning_rate": 0.0}, "learning_rate must be greater than 0.*, but got learning_rate=0.0"),
        ({"learning_rate": -1, "optimizer": "sgd"}, "learning_rate must be greater than 0.*, but got learning_rate=-1"),
        ({"verbose": True, "progress": False}, "verbose=True is short for progress=True, but got progress=False"),
        ({"mixed_precision": False, "precision": "bf16"}, "short for precision='float32', but got precision='bf16'"),
        ({"verbose": "yes"}, "verbose must be True or False, but got verbose='yes'"),
        ({"early_stopping": 1.5}, "patience must be a whole number, but got patience=1.5"),
        ({"gradient_clipping": -1.0}, "max_norm must be greater than 0"),
        ({"teacher_forcing": 2}, "start must be at most 1"),
        ({"schedule": nd.MultiStepDecay}, "MultiStepDecay needs the field 'milestones'"),
        ({"optimizer": nd.Optimizer}, "Optimizer is a base class"),
    ],
    ids=str,
)
def test_what_contradicts_itself_or_is_no_value_is_refused(fields, words):
    with pytest.raises(nd.ConfigError, match=words):
        T(**fields)


def test_the_same_rate_twice_is_no_contradiction():
    assert T(learning_rate=1e-4, optimizer=nd.AdamW(learning_rate=1e-4)).optimizer == nd.AdamW(learning_rate=1e-4)


def test_learning_rate_changes_the_optimizer_of_the_recipe_and_keeps_the_ratio_of_groups():
    """0.05 is half of the recipe's 0.1, so the group's 0.4 becomes 0.2."""
    groups = (nd.ParameterGroup(pattern="head.*", learning_rate=0.4),)
    recipe = T(optimizer=nd.SGD(learning_rate=0.1, momentum=0.9, groups=groups))
    config = T(learning_rate=0.05)
    assert (config.optimizer, config.learning_rate) == ("auto", 0.05)
    found = config.resolved(recipe)
    assert found.learning_rate is None
    assert isinstance(found.optimizer, nd.SGD)
    assert (found.optimizer.learning_rate, found.optimizer.momentum) == (0.05, 0.9)
    assert found.optimizer.groups[0].learning_rate == pytest.approx(0.2)
    assert T.from_json(config.to_json()).resolved(recipe) == found


def test_replacing_the_rate_or_the_optimizer():
    config = T(optimizer=nd.SGD(learning_rate=0.1, momentum=0.9))
    assert config.replace(learning_rate=0.5).optimizer == nd.SGD(learning_rate=0.5, momentum=0.9)
    assert T(learning_rate=0.5).replace(optimizer=nd.AdamW(learning_rate=0.1)) == T(
        optimizer=nd.AdamW(learning_rate=0.1)
    )
    assert T(precision="bf16", progress=True).replace(mixed_precision=False, verbose=False) == T(progress=False)


def test_a_model_is_trained_at_the_given_rate():
    table, model = nd.samples.air_passengers(), nd.DLinear(h=6, input_size=12)
    fitted = model.fit(table, T(max_steps=2, learning_rate=0.25, progress=False))
    assert fitted.config.learning_rate is None
    assert fitted.config.optimizer.learning_rate == 0.25
    assert fitted.config.optimizer == model.recipe(100).resolved().optimizer.at_rate(0.25)


def test_a_run_of_short_forms_is_resumed_with_them_and_with_another_rate(tmp_path, caplog):
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)

    def trained(**more):
        torch.manual_seed(0)
        network = nn.Linear(3, 1)
        config = T(max_epochs=2, learning_rate=0.01, early_stopping=5, checkpoints=str(tmp_path / "run"), verbose=False)
        return nd.Trainer(config).fit(network, (x, x[:, :1]), **more)

    assert len(trained()) == 2
    with caplog.at_level(logging.WARNING):
        longer = trained(resume="auto", resume_with={"max_epochs": 4, "learning_rate": 0.5})
    assert longer["learning_rate"] == [0.01, 0.01, 0.5, 0.5]


def test_half_precision_by_device(monkeypatch):
    assert mixed_precision("cpu") == "bf16"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for able, name in ((True, "bf16"), (False, "fp16")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda able=able: able)
        assert mixed_precision("cuda") == name
        assert mixed_precision("auto") == name
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert mixed_precision("mps") == "fp16"


def test_a_layer_is_frozen_by_its_name():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden1, self.hidden10 = nn.Linear(3, 4), nn.Linear(4, 1)

        def forward(self, x):
            return self.hidden10(torch.tanh(self.hidden1(x)))

    x = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    network = Network()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    nd.Trainer(T(max_epochs=2, freeze=("hidden1",), progress=False)).fit(network, (x, x[:, :1]))
    same = {name for name, value in network.state_dict().items() if torch.equal(value, before[name])}
    assert same == {"hidden1.weight", "hidden1.bias"}
