"""The default spaces: every model has one, its defaults lie in it, and random points of it build a network."""

import optuna
import pytest

import neuro_divergent as nd
from neuro_divergent.core import registry
from neuro_divergent.core.batch import InputSpec
from neuro_divergent.search.space.default_spaces import OWN

optuna.logging.set_verbosity(optuna.logging.WARNING)

WRAPS_ANOTHER = {"HINT"}
NEEDS_FILES = {"TimeLLM"}
MODELS = {
    kind: cls
    for kind, cls in registry.members("model").items()
    if kind not in WRAPS_ANOTHER and cls.__module__.startswith("neuro_divergent.")
}


def described(kind):
    """With a window of which no multiple of the horizon is the default."""
    return MODELS[kind](h=6, input_size=20, **({"llm": "directory"} if kind in NEEDS_FILES else {}))


def test_every_model_of_the_library_has_a_line():
    assert OWN.keys() == MODELS.keys()


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_the_defaults_lie_in_the_space_and_random_points_build(kind):
    model = described(kind)
    space = model.search_space()
    space.check(model)
    point = space.default_point(model)
    assert point is not None
    assert space.apply(point, model)[0].to_dict() == model.to_dict()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=7))
    series = 3 if model.capabilities.multivariate else 1
    for _ in range(3):
        changed, _config = space.apply(space.suggest(study.ask()), model)
        if kind not in NEEDS_FILES:
            changed.build(InputSpec(horizon=6, lookback=changed.input_size, series=series))


def test_the_space_has_the_lookback_in_horizons_and_the_fields_of_the_user():
    space = nd.MLP(h=10, input_size=24, hidden_size=300).search_space()
    assert space.dimensions["input_size"] == nd.choice(10, 20, 24, 30, 50, 70)
    assert space.dimensions["hidden_size"] == nd.choice(128, 256, 300, 512, 1024)
    assert space.dimensions["learning_rate"] == nd.loguniform(1e-4, 1e-2)


def test_a_rate_outside_of_the_usual_range_widens_it():
    space = nd.MLP(h=10, input_size=24).search_space(nd.TrainingConfig(learning_rate=0.5))
    assert space.dimensions["learning_rate"] == nd.loguniform(1e-4, 0.5)


def test_a_model_around_another_one_is_searched_over_the_inner_one():
    hierarchy = {"total": [1, 1], "a": [1, 0], "b": [0, 1]}
    model = nd.HINT(model=nd.MLP(h=6, input_size=20), S=hierarchy)
    space = model.search_space()
    space.check(model)
    changed, _ = space.apply(space.default_point(model) | {"hidden_size": 128, "input_size": 12}, model)
    assert changed.model.hidden_size == 128
    assert changed.input_size == changed.model.input_size == 12


def test_a_model_of_a_plugin_is_searched_over_what_it_shares():
    class Narrow(nd.Model):
        """A model that is not in the library."""

        dropout: float = 0.1

        def build(self, spec):
            raise AssertionError

    space = Narrow(h=6, input_size=20).search_space()
    assert space.dimensions.keys() == {"learning_rate", "batch_size", "input_size", "scaler", "anchor", "dropout"}
