"""What cannot be trained is answered with a sentence; what trains badly is warned of."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError, DataError, DeviceError

X = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
PLAIN = nd.TrainingConfig(max_epochs=1, validation_split=None, progress=False, seed=1)


def fit(module: nn.Module, **fields: object) -> nd.History:
    return nd.Trainer(PLAIN.replace(**fields)).fit(module, (X, 3 * X))


def test_a_batch_of_any_size_is_at_most_all_rows() -> None:
    """One batch of 64 rows, whatever the size above: the same losses."""
    torch.manual_seed(0)
    weights = nn.Linear(1, 1).state_dict()

    def losses(size: int) -> list[float]:
        module = nn.Linear(1, 1)
        module.load_state_dict(weights)
        return fit(module, batch_size=size, max_epochs=3).step_loss

    assert losses(10**12) == losses(64)


def test_a_billion_threads_are_refused() -> None:
    with pytest.raises(ConfigError, match="threads must be at most 1024, but got threads=1000000000"):
        nd.TrainingConfig(threads=10**9)


def test_whole_numbers_are_refused_where_the_module_takes_floats() -> None:
    whole = (10 * X).astype(np.int64)
    with pytest.raises(DataError, match=r"x must have floats.*has whole numbers \(int64\).*astype\('float32'\)"):
        nd.Trainer(PLAIN).fit(nn.Linear(1, 1), (whole, X))
    words = nn.Sequential(nn.Embedding(21, 1), nn.Flatten())
    assert len(nd.Trainer(PLAIN).fit(words, (whole + 10, X))) == 1


def test_an_error_of_the_module_itself_is_not_taken_for_one_of_whole_numbers() -> None:
    whole = (10 * X).astype(np.int64)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        nd.Trainer(PLAIN).fit(nn.Sequential(nn.Embedding(21, 1), nn.Flatten(), nn.Linear(3, 1)), (whole + 10, X))


@pytest.mark.parametrize("fields", [{"batch_size": len(X) - 1}, {"batch_size": 21, "accumulate_gradients": 3}])
def test_a_batch_norm_of_one_row_is_refused(fields: dict[str, int]) -> None:
    module = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    with pytest.raises(ConfigError, match=r"a batch norm needs at least two rows.* Set drop_last=True"):
        fit(module, **fields)


class Strict(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            raise ValueError("Expected more than 1 value per channel")
        return super().forward(x)


def test_an_error_of_a_module_without_batch_norm_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel") as caught:
        fit(Strict(1, 1), batch_size=len(X) - 1)
    assert not isinstance(caught.value, ConfigError)


class Several(nn.Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return super().forward(x), None


def test_outputs_that_are_no_tensor_are_refused() -> None:
    with pytest.raises(ConfigError, match="must return one tensor, but its forward returned a tuple"):
        fit(Several(1, 1))
    with pytest.raises(ConfigError, match="must return one tensor, but its forward returned a tuple"):
        fit(nn.LSTM(1, 1))


@pytest.mark.parametrize(("said", "shown"), [("fast", "'fast'"), (None, "None"), (np.ones(2), "array"), ("1", "'1'")])
def test_a_schedule_that_returns_no_number_is_refused(said: object, shown: str) -> None:
    with pytest.raises(ConfigError, match=f"must return a finite number of at least 0.*but got {shown}.* at step 0"):
        fit(nn.Linear(1, 1), schedule=lambda step: said)


def test_half_precision_on_a_cpu_is_refused_for_lstm_layers_and_warned_of_otherwise(caplog) -> None:
    table = nd.samples.air_passengers()
    config = PLAIN.replace(precision="fp16", device="cpu", max_epochs=None, max_steps=1)
    with pytest.raises(DeviceError, match=r"'fp16' on a CPU cannot compute LSTM layers.*'bf16' or 'float32'"):
        nd.LSTM(h=2, input_size=4, hidden_size=4).fit(table, config)
    with caplog.at_level(logging.WARNING):
        fit(nn.Linear(1, 1), precision="fp16", device="cpu")
    assert [line for line in caplog.messages if "slower than float32 on a CPU" in line]


def warnings_of(caplog, **fields: object) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        fit(nn.Linear(1, 1), batch_size=8, **fields)  # 8 steps per epoch
    return [line for line in caplog.messages if "warm-up" in line]


def test_a_warm_up_longer_than_the_run_is_warned_of_once_with_numbers(caplog) -> None:
    """By hand: after 16 steps of 1000 the factor is 16 / 1001 = 0.016, of a rate of 0.01 that is 0.00016."""
    optimizer = nd.AdamW(learning_rate=0.01)
    (found,) = warnings_of(caplog, max_epochs=2, optimizer=optimizer, schedule=nd.WarmupCosine(warmup=1000))
    assert "WarmupCosine is longer than the run of 16 steps" in found
    assert "the learning rate ends at 0.00016, 0.016 of the configured 0.01" in found
    assert len(warnings_of(caplog, max_epochs=2, schedule=nd.WarmupLinear(warmup=17))) == 1
    assert len(warnings_of(caplog, max_epochs=1, optimizer=nd.ScheduleFreeAdamW(warmup_steps=9))) == 1
    assert warnings_of(caplog, max_epochs=2, schedule=nd.WarmupCosine(warmup=0.5)) == []
    assert warnings_of(caplog, max_epochs=2, schedule=nd.WarmupLinear(warmup=8)) == []
    assert warnings_of(caplog, max_epochs=2, schedule=nd.OneCycle()) == []
    assert warnings_of(caplog, max_epochs=2, schedule=nd.Constant(factor=0.5)) == []
    assert warnings_of(caplog, max_epochs=1, optimizer=nd.ScheduleFreeAdamW(warmup_steps=8)) == []
