"""Executors: where work runs that may leave this process. Nothing here imports torch before it works."""
