"""The process around a run: signals, supervision, heartbeat, memory, threads."""
