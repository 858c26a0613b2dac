"""A run is a directory: the names of its files, its reader, and the request that stops it. No torch, no numpy."""

from neuro_divergent.core.runs.read import read_run as read_run
from neuro_divergent.core.runs.record import RunRecord as RunRecord
