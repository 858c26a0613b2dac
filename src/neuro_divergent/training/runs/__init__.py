"""Run directories: checkpoints, resume, locks."""
