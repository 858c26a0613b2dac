"""The Auto classes of neuralforecast: their configurations in both forms, defaults, results, and what is refused.

test_migration.py compares whole scripts with what the peer gave.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import optuna
import pytest

from neuro_divergent.compat.neuralforecast import NeuralForecast, auto
from neuro_divergent.compat.neuralforecast.models import MLP, NHITS
from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset
from neuro_divergent.compat.neuralforecast.utils import AirPassengersPanel
from neuro_divergent.compat.ray import tune
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, NotFittedError, UnknownNameError

DATA = AirPassengersPanel[["unique_id", "ds", "y"]]
FIXED = {"input_size": 24, "max_steps": 4, "val_check_steps": 2, "batch_size": 4, "hidden_size": 8}
NAMES = [name for name in auto.__all__ if name not in ("AutoHINT", "BaseAuto", "OptunaOptions", "RayOptions")]
SPACES = json.loads((Path(__file__).parent / "records" / "auto_spaces.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_default_space_is_that_of_the_peer(name):
    """Recorded from neuralforecast 3.3: arguments, choices and ranges."""
    counted = {"n_series": 2} if "n_series" in getattr(auto, name).default_config else {}
    found = getattr(auto, name).get_default_config(h=12, backend="ray", **counted)
    assert {key: described(value) for key, value in found.items()} == SPACES[name]
    model = getattr(auto, name)(h=12, backend="optuna", **counted)
    getattr(auto, name)(12, *counted.values())  # by position, the form of Ray
    assert repr(model) == name
    assert model.member.description.h == 12


def described(value):
    """A domain as plain data, ours or Ray's."""
    domain = tune.read_domain(value)
    if domain is None:
        return value
    if domain.options:
        return [list(one) if isinstance(one, tuple) else one for one in domain.options]
    step = getattr(domain.dimension, "step", None)
    return [domain.dimension.kind, domain.dimension.low, domain.dimension.high, step]


def test_all_but_one_of_the_classes_are_there():
    assert len(NAMES) + 1 == 35  # with AutoHINT
    with pytest.raises(UnknownNameError, match="AutoSOFTS is the nearest"):
        _ = auto.AutoSOFTSSharp
    with pytest.raises(UnknownNameError, match="did you mean AutoNHITS"):
        _ = auto.AutoNHIT


def test_a_search_finds_the_better_width():
    """One width cannot learn: its rate is zero steps long."""
    config = FIXED | {"max_steps": tune.grid_search([0, 60]), "val_check_steps": 20, "scaler_type": "standard"}
    nf = NeuralForecast([auto.AutoMLP(h=12, config=config, num_samples=1)], freq="ME")
    nf.fit(DATA, val_size=12)
    results = nf.models[0].results
    assert len(results) == 2
    assert results.get_best_result().config["max_steps"] == 60
    assert nf.models[0].model.max_steps == 60
    assert isinstance(nf.models[0].model, MLP)
    losses = [one.metrics["loss"] for one in results]
    assert results.get_best_result().metrics["loss"] == min(losses) < max(losses)


def test_trials_do_not_see_the_test_rows():
    """A fold of a table whose last rows are changed: neither the scores of the trials nor the forecasts may change."""
    config = FIXED | {"learning_rate": tune.loguniform(1e-3, 1e-1)}
    changed = DATA.copy()
    last = changed.groupby("unique_id").tail(12).index
    changed.loc[last, "y"] *= 100
    losses, forecasts = [], []
    for data in (DATA, changed):
        nf = NeuralForecast([auto.AutoMLP(h=12, config=config, num_samples=2)], freq="ME")
        forecasts.append(nf.cross_validation(data, n_windows=1)["AutoMLP"].to_numpy())
        losses.append([one.metrics["loss"] for one in nf.models[0].results])
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(forecasts[0], forecasts[1])
    assert np.isfinite(forecasts[0]).all()


def test_domains_of_ray_mean_the_same():
    rays = pytest.importorskip("ray.tune")
    fixed = optuna.trial.FixedTrial
    for theirs, ours, value in [
        (rays.choice([1, 2]), tune.choice([1, 2]), 2),
        (rays.uniform(0, 1), tune.uniform(0, 1), 0.25),
        (rays.quniform(500, 1500, 100), tune.quniform(500, 1500, 100), 700.0),
        (rays.loguniform(1e-4, 1e-1), tune.loguniform(1e-4, 1e-1), 1e-2),
        (rays.randint(1, 4), tune.randint(1, 4), 3),
        (rays.qrandint(2, 8, 2), tune.qrandint(2, 8, 2), 6),
        (rays.lograndint(1, 65), tune.lograndint(1, 65), 64),
    ]:
        read = tune.read_domain(theirs)
        assert read == ours
        assert read.suggest(fixed({"x": value}), "x") == value
    assert tune.read_domain(rays.randint(1, 4)).dimension.high == 3  # whole numbers of Ray end before the upper one
    assert tune.read_domain(rays.sample_from(lambda spec: 1)).function is not None
    assert tune.read_domain(rays.randn(2.0, 1.0)).suggest(fixed({"x": 0.5}), "x") == pytest.approx(2.0)


def test_values_that_depend_on_others_and_grids():
    config = {
        "hidden_size": tune.grid_search([4, 8]),
        "layers": tune.grid_search([1, 2, 3]),
        "double": tune.sample_from(lambda spec: 2 * spec.config.hidden_size),
        "inner": {"rate": tune.choice([0.5])},
    }
    assert tune.combinations(config) == 6
    trials = [optuna.trial.FixedTrial({"inner/rate": 0.5}, number=number) for number in range(6)]
    found = [tune.sampled(config, trial) for trial in trials]
    assert {(one["hidden_size"], one["layers"]) for one in found} == {(a, b) for a in (4, 8) for b in (1, 2, 3)}
    assert all(one["double"] == 2 * one["hidden_size"] and one["inner"] == {"rate": 0.5} for one in found)


def test_options_of_optuna_and_a_sampler():
    seen = []
    model = auto.AutoMLP(
        h=12, config=lambda trial: FIXED | {"random_seed": trial.suggest_int("random_seed", 1, 3)}, backend="optuna",
        search_alg=optuna.samplers.GridSampler({"random_seed": [3]}), num_samples=1,
        callbacks=[lambda study, trial: seen.append(trial.number)],
        optuna_options=auto.OptunaOptions(create_study_kwargs={"study_name": "own"}),
    )  # fmt: skip
    NeuralForecast([model], freq="ME").fit(DATA)
    assert seen == [0]
    assert model.results.study_name == "own"
    assert model.results.best_params == {"random_seed": 3}
    assert model.results.best_trial.user_attrs["ALL_PARAMS"]["hidden_size"] == 8


def test_a_dataset_is_searched_like_a_table():
    data = TimeSeriesDataset.from_df(DATA)[0]
    model = auto.AutoMLP(h=12, config=FIXED | {"learning_rate": tune.choice([1e-3, 1e-2])}, num_samples=2)
    with pytest.raises(NotFittedError, match="has not searched yet"):
        model.predict(data)
    model.fit(data, val_size=12, test_size=12)
    assert model.predict(data).shape == (24, 1)
    assert model.hist_exog_list == []


def test_trials_that_are_impossible_are_left_out():
    """An n_head that does not divide the width fails; the others count."""
    model = auto.AutoTFT(h=12, config=FIXED | {"n_head": tune.grid_search([2, 3])}, num_samples=1)
    NeuralForecast([model], freq="ME").fit(DATA)
    assert (len(model.results), model.results.num_errors) == (2, 1)
    assert model.results.get_best_result().config["n_head"] == 2


def test_what_is_wrong_is_refused():
    config = FIXED | {"learning_rate": tune.choice([1e-3, 1e-2])}
    for call, sentence in [
        (lambda: auto.AutoMLP(h=12, config=lambda trial: FIXED), "For a function of a trial use backend='optuna'"),
        (lambda: auto.AutoMLP(h=12, config=config, backend="optuna"), "For a dictionary of domains use backend='ray'"),
        (lambda: auto.AutoMLP(h=12, config=config, backend="hyperopt"), "backend must be 'ray' or 'optuna'"),
        (lambda: auto.AutoMLP(h=12, config=config | {"h": 3}), "config has h. Move it"),
        (lambda: auto.AutoMLP(h=12, config={"max_steps": 1}), "needs input_size"),
        (lambda: auto.AutoMLP(h=12, config=config | {"hiden_size": 3}), "did you mean hidden_size"),
        (lambda: auto.AutoMLP(h=12, num_samples=0), "num_samples must be at least 1"),
        (lambda: auto.AutoiTransformer(h=12), "needs n_series"),
    ]:
        with pytest.raises(ConfigError, match=sentence):
            call()
    with pytest.warns(UserWarning, match="scheduler have no effect"):
        auto.AutoMLP(h=12, config=config, cpus=1, ray_options=auto.RayOptions(scheduler=object()))
    with pytest.raises(NeuroDivergentError, match="val_size must be 0 or at least"):
        NeuralForecast([auto.AutoMLP(h=12, config=config)], freq="ME").fit(DATA, val_size=3)


def test_a_hierarchy_with_its_reconciliation():
    wide = DATA.pivot_table(index="ds", columns="unique_id", values="y").reset_index()
    wide["total"] = wide["Airline1"] + wide["Airline2"]
    table = wide.melt(id_vars="ds", var_name="unique_id", value_name="y")
    summing = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    config = {name: value for name, value in FIXED.items() if name != "hidden_size"} | {
        "mlp_units": 3 * [[8, 8]], "reconciliation": tune.choice(["BottomUp", "MinTraceOLS"]),
    }  # fmt: skip
    model = auto.AutoHINT(NHITS, 12, None, None, summing, config, num_samples=2, alias="tree")
    nf = NeuralForecast([model], freq="ME")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nf.fit(table, val_size=12)
    found = nf.predict().pivot_table(index="ds", columns="unique_id", values="tree")
    np.testing.assert_allclose(found["total"], found["Airline1"] + found["Airline2"], rtol=1e-4)


def test_a_saved_search_keeps_the_model_and_its_table(tmp_path):
    """Saved with the table: the found configuration forecasts the same, and goes on learning on the stored rows."""
    config = FIXED | {"hidden_size": tune.choice([4, 8])}
    nf = NeuralForecast([auto.AutoMLP(h=6, config=config, num_samples=1), MLP(h=6, **FIXED)], freq="ME")
    nf.fit(DATA, val_size=12)
    expected = nf.predict()
    nf.save(str(tmp_path / "saved"), save_dataset=True)
    loaded = NeuralForecast.load(str(tmp_path / "saved"))
    assert loaded.predict().equals(expected)
    assert loaded.predict_insample().equals(nf.predict_insample())
    loaded.fit(val_size=12)  # on the stored table
    assert list(loaded.predict().columns) == list(expected.columns)
    nf.save(str(tmp_path / "bare"), save_dataset=False)
    assert NeuralForecast.load(str(tmp_path / "bare")).predict(DATA).equals(expected)
