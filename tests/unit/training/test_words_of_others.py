"""Words of other libraries at the places where people type them."""

import numpy as np
import pytest
from torch import nn

import neuro_divergent as nd

X = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
Y = X[:, :1]
ONE = nd.TrainingConfig(max_epochs=1, progress=False)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("on_step_end", "on_batch_end"), ("on_train_begin", "on_fit_start"), ("on_epoch_begin", "on_epoch_start"),
     ("on_train_epoch_end", "on_epoch_end"), ("on_validation_epoch_end", "on_validation_end")],
)  # fmt: skip
def test_a_hook_of_another_library_is_answered_with_ours(theirs, ours):
    with pytest.raises(nd.NeuroDivergentError, match=f"did you mean {ours}?"):
        type("Mine", (nd.Callback,), {theirs: lambda self, state: None})


def test_validate_epoch_and_predict_take_the_module_first_like_train_epoch():
    module, trainer = nn.Linear(2, 1), nd.Trainer(ONE.replace(max_epochs=2))
    trainer.train_epoch(module, (X, Y))
    scores = trainer.validate_epoch(module, (X, Y))
    assert scores == trainer.validate_epoch((X, Y))
    assert (trainer.predict(module, X) == trainer.predict(X)).all()
    with pytest.raises(nd.NeuroDivergentError, match="got another one"):
        trainer.validate_epoch(nn.Linear(2, 1), (X, Y))


def test_validate_epoch_scores_a_module_before_any_training():
    module, trainer = nn.Linear(2, 1), nd.Trainer(ONE)
    before = [parameter.clone() for parameter in module.parameters()]
    found = trainer.validate_epoch(module, (X, Y))["validation_loss"]
    by_hand = float(((nd.Trainer(ONE).predict(X, module=module).numpy() - Y) ** 2).mean())
    assert found == pytest.approx(by_hand, rel=1e-5)
    assert all((one == other).all() for one, other in zip(before, module.parameters(), strict=True))
    assert "train_loss" in trainer.train_epoch(module, (X[:16], Y[:16]))  # other rows than those that were scored


def test_windows_take_a_table_or_say_what_they_take():
    frame = nd.samples.air_passengers()
    table = nd.TimeSeriesDataFrame.from_frame(frame)
    assert len(nd.Windows(table, lookback=24, horizon=12)) == len(nd.Windows(table.store, lookback=24, horizon=12))
    with pytest.raises(nd.NeuroDivergentError, match="cut from a TimeSeriesDataFrame"):
        nd.Windows(frame, lookback=24, horizon=12)


class Overshoot(nd.metrics.Metric):
    """Mean overshoot."""

    def values(self, actual, forecast):
        return (forecast - actual).clamp(min=0)


@pytest.mark.parametrize("name", ["overshoot", "Overshoot", "validation_overshoot"])
def test_an_own_metric_is_followed_in_any_case(name):
    config = ONE.replace(metrics=[Overshoot()], early_stopping=nd.EarlyStopping(monitor=name))
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(nd.samples.air_passengers(), config)
    assert fitted.config.early_stopping.monitor == "validation_Overshoot"


def halved(actual, forecast):
    return (forecast - actual).abs() / 2


def test_a_search_is_scored_by_a_function():
    space = nd.SearchSpace(hidden_size=nd.choice(2, 4))
    search = nd.RandomSearch(space, model=nd.MLP(h=4, input_size=8), config=ONE, n_trials=2, scoring=halved)
    assert search.fit(nd.samples.air_passengers()).best.point["hidden_size"] in (2, 4)


def test_the_table_of_fit_has_a_name_of_its_own():
    several = nd.NeuralForecast([nd.NLinear(h=4, input_size=8)])
    with pytest.raises(nd.ConfigError, match=r"but got df: write fit\(df\)"):
        several.fit(df=nd.samples.air_passengers())
    with pytest.raises(nd.ConfigError, match="but got none"):
        several.fit()
