"""The losses, under the names of neuralforecast."""
