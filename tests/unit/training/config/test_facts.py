"""Every field says what each way of training does with it, and the ways of training believe it."""

from typing import Any

import numpy as np
import pytest
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.compiled import full_step
from neuro_divergent.training.compiled.full_step import impossible, obstacle
from neuro_divergent.training.config import rules
from neuro_divergent.training.config.facts import ANY, OFF, SAME, Facts, Limit, Refused, checked, only, option
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.stacked import eligibility
from neuro_divergent.training.stacked.eligibility import agree, config_obstacle
from neuro_divergent.training.trainer import prepare

PLAIN: dict[str, Any] = {
    "resume": "fixed",
    "compile": ANY,
    "stack": ANY,
    "arrays": ANY,
    "process": "json",
    "distributed": "same",
}
SETTLED = {"max_epochs": 1, "optimizer": nd.AdamW(), "gradient_clipping": None, "loss": nd.MSE(), "progress": False}
X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)


def configured(value: Any, default: Any = None, **facts: Any) -> nd.TrainingConfig:
    """A configuration with one field more, `privacy`, that has these facts."""

    class Extended(nd.TrainingConfig):
        privacy: Any = option(default, **PLAIN | facts)
        """Noise."""

    return Extended(**SETTLED, privacy=value)


def test_every_field_declares_all_facts():
    facts = nd.TrainingConfig.facts()

    assert list(facts) == list(nd.TrainingConfig.model_fields)
    for name, one in facts.items():
        assert isinstance(one, Facts), name
        assert one.resume in ("free", "changeable", "fixed"), name
        assert all(isinstance(limit, Limit) for limit in (one.compile, one.stack, one.arrays)), name
        assert one.process in ("json", "live"), name
        assert one.distributed in ("same", "main") or (isinstance(one.distributed, Refused) and one.distributed.why)


@pytest.mark.parametrize(
    ("way", "checks"),
    [("compile", full_step.CHECKS), ("stack", eligibility.CHECKS), ("arrays", rules.ARRAY_CHECKS)],
)
def test_every_check_that_a_fact_names_is_there_and_every_check_is_named(way, checks):
    limits = [getattr(facts, way) for facts in nd.TrainingConfig.facts().values()]
    assert {limit.check for limit in limits if limit.check is not None} == set(checks)


def test_a_field_without_facts_is_refused_when_its_class_is_made():
    with pytest.raises(nd.ConfigError, match="every field of Silent must declare its facts, but privacy has none"):

        class Silent(nd.TrainingConfig):
            privacy: float | None = None

    with pytest.raises(TypeError, match="distributed"):
        option(None, **{name: fact for name, fact in PLAIN.items() if name != "distributed"})


def test_a_limit_of_a_new_field_is_kept_by_every_way_of_training():
    assert configured(0.5).privacy == 0.5
    assert obstacle(configured(0.5)) is config_obstacle(configured(0.5)) is None

    assert impossible(configured(0.5, compile=OFF)) == "privacy is set"
    assert impossible(configured(None, compile=OFF)) is None
    assert impossible(configured("b", default="a", compile=only("a"))) == "privacy is 'b'"
    assert config_obstacle(configured(0.5, stack=OFF)) == "privacy is about one run"
    assert config_obstacle(configured("b", default="a", stack=only("a", "c"))) == "privacy is not 'a' or 'c'"
    with pytest.raises(nd.ConfigError, match=r"takes privacy=None, but got privacy=0\.5"):
        nd.Trainer(configured(0.5, arrays=OFF)).fit(nn.Linear(2, 1), (X, X[:, :1]))


def test_a_trainer_on_arrays_is_not_restarted_in_another_process():
    def fit(retries):
        config = nd.TrainingConfig(**SETTLED, fault_tolerance=nd.FaultTolerance(retries=retries))
        return nd.Trainer(config).fit(nn.Linear(2, 1), (X, X[:, :1]))

    assert len(fit(0)) == 1
    with pytest.raises(nd.ConfigError, match=r"builds its module there.*retries=0"):
        fit(1)


def test_a_limit_at_the_start_does_not_end_a_compiled_run():
    config = configured(0.5, compile=Limit(values=(None,), at_start=True))
    assert obstacle(config) == "privacy is set"
    assert impossible(config) is None


def test_a_check_that_nobody_knows_refuses():
    assert impossible(configured(0.5, compile=checked("mine"))) == "nothing here knows privacy"
    assert config_obstacle(configured(0.5, stack=checked("mine"))) == "nothing here knows privacy"


def member(config):
    from neuro_divergent.core.devices import resolve_device
    from neuro_divergent.data.windows.samplers import Sequential
    from neuro_divergent.training.arrays import ArraySource, ArrayTask, as_rows
    from neuro_divergent.training.state.precision import Precision

    config = config.resolved()
    device = resolve_device("cpu")
    precision = Precision(config.precision, device, config.loss_scale)
    rows = as_rows((X, X[:, :1]), config.loss, device, precision.dtype)
    state = prepare(nn.Linear(2, 1), config, ArraySource(rows, Sequential(n=40, batch_size=8)), None, precision)
    return ArrayTask(config.loss), state


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ({}, {}, True),
        ({"seed": 1}, {"seed": 2}, True),
        ({"threads": 1}, {"threads": 2}, False),
        ({"deterministic": True}, {}, False),
        ({"precision": "float64"}, {}, False),
        ({"freeze": ("bias",)}, {}, False),
        ({"gradient_clipping": nd.ClipByNorm(1.0)}, {"gradient_clipping": nd.ClipByNorm(2.0)}, False),
        ({"optimizer": nd.AdamW(learning_rate=0.1)}, {"optimizer": nd.AdamW(learning_rate=0.2)}, True),
        ({"optimizer": nd.AdamW(betas=(0.8, 0.9))}, {}, False),
        ({"optimizer": nd.SGD()}, {}, False),
        ({"loss": nd.Quantile(q=0.1)}, {"loss": nd.Quantile(q=0.9)}, True),
        ({"loss": nd.MAE()}, {}, False),
    ],
)
def test_members_of_a_stack_agree_as_the_facts_say(one, other, together):
    first, second = (member(nd.TrainingConfig(**SETTLED | fields)) for fields in (one, other))
    assert agree(first, second) is together


def test_a_new_field_that_must_be_the_same_parts_a_stack():
    config = configured(0.5, stack=SAME)
    assert agree(member(config), member(config.replace(privacy=0.5)))
    assert not agree(member(config), member(config.replace(privacy=0.6)))


def double(output, target):
    return 2 * (output - target).abs()


def test_callables_and_live_objects_are_named_where_files_cannot_hold_them():
    class Own(nd.Callback):
        pass

    config = nd.TrainingConfig(loss=double, callbacks=(nd.Timer(), Own()))
    assert not_in_files(config) == ["Own", f"{double.__module__}:double"]
    assert not_in_files(configured(double)) == [f"{double.__module__}:double"]
    plain = nd.TrainingConfig(freeze=("reference",), callbacks=(nd.Timer(),), loss=nd.MQLoss(level=[80]))
    assert not_in_files(plain) == []


def test_facts_are_no_part_of_files_and_schemas():
    config = nd.TrainingConfig(max_epochs=3)
    assert nd.TrainingConfig.from_json(config.to_json()) == config
    properties = nd.TrainingConfig.model_json_schema()["properties"]
    assert not {"facts", "resume", "stack"} & properties["max_epochs"].keys()


def test_a_resumed_run_follows_the_facts(tmp_path):
    run = nd.Checkpoints(tmp_path / "run", every_n_steps=1)
    config = nd.TrainingConfig(**SETTLED | {"max_steps": 2, "max_epochs": None}, checkpoints=run, batch_size=8)
    nd.Trainer(config).fit(nn.Linear(2, 1), (X, X[:, :1]))

    def resumed(changes=None, **fields):
        given = config.replace(**fields)
        return nd.Trainer(given).fit(nn.Linear(2, 1), (X, X[:, :1]), resume="auto", resume_with=changes)

    resumed(log_every=3)  # free
    with pytest.raises(nd.StorageError, match="validate_every was 1, but is 2"):
        resumed(validate_every=2)  # changeable, not named
    resumed({"validate_every": 2})
    with pytest.raises(nd.ConfigError, match="but got seed"):
        resumed({"seed": 2})  # fixed
