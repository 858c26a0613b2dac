"""What a training tells those who look at it: facts about its table, and forecasts of held-out windows."""
