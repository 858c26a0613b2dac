"""The results of several trainings, some of which may have failed."""

from __future__ import annotations

from collections.abc import Sequence

from neuro_divergent.core.errors import MembersFailedError, NeuroDivergentError
from neuro_divergent.forecasting.predict.forecaster import Forecaster


def results(found: Sequence[Forecaster | NeuroDivergentError]) -> list[Forecaster]:
    """The forecasters. If some trainings failed, raise an error that contains the forecasters of the others.

    If all failed, the first error itself is raised.
    """
    failures = {number: item for number, item in enumerate(found) if isinstance(item, NeuroDivergentError)}
    if not failures:
        return [item for item in found if isinstance(item, Forecaster)]
    first, error = next(iter(failures.items()))
    if len(failures) == len(found):
        raise error
    sentence = f"training {first + 1} of {len(found)} failed: {error}"
    more = f" {len(failures) - 1} more failed." if len(failures) > 1 else ""
    sentence = sentence if sentence.endswith(".") else f"{sentence}."
    raise MembersFailedError(
        f"{sentence}{more} The forecasters of the others are in `forecasters` of this error",
        forecasters=[item if isinstance(item, Forecaster) else None for item in found],
        failures=failures,
        **error.facts,
    ) from error
