"""A description tells how many parameters its network will have; the fitted model has as many."""

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.batch import InputSpec

CONFIG = nd.TrainingConfig(max_steps=2, seed=0)


def table(**more):
    step = np.arange(60)
    frames = [pl.DataFrame({"unique_id": name, "ds": step, "y": np.sin(step + k)}) for k, name in enumerate("abc")]
    return pl.concat(frames).with_columns(**more)


def test_an_mlp_by_hand():
    """12 inputs, two hidden layers of 8, 4 outputs: 12·8 + 8, 8·8 + 8 and 8·4 + 4 numbers."""
    model = nd.MLP(h=4, input_size=12, hidden_size=8, layers=2)
    count = model.num_parameters()
    assert (count.total, count.trainable, count.frozen) == (104 + 72 + 36, 104 + 72 + 36, 0)
    # Three quantiles ask for three outputs a step.
    quantiles = nd.TrainingConfig(loss=nd.MQLoss(quantiles=[0.1, 0.5, 0.9]))
    assert model.num_parameters(config=quantiles).total == 104 + 72 + 8 * 12 + 12


def test_columns_and_series_of_a_table_count():
    data = table(price=pl.col("ds").cast(pl.Float64))
    model = nd.MLP(h=4, input_size=12, hidden_size=8, layers=1)
    plain, priced = model.num_parameters(), model.num_parameters(data, future=["price"])
    assert priced.total == plain.total + 8 * (12 + 4)  # the column's past and horizon are inputs
    assert model.num_parameters(InputSpec(horizon=4, lookback=12, future=1)) == priced
    fitted = model.fit(data, CONFIG, future=["price"])
    assert fitted.num_parameters == priced.total
    together = nd.TSMixer(h=4, input_size=12)
    assert together.num_parameters(table()).total == together.fit(table(), CONFIG).num_parameters


def test_an_anchor_with_several_seasons_has_weights():
    model = nd.MLP(h=4, input_size=12, hidden_size=8, layers=1)
    assert model.replace(anchor=(2, 6)).num_parameters().total == model.num_parameters().total + 2 * 4


def test_frozen_parameters_are_counted_apart_and_after_loading(tmp_path):
    model = nd.MLP(h=4, input_size=12, hidden_size=8, layers=2)
    first = next(name for name, _ in model.fit(table(), CONFIG).module.named_parameters())
    config = CONFIG.replace(freeze=(first,))
    count = model.num_parameters(config=config)
    assert (count.trainable, count.frozen) == (212 - 96, 96)  # 12 · 8 weights of the first layer
    fitted = model.fit(table(), config)
    fitted.save(tmp_path / "model")
    for found in (fitted, nd.load(tmp_path / "model")):
        assert found.num_parameters == count.total
        assert found.num_trainable_parameters == count.trainable
        assert found.num_frozen_parameters == count.frozen


def test_counting_draws_nothing_from_the_global_generator():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    nd.NHITS(h=4, input_size=12).num_parameters()
    assert torch.equal(torch.rand(3), expected)


def test_sizes_that_only_data_can_tell_are_asked_for():
    with pytest.raises(nd.ConfigError, match="number, but got no table"):
        nd.TSMixer(h=4, input_size=12).num_parameters()
    with pytest.raises(nd.ConfigError, match="season lengths from the data"):
        nd.MLP(h=4, input_size=12, anchor="auto").num_parameters()
    with pytest.raises(nd.ConfigError, match="must be those of the model"):
        nd.MLP(h=4, input_size=12).num_parameters(InputSpec(horizon=4, lookback=13))
