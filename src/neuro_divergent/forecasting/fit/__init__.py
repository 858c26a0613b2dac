"""Trains a description on a table; the result is a fitted forecaster."""
