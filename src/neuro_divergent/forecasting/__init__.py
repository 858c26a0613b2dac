"""Forecasting: descriptions of models, the module around a network, fitted forecasters."""
