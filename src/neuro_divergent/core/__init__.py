"""What every other room stands on: descriptions, errors, names, randomness, devices, files."""
