"""Run directories: file names, reader, and the request to stop a training. Needs no torch and no numpy."""

from neuro_divergent.core.runs.read import read_run as read_run
from neuro_divergent.core.runs.record import RunRecord as RunRecord
