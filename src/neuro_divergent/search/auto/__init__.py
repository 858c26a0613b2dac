"""AutoForecaster: a portfolio of models, an ensemble chosen on held-out rows, a search with the rest of the time."""
