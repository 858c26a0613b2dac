"""Which categories a table knows: those of its training rows, so that later rows decide neither codes nor sizes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.table import TimeSeriesDataFrame

log = logging.getLogger(__name__)

Vocabularies = Mapping[str, tuple[str, ...]]


def categories_in(table: TimeSeriesDataFrame, rows: npt.NDArray[np.int64]) -> dict[str, tuple[str, ...]]:
    """The values of each categorical column in the first rows[s] rows of each series, in the order of their codes."""
    store = table.store
    inside = slice(None)
    if bool((rows < store.lengths).any()):
        number = np.arange(len(store.y)) - np.repeat(store.offsets[:-1], store.lengths)
        inside = number < np.repeat(rows, store.lengths)  # type: ignore[assignment]  # a mask in place of everything
    columns = [] if store.categorical is None else list(store.categorical[inside].T)
    columns += [] if store.static_categorical is None else list(store.static_categorical[rows > 0].T)
    found = {}
    for (name, values), codes in zip(store.categories.items(), columns, strict=True):
        seen = np.zeros(len(values) + 1, dtype=bool)
        seen[codes] = True
        found[name] = tuple(value for value, there in zip(values, seen[1:], strict=True) if there)
    return found


def with_categories(table: TimeSeriesDataFrame, known: Vocabularies) -> TimeSeriesDataFrame:
    """The table with the codes of other vocabularies; a value that they do not have is unknown, code 0."""
    store = table.store
    lookups = []
    for name, values in store.categories.items():
        code = {value: number for number, value in enumerate(known.get(name, values), start=1)}
        lookups.append(np.array([0, *(code.get(value, 0) for value in values)], dtype=np.int32))
    blocks: dict[str, Any] = {}
    for role in ("categorical", "static_categorical"):
        block = getattr(store, role)
        if block is not None:
            own = [lookups.pop(0) for _ in range(block.shape[1])]
            blocks[role] = np.stack([codes[column] for codes, column in zip(own, block.T, strict=True)], axis=1)
    categories = {name: tuple(known.get(name, values)) for name, values in store.categories.items()}
    schema = table.schema.replace(categories=categories)
    changed = store.replace(**blocks, categories=categories)
    return TimeSeriesDataFrame(changed, schema, table.report(), library=table.library)


def say_unknown(table: TimeSeriesDataFrame, known: Vocabularies, policy: str) -> None:
    """Log the categories of a table that a model does not know; the policy "error" refuses them."""
    for name, values in categories_in(table, table.store.lengths).items():
        new = [value for value in values if value not in known.get(name, values)]
        if not new:
            continue
        said = f"column {name!r} must hold categories that the model was trained on, but got {listing(new)}"
        if policy == "error":
            raise DataError(
                f'{said}. Correct them, or train with unknown_categories="keep".',
                advice=[Advice("data.unknown_categories", "keep")],
            )
        log.warning(
            '%s. They count as unknown: correct them, or train with unknown_categories="error" to refuse them.',
            said,
            extra={"advice": [Advice("data.unknown_categories", "error")]},
        )
