"""From a description and a table to a fitted forecaster."""
