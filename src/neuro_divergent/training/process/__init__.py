"""The process of a run: signals, supervision, heartbeat, memory, threads."""
