"""One model without a NeuralForecast: its network, and its file."""
