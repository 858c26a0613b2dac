"""Weights in half precision: what works, and what is refused in words."""

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd

X = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]


def config(precision, **fields):
    given = {"max_epochs": 30, "progress": False, "validation_split": None, "early_stopping": None}
    return nd.TrainingConfig(precision=precision, **given | fields)


@pytest.mark.parametrize(
    ("precision", "dtype", "optimizer"),
    [
        ("bf16-true", torch.bfloat16, nd.AdamW(learning_rate=0.05)),
        ("fp16-true", torch.float16, nd.SGD(learning_rate=0.05)),
    ],
)
def test_a_module_with_half_precision_weights_learns_saves_and_resumes(tmp_path, precision, dtype, optimizer):
    torch.manual_seed(0)
    whole, module = nn.Linear(1, 1), nn.Linear(1, 1)
    module.load_state_dict(whole.state_dict())
    settings = config(precision, optimizer=optimizer)
    trainer = nd.Trainer(settings)
    history = trainer.fit(whole, (X, 2 * X))
    assert {parameter.dtype for parameter in whole.parameters()} == {dtype}
    assert history.train_loss[-1] < 0.05 * history.train_loss[0]
    assert trainer.predict(X).dtype == torch.float32
    run = nd.Trainer(settings).prepare(module, (X, 2 * X))
    run.advance(5)
    run.save_checkpoint(tmp_path / "moment")
    run.close()
    nd.Trainer(settings).resume_training(module, (X, 2 * X), tmp_path / "moment")
    assert torch.equal(module.weight, whole.weight)


def test_classes_are_learned_with_them_too():
    labels = (X[:, 0] > 0).astype(int)
    torch.manual_seed(0)
    settings = config("bf16-true", loss=nd.CrossEntropy(), accuracy=True, optimizer=nd.AdamW(learning_rate=0.1))
    history = nd.Trainer(settings).fit(nn.Linear(1, 2), (X, labels))
    assert history["train_accuracy"][-1] > 0.9


def test_what_does_not_work_is_refused_in_words():
    with pytest.raises(nd.ConfigError, match="SGD or Lion"):
        config("fp16-true", optimizer=nd.AdamW())
    with pytest.raises(nd.ConfigError, match="keeps float32 weights"):
        config("bf16-true", averaging=nd.EMA())
    with pytest.raises(nd.ConfigError, match="only a Trainer on arrays supports"):
        nd.NLinear(h=2, input_size=4).fit(nd.samples.hourly_panel(1, 60), config("bf16-true"))
    with pytest.raises(nd.ConfigError, match="numerical gradients need"):
        config("bf16-true", gradient_method="central")

    class Fourier(nn.Linear):
        def forward(self, x):
            return torch.linalg.qr(super().forward(x).repeat(1, 2))[0][:, :1]

    with pytest.raises(nd.NeuroDivergentError, match="cannot compute in bfloat16"):
        nd.Trainer(config("bf16-true")).fit(Fourier(1, 1), (X, X))
    with pytest.raises(nd.ConfigError, match="O1"):
        nd.TrainingConfig(fp16_opt_level="O1")
