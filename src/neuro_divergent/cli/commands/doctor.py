"""`neuro-divergent doctor`: what is wrong with a training, the figures that show it, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import harmless, note, say, say_json
from neuro_divergent.cli.request.read_table import read_again
from neuro_divergent.cli.request.run_file import Settings, sections


def doctor(
    run: str,
    data: Path | None = None,
    /,
    *,
    probes: bool = True,
    plot: Path | None = None,
    set: Settings = (),  # noqa: A002
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Say what is wrong with a training, with the figures that show it and the settings that mend it.

    Parameters
    ----------
    run
        The directory of a run or of a saved model.
    data
        The table that it was trained on. Without it, only the course of the training is examined.
    probes
        Train copies of the network for a few steps, to find a better learning rate or batch size.
    plot
        Write a picture of the evidence to this file.
    set
        The format of the table, if it differs from the training table, such as data.separator=";".
    json
        Print JSON.
    """
    from neuro_divergent.core.runs.read import read_run
    from neuro_divergent.diagnostics.doctor.diagnose import diagnose
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.storage.save_load import load

    record = read_run(run)
    table = None
    if data is not None and (saved := record.models[-1] if record.models else record.newest) is not None:
        fitted = load(saved.path)
        assert isinstance(fitted, Forecaster)
        table = read_again(data, fitted.data.schema, sections(None, {}, set)["data"])
    found = diagnose(record, table, probes=probes)
    if plot is not None:
        found.plot(plot)
        note(f"the evidence is drawn in {plot}")
    if json:
        say_json(found.to_dict())
        return
    for line in found.lines():
        say(harmless(line))
