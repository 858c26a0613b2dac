"""One optimizer step: strategy, gradients, validation, out-of-memory retries."""
