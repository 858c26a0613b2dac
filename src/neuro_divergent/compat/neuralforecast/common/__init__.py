"""What neuralforecast keeps in `common` and scripts import: names of columns and explainers, window scalers."""
