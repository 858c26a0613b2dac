"""The stacks of models that add up their forecasts."""

import numpy as np
from neuralforecast.models import NHITS, NBEATSx
from neuralforecast.tsdataset import TimeSeriesDataset
from neuralforecast.utils import AirPassengersDF

dataset, *_ = TimeSeriesDataset.from_df(AirPassengersDF)
small = {"h": 12, "input_size": 24, "max_steps": 2, "mlp_units": 3 * [[8, 8]]}
for model in (
    NHITS(stack_types=2 * ["identity"], n_blocks=[1, 1], n_pool_kernel_size=[2, 1], n_freq_downsample=[4, 1], **small),
    NBEATSx(stack_types=["identity", "trend", "seasonality"], n_blocks=[1, 1, 1], **small),
):
    model.fit(dataset=dataset)
    parts = model.decompose(dataset=dataset)
    stacks = 2 if type(model).__name__ == "NHITS" else 3
    assert parts.shape == (1, stacks + 1, 12), parts.shape
    forecast = model.predict(dataset=dataset)
    assert np.allclose(parts.sum(axis=1).ravel(), forecast.ravel(), rtol=1e-3)
