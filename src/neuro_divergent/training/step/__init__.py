"""One optimizer step: strategy, gradients, memory."""
