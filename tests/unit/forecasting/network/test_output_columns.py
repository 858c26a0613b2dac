"""The columns of a forecast."""

import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.network.output_columns import named_columns


@pytest.mark.parametrize(("level", "quantiles"), [((80, 80.0), ()), ((), (0.1, 0.1)), ((80,), (0.1, 0.5, 0.1))])
def test_a_column_that_is_asked_for_twice_is_refused_in_every_library(level, quantiles):
    with pytest.raises(nd.ConfigError, match="each column of a forecast must be unique, but got level="):
        named_columns("M", level, quantiles)
