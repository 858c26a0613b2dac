"""The parts of neuralforecast's `common` that scripts import: names of columns and explainers, window scalers."""
