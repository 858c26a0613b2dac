"""`neuro-divergent data sample`: write an example table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from neuro_divergent.cli.io.tables_out import write_frame
from neuro_divergent.cli.io.terminal import say, say_json
from neuro_divergent.core.errors import ConfigError, StorageError

if TYPE_CHECKING:
    import polars as pl


def sample(
    out: Path,
    /,
    *,
    kind: Literal["prices", "passengers", "hourly"] = "prices",
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write an example table to try the other commands on.

    Parameters
    ----------
    out
        A .csv or .parquet file.
    kind
        Daily prices with gaps and unusual column names, monthly airline passengers, or 50 hourly series.
    overwrite
        Replace the file if it exists.
    json
        Print JSON.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"the table's name must end in .csv or .parquet, but got {str(out)!r}")
    if out.exists() and not overwrite:
        raise StorageError(f"{out} exists already. Choose another name, or say --overwrite")
    from neuro_divergent.data import samples

    made = {"prices": prices, "passengers": samples.air_passengers, "hourly": samples.hourly_panel}[kind]()
    write_frame(out, made)
    if json:
        say_json({"written": str(out), "rows": len(made), "columns": made.columns})
        return
    say(f"{len(made):,} rows with the columns {', '.join(made.columns)} written to {out}")


def prices(days: int = 600) -> pl.DataFrame:
    """Daily prices: a random walk, a weekly season, and a few missing days.

    With w(t) = w(t-1) + N(0, 0.6): close(t) = 100 + w(t) + 4 sin(2πt / 7) + N(0, 0.5).
    """
    import numpy as np
    import polars as pl

    from neuro_divergent.core.seeding import numpy_generator

    draw = numpy_generator(1, "sample prices")
    day = np.arange(days)
    close = 100 + np.cumsum(draw.normal(0, 0.6, days)) + 4 * np.sin(2 * np.pi * day / 7) + draw.normal(0, 0.5, days)
    first = pl.date(2024, 1, 1)
    dates = pl.date_range(first, first + pl.duration(days=days - 1), "1d", eager=True)
    frame = pl.DataFrame({"timestamp": dates, "close": close.round(2), "volume": draw.integers(1000, 9999, days)})
    return frame.filter(pl.Series(draw.random(days) > 0.02))
