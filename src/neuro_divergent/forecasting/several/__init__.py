"""Several models: NeuralForecast and ensembles."""
