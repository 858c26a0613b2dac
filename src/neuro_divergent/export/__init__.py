"""Models as one file that other programs run: raw windows in, forecasts in original units out."""
