"""The options of a table as a schema, and a schema as options again."""

from __future__ import annotations

from typing import Any

import polars as pl

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.registry import closest
from neuro_divergent.data.read.files import take_over
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.schema.schema import DataSchema, LoadOptions
from neuro_divergent.data.store.store import SeriesStore


def schema_and_static(schema: DataSchema | None, options: LoadOptions) -> tuple[DataSchema, pl.DataFrame | None]:
    """The options as a schema, and the static table if there is one."""
    given: dict[str, Any] = dict(options)
    for name in given:
        if name not in DataSchema.model_fields:
            known = list(LoadOptions.__annotations__)
            near = closest(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"those about the table are: {', '.join(known)}."
            raise ConfigError(f"there is no argument {name!r}; {hint}")
    static = given.pop("static", None)
    table = None
    if static is not None and not isinstance(static, str | list | tuple):
        table = take_over(static)[0].collect()
    elif static is not None:
        given["static"] = static
    if schema is not None:
        if given:
            raise ConfigError(f"a schema replaces all options, but got {listing(given)} as well. Use one of the two.")
        return schema, table
    request = DataSchema(**given)
    return without_keys(request, table), table


def without_keys(schema: DataSchema, static: pl.DataFrame | None) -> DataSchema:
    """The schema, with the columns of a static table that do not name series. The file says which ones do."""
    if static is None or schema.resolved:
        return schema
    names = tuple(name for name in static.columns if name not in (schema.id_col, *schema.id_parts))
    return schema.replace(static_table=names)


def named_roles(schema: DataSchema) -> dict[str, Any]:
    """The roles of a schema as loading options."""
    names = (
        "time_col",
        "time_parts",
        "target_col",
        "future",
        "historical",
        "static",
        "categorical",
        "weight",
        "available_mask",
    )
    roles = {name: getattr(schema, name) for name in (*names, "freq", "time_zone", "time_format")}
    roles["id_col"] = list(schema.id_parts) or schema.id_col
    roles["static"] = [name for name in schema.static if name not in schema.static_table]
    return roles | ({"wide": True} if schema.wide else {})


def schema_of(store: SeriesStore) -> DataSchema:
    """The schema of a store without one."""
    names = tuple(store.categories)
    varying = 0 if store.categorical is None else store.categorical.shape[1]
    return DataSchema(
        freq=store.freq,
        time_zone=store.time_zone,
        future=store.future_names,
        historical=store.historical_names,
        static=store.static_names,
        categorical=names,
        weight=None if store.weight is None else "weight",
        dtype=str(store.y.dtype),
        id_type="text" if store.ids.dtype.kind == "U" else "integer",
        time_type="int64" if store.start.dtype.kind != "M" else "datetime[us]",
        future_categorical=names[:varying],
        static_categorical=names[varying:],
        categories=store.categories,
    )
