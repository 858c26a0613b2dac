"""Attributions of categorical columns."""

import numpy as np
import pandas as pd
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.nn import CategoryEmbedding

CONFIG = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None)


def _table(rows=40):
    frames = [
        pd.DataFrame({"unique_id": name, "ds": range(rows), "dow": [f"d{t % 7}" for t in range(rows)], "city": name})
        for name in "ab"
    ]
    table = pd.concat(frames, ignore_index=True)
    return table.assign(y=np.sin(table.ds / 3.0) + (table.city == "b") + (table.dow == "d0"))


@pytest.mark.parametrize("model", [nd.MLP, nd.LSTM, nd.TimesNet, nd.TSMixerx])
def test_attributions_of_categories_and_the_target_sum_to_the_forecast(model):
    data = (
        nd.TimeSeriesDataFrame.from_frame(
            _table(), future=["dow"], static=["city"], categorical=["dow", "city"], freq=1
        )
        if model is not nd.TimesNet
        else nd.TimeSeriesDataFrame.from_frame(
            _table().drop(columns="city"), future=["dow"], categorical=["dow"], freq=1
        )
    )
    small = {"hidden_size": 8} if model is not nd.TSMixerx else {"hidden_size": 4, "blocks": 1}
    fitted = model(h=3, input_size=8, **small).fit(data, CONFIG)
    later = _table(43)[lambda rows: rows.ds >= 40].drop(columns="y")
    told = fitted.explain(future=later, points=200)
    total = sum(values.reshape(*values.shape[:2], -1).sum(axis=2) for values in told.values.values())
    assert told.values["categorical"].shape[-1] == len(data.store.categories)
    np.testing.assert_allclose(told.baseline + total, told.forecast, atol=0.05)


def test_a_column_that_the_target_follows_has_the_largest_share():
    draw = np.random.default_rng(0)
    kinds = draw.integers(0, 2, 300)
    table = pd.DataFrame({"ds": range(300), "kind": np.where(kinds, "high", "low"), "y": 10.0 * kinds})
    table["noise"] = np.where(draw.integers(0, 2, 300), "a", "b")
    data = nd.TimeSeriesDataFrame.from_frame(
        table[:290], future=["kind", "noise"], categorical=["kind", "noise"], freq=1
    )
    fitted = nd.MLP(h=2, input_size=4, hidden_size=16).fit(data, CONFIG.replace(max_steps=300))
    shares = fitted.explain(future=table[290:292].drop(columns="y")).importance()
    shares = dict(zip(shares["feature"], shares["importance"], strict=True))
    assert shares["kind"] > 5 * shares["noise"]


def test_presence_goes_from_the_mean_of_the_known_values_to_the_value():
    torch.manual_seed(0)
    embedding = CategoryEmbedding((4,))
    weight = embedding.tables[0].weight
    codes = torch.tensor([[2], [0]])
    known = embedding(2.0 * codes + 1)
    assert torch.allclose(known, embedding(codes))
    neutral = embedding(2.0 * codes)
    assert torch.allclose(neutral[0], weight[1:].mean(0))
    assert torch.allclose(neutral[1], weight[0])  # an unknown value has nothing to attribute
    assert torch.allclose(embedding(2.0 * codes + 0.5), (known + neutral) / 2)
