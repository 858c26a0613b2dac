"""AutoForecaster: a portfolio of models, an ensemble chosen on held-out rows, and a search with the time that is left."""
