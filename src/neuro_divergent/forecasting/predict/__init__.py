"""The fitted forecaster and everything that forecasts with it."""
