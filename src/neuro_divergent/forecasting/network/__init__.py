"""ForecastModule: scale, network, anchor, unscale; the columns of a forecast."""
