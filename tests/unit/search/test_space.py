"""The search space: what its names reach, what a point means, and what is refused."""

import math

import numpy as np
import optuna
import pytest

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError

optuna.logging.set_verbosity(optuna.logging.WARNING)

MLP = nd.MLP(h=12, input_size=24)


def mixed_space():
    """A space that chooses the model, the optimizer and its own fields."""
    return nd.SearchSpace(
        learning_rate=nd.loguniform(1e-5, 1e-1),
        dropout=nd.uniform(0, 0.5),
        num_layers=nd.integers(1, 4),
        hidden_size=nd.choice(64, 128, 256),
        model_type=nd.choice("LSTM", "Transformer", "DLinear", nd.NHITS(h=12, input_size=24, dropout=0.2)),
        optimizer=nd.choice("AdamW", {"kind": "SGD", "momentum": nd.uniform(0.5, 0.99)}),
        weight_decay=nd.loguniform(1e-6, 1e-1),
    )


def ask(space, **values):
    return space.suggest(optuna.trial.FixedTrial(values))


def test_short_names_and_paths_reach_the_model_the_training_and_its_optimizer():
    space = nd.SearchSpace(
        dimensions={
            "hidden_size": nd.choice(8, 16),
            "batch_size": nd.choice(32, 64),
            "learning_rate": nd.loguniform(1e-4, 1e-1),
            "optimizer.weight_decay": nd.uniform(0, 0.1),
            "max_norm": nd.choice(0.5, 1.0),
            "early_stopping.patience": nd.integers(3, 20),
            "l2": nd.loguniform(1e-6, 1e-2),
        }
    )
    space.check(MLP)
    point = {
        "hidden_size": 16,
        "batch_size": 64,
        "learning_rate": 0.01,
        "optimizer.weight_decay": 0.05,
        "max_norm": 0.5,
        "early_stopping.patience": 4,
        "l2": 1e-3,
    }
    model, config = space.apply(point, MLP)
    assert model == nd.MLP(h=12, input_size=24, hidden_size=16)
    assert config.batch_size == 64
    resolved = config.resolved(model.recipe(1000))
    assert (resolved.optimizer.learning_rate, resolved.optimizer.weight_decay) == (0.01, 0.05)
    assert isinstance(resolved.optimizer, nd.AdamW)
    assert resolved.gradient_clipping == nd.ClipByNorm(0.5)
    assert resolved.early_stopping.patience == 4
    assert resolved.regularization == nd.Regularization(l2=1e-3)


def test_a_point_leaves_model_and_config_as_they_are():
    config = nd.TrainingConfig(optimizer=nd.SGD(learning_rate=0.1, momentum=0.8), max_epochs=3)
    space = nd.SearchSpace(learning_rate=nd.loguniform(1e-4, 1e-1))
    _, changed = space.apply({"learning_rate": 0.001}, MLP, config)
    assert changed.optimizer == nd.SGD(learning_rate=0.001, momentum=0.8)
    assert config.optimizer.learning_rate == 0.1
    assert changed.max_epochs == 3


def test_names_that_the_chosen_model_lacks_are_not_asked_for():
    space = mixed_space()
    space.check()
    linear = ask(space, model_type="DLinear", optimizer="AdamW", learning_rate=1e-3, weight_decay=1e-3)
    assert linear.keys() == {"model_type", "optimizer", "learning_rate", "weight_decay"}
    nhits = ask(space, model_type="NHITS", optimizer="AdamW", learning_rate=1e-3, weight_decay=1e-3, dropout=0.1)
    assert "num_layers" not in nhits
    assert nhits["dropout"] == 0.1


def test_other_words_are_understood():
    values = {"dropout": 0.1, "num_layers": 3, "hidden_size": 64, "learning_rate": 1e-3, "weight_decay": 1e-3}
    space = mixed_space()
    model, _ = space.apply(ask(space, model_type="Transformer", optimizer="AdamW", **values), None)
    assert model == nd.VanillaTransformer(h=12, input_size=24, dropout=0.1, encoder_layers=3, hidden_size=64)
    model, _ = space.apply(ask(space, model_type="LSTM", optimizer="AdamW", **values), None)
    assert model == nd.LSTM(h=12, input_size=24, dropout=0.1, layers=3, hidden_size=64)
    rates = nd.SearchSpace(lr=nd.loguniform(1e-4, 1e-1), lookback=nd.choice(24, 48), n_epochs=nd.choice(3, 5))
    rates.check(MLP)
    model, config = rates.apply({"lr": 0.02, "lookback": 48, "n_epochs": 5}, MLP)
    assert (model.input_size, config.max_epochs) == (48, 5)
    assert config.learning_rate == 0.02


def test_an_option_may_have_dimensions_of_its_own():
    space = mixed_space()
    values = {"model_type": "DLinear", "learning_rate": 0.05, "weight_decay": 1e-3}
    point = ask(space, optimizer="SGD", **values, **{"optimizer.SGD.momentum": 0.75})
    assert point["optimizer.SGD.momentum"] == 0.75
    _, config = space.apply(point, None)
    assert config.optimizer == nd.SGD(learning_rate=0.05, momentum=0.75, weight_decay=1e-3)
    assert not any("momentum" in name for name in ask(space, optimizer="AdamW", **values))


def test_a_chosen_description_has_its_own_fields():
    space = nd.SearchSpace(model=nd.choice(nd.NHITS(h=12, input_size=24, dropout=0.2), nd.MLP(h=12, input_size=36)))
    assert space.apply({"model": "NHITS"}, None)[0] == nd.NHITS(h=12, input_size=24, dropout=0.2)
    assert space.apply({"model": "MLP"}, None)[0].input_size == 36


def test_options_of_one_kind_are_told_apart():
    widths = nd.choice(nd.MLP(h=2, input_size=4, hidden_size=8), nd.MLP(h=2, input_size=4, hidden_size=9))
    assert widths.labels == ("MLP(h=2, hidden_size=8, input_size=4)", "MLP(h=2, hidden_size=9, input_size=4)")


def test_lists_and_none_are_values():
    space = nd.SearchSpace(pooling=nd.choice([2, 2, 1], [8, 4, 1]), anchor=nd.choice(None, "last"))
    model = nd.NHITS(h=12, input_size=24)
    assert space.default_point(model) == {"pooling": "[2, 2, 1]", "anchor": None}
    changed, _ = space.apply({"pooling": "[8, 4, 1]", "anchor": "last"}, model)
    assert (changed.pooling, changed.anchor) == ((8, 4, 1), "last")


def test_a_number_may_stand_for_a_description():
    space = nd.SearchSpace(gradient_clipping=nd.uniform(0.5, 2.0))
    space.check(MLP)
    assert space.apply({"gradient_clipping": 0.7}, MLP)[1].gradient_clipping == nd.ClipByNorm(0.7)


def test_the_defaults_are_a_point():
    """The rate of the recipe of perceptrons is 1e-3, its weight decay 0.01 (docs/training.md)."""
    space = nd.SearchSpace(
        learning_rate=nd.loguniform(1e-4, 1e-2), weight_decay=nd.uniform(0, 0.1), hidden_size=nd.choice(256, 512)
    )
    assert space.default_point(MLP) == {"learning_rate": 1e-3, "weight_decay": 0.01, "hidden_size": 512}
    assert space.default_point(nd.MLP(h=12, input_size=24, hidden_size=300)) is None
    config = nd.TrainingConfig(learning_rate=5e-3, optimizer="SGD")
    assert space.default_point(MLP, config)["learning_rate"] == 5e-3
    base = mixed_space().default_point(None)
    assert (base["model_type"], base["dropout"]) == ("NHITS", 0.2)


def test_what_the_data_decide_is_left_out_of_the_default_point():
    space = nd.SearchSpace(batch_size=nd.choice(32, 64), dropout=nd.uniform(0, 0.5))
    assert space.default_point(MLP) == {"dropout": 0.0}
    with_auto = nd.SearchSpace(batch_size=nd.choice("auto", 32, 64))
    assert with_auto.default_point(MLP) == {"batch_size": "auto"}
    assert with_auto.apply({"batch_size": "auto"}, MLP)[1].batch_size == "auto"


def test_a_grid_has_the_values_of_numpy():
    space = nd.SearchSpace(
        dropout=nd.uniform(0, 0.5), learning_rate=nd.loguniform(1e-4, 1e-1), layers=nd.integers(1, 3)
    )
    points = list(space.grid(4))
    assert len(points) == space.grid_size(4) == 4 * 4 * 3
    assert len({tuple(point.items()) for point in points}) == 48
    np.testing.assert_allclose(sorted({point["dropout"] for point in points}), np.linspace(0, 0.5, 4))
    np.testing.assert_allclose(sorted({point["learning_rate"] for point in points}), np.geomspace(1e-4, 1e-1, 4))


def test_a_grid_counts_only_what_the_chosen_model_has():
    """DLinear has neither dropout nor layers: 3 rates. LSTM has both: 3 rates × 3 dropouts × 2 layers."""
    space = nd.SearchSpace(
        model=nd.choice("DLinear", "LSTM"),
        learning_rate=nd.loguniform(1e-4, 1e-2),
        dropout=nd.uniform(0, 0.5),
        layers=nd.integers(1, 2),
    )
    points = list(space.grid(3))
    assert len(points) == space.grid_size(3) == 3 + 3 * 3 * 2
    assert sum(point["model"] == "DLinear" for point in points) == 3


def narrow_is_shallow(point):
    return point["hidden_size"] > 8 or point["layers"] == 1


def test_constraints_leave_points_out_and_go_to_files_by_name():
    space = nd.SearchSpace(hidden_size=nd.choice(8, 16), layers=nd.integers(1, 2)).where(narrow_is_shallow)
    assert list(space.grid(2)) == [
        {"hidden_size": 8, "layers": 1},
        {"hidden_size": 16, "layers": 1},
        {"hidden_size": 16, "layers": 2},
    ]
    with pytest.raises(ConfigError, match="narrow_is_shallow"):
        nd.SearchSpace.from_json(space.to_json())
    assert nd.SearchSpace.from_json(space.to_json(), using={"narrow_is_shallow": narrow_is_shallow}) == space


def test_a_space_is_a_description():
    space = mixed_space().enqueue({"learning_rate": 0.01, "model_type": "LSTM"})
    again = nd.SearchSpace.from_json(space.to_json())
    assert again == space
    assert nd.SearchSpace.from_yaml(space.to_yaml()).fingerprint() == space.fingerprint()
    assert space.first == ({"learning_rate": 0.01, "model_type": "LSTM"},)
    assert mixed_space().fingerprint() == space.fingerprint()
    assert space.add(batch_size=[32, 64]).fingerprint() != space.fingerprint()


def test_a_run_file_may_write_a_choice_as_a_list():
    text = "hidden_size: [64, 128]\nlearning_rate: {kind: loguniform, low: 1.0e-5, high: 0.1}\n"
    expected = nd.SearchSpace(hidden_size=nd.choice(64, 128), learning_rate=nd.loguniform(1e-5, 1e-1))
    assert nd.SearchSpace.from_yaml(text) == expected


def test_the_chain_gives_the_same_space():
    chain = (
        nd.SearchSpace()
        .add_categorical("model", ["LSTM", "GRU"])
        .add_categorical("activation", ["relu", "gelu"])
        .add_discrete("hidden_size", [64, 128])
        .add_continuous("learning_rate", 1e-5, 1e-1, log_scale=True)
        .add_continuous("dropout", 0.0, 0.5)
    )
    assert chain == nd.SearchSpace(
        model=nd.choice("LSTM", "GRU"),
        activation=nd.choice("relu", "gelu"),
        hidden_size=nd.choice(64, 128),
        learning_rate=nd.loguniform(1e-5, 1e-1),
        dropout=nd.uniform(0, 0.5),
    )


def test_random_points_lie_in_the_space_and_can_be_applied():
    space, study = mixed_space(), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(20):
        point = space.suggest(study.ask())
        assert space.point(point) == point
        model, config = space.apply(point, None)
        assert config.resolved(model.recipe(100)).optimizer.learning_rate == pytest.approx(point["learning_rate"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nd.uniform(2, 1), "low=2.0 > high=1.0"),
        (lambda: nd.uniform(1, 1), "two different ends"),
        (lambda: nd.uniform(0, 1, step=0.3), "must be a multiple of step"),
        (lambda: nd.loguniform(0, 1), "low > 0"),
        (lambda: nd.integers(0, 8, log=True), "low > 0"),
        (lambda: nd.integers(1, 8, step=2), "must be a multiple of step"),
        (lambda: nd.uniform(0, math.inf), "finite"),
        (lambda: nd.choice(1), "two values or more"),
        (lambda: nd.choice(), "two values or more"),
        (lambda: nd.choice(64, 128, 64), "64 twice"),
        (lambda: nd.choice(1, True), "twice"),
        (lambda: nd.choice({"momentum": 0.9}, "SGD"), "needs its kind"),
        (lambda: nd.choice(object(), 1), "but got object"),
        (lambda: nd.SearchSpace(dropout=0.5), "must be a range or a choice"),
        (lambda: nd.SearchSpace(seed=nd.integers(1, 5)), "averaged, not searched"),
        (lambda: nd.SearchSpace(h=nd.integers(1, 5)), "cannot be compared"),
        (lambda: nd.SearchSpace(dropout=[0.1, 0.2]).add(dropout=[0.3, 0.4]), "'dropout' already"),
        (lambda: nd.SearchSpace(dropout=[0.1, 0.2]).enqueue({"dropout": 0.7}), "dropout: the value must lie in"),
        (lambda: nd.SearchSpace(dropout=[0.1, 0.2]).enqueue({"dropuot": 0.1}), "did you mean dropout"),
    ],
)
def test_what_is_no_space_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"hiden_size": [64, 128]}, "did you mean hidden_size"),
        ({"momentum": [0.8, 0.9]}, "no field of MLP, nor of the training"),
        ({"lr": [1e-3, 1e-2], "learning_rate": [1e-3, 1e-2]}, "reach the same field"),
        ({"optimizer.learning_rate": [1e-3, 1e-2], "learning_rate": [1e-3, 1e-2]}, "reach the same field"),
        ({"dropout": nd.uniform(0, 1.5)}, "does not take 1.5"),
        ({"model": ["LSTMM", "GRU"]}, "did you mean LSTM"),
        ({"model": nd.uniform(0, 1)}, "model must be a choice"),
        ({"optimizer": nd.uniform(0, 1)}, "does not take 0.0"),
        ({"model": ["LSTM", nd.NHITS(h=24, input_size=24)]}, "same horizon"),
    ],
)
def test_a_space_is_checked_against_its_model(space, words):
    with pytest.raises(ConfigError, match=words):
        nd.SearchSpace(dimensions=space).check(MLP)


def test_an_ambiguous_name_needs_its_path():
    model, space = nd.LSTM(h=1, input_size=2), nd.SearchSpace(warmup=nd.choice(1, 2))
    with pytest.raises(ConfigError, match=r"schedule\.warmup or early_stopping\.warmup"):
        space.check(model)
    nd.SearchSpace(dimensions={"early_stopping.warmup": nd.choice(1, 2)}).check(model)


def test_a_space_of_names_needs_a_model_with_sizes():
    space = nd.SearchSpace(model=nd.choice("LSTM", "GRU"))
    with pytest.raises(ConfigError, match="needs a model with its sizes"):
        space.check()
    space.check(MLP)
    assert space.apply({"model": "GRU"}, MLP)[0] == nd.GRU(h=12, input_size=24)


def test_a_large_grid_is_refused_before_it_is_made():
    space = nd.SearchSpace(
        learning_rate=nd.loguniform(1e-5, 1e-1), dropout=nd.uniform(0, 0.5), layers=nd.integers(1, 4)
    )
    with pytest.raises(ConfigError, match="this one has 40,000: learning_rate 100 × dropout 100 × layers 4"):
        space.grid(100)
    assert next(space.grid(100, most=None)) == {"learning_rate": 1e-5, "dropout": 0.0, "layers": 1}


def test_an_impossible_point_gives_the_reason():
    space = nd.SearchSpace(heads=nd.choice(4, 8), hidden_size=nd.choice(64, 100))
    model = nd.VanillaTransformer(h=4, input_size=8)
    with pytest.raises(ConfigError, match="heads"):
        space.apply({"heads": 8, "hidden_size": 100}, model)
