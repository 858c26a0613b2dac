"""The conformance suites. The author of a plugin can run the same checks that the library's own members pass.

    import pytest
    from neuro_divergent.conformance import MODEL_CHECKS, check_model

    @pytest.mark.parametrize("name", MODEL_CHECKS)
    def test_my_model(name):
        check_model(MyModel, name)

A failed check raises `ConformanceFailure` (an AssertionError). It names the description, the sizes, and what was
expected. No test runner is imported here.
"""

from neuro_divergent.conformance.examples import loss_examples, model_examples, optimizer_examples, schedule_examples
from neuro_divergent.conformance.losses import LOSSES
from neuro_divergent.conformance.models import EXPORT_EXCEPTIONS, MODELS
from neuro_divergent.conformance.optimizers import OPTIMIZERS
from neuro_divergent.conformance.scalers import SCALERS
from neuro_divergent.conformance.schedules import SCHEDULES
from neuro_divergent.conformance.sources import SOURCES
from neuro_divergent.conformance.suite import ConformanceFailure, Suite

MODEL_CHECKS = MODELS.names
"""Names of the checks that `check_model` runs."""
LOSS_CHECKS = LOSSES.names
"""Names of the checks that `check_loss` runs."""
OPTIMIZER_CHECKS = OPTIMIZERS.names
"""Names of the checks that `check_optimizer` runs."""
SCALER_CHECKS = SCALERS.names
"""Names of the checks that `check_scaler` runs."""
SCHEDULE_CHECKS = SCHEDULES.names
"""Names of the checks that `check_schedule` runs."""
SOURCE_CHECKS = SOURCES.names
"""Names of the checks that `check_source` runs."""

check_model = MODELS.run
"""check_model(model, name): run one check on a model's description, or on every example of its class."""
check_loss = LOSSES.run
"""check_loss(loss, name): run one check on a loss's description, or on every example of its class."""
check_optimizer = OPTIMIZERS.run
"""check_optimizer(optimizer, name): run one check on an optimizer's description, or on every example of its class."""
check_scaler = SCALERS.run
"""check_scaler(scaler, name): run one check on a window scaler or a series scaler, an object or a class."""
check_schedule = SCHEDULES.run
"""check_schedule(schedule, name): run one check on a schedule's description, or on every example of its class."""
check_source = SOURCES.run
"""check_source(source, name): run one check on a source of batches for a Trainer."""

__all__ = [
    "EXPORT_EXCEPTIONS",
    "LOSS_CHECKS",
    "MODEL_CHECKS",
    "OPTIMIZER_CHECKS",
    "SCALER_CHECKS",
    "SCHEDULE_CHECKS",
    "SOURCE_CHECKS",
    "ConformanceFailure",
    "Suite",
    "check_loss",
    "check_model",
    "check_optimizer",
    "check_scaler",
    "check_schedule",
    "check_source",
    "loss_examples",
    "model_examples",
    "optimizer_examples",
    "schedule_examples",
]
