"""point="mean" and point="median": what is shown of a distribution, and what a mean from quantiles is worth."""

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats

import neuro_divergent as nd
from neuro_divergent.models import LSTM, DeepAR

FAST = nd.TrainingConfig(max_steps=30, progress=False)


def two_sided(level, below=1.0, above=3.0):
    """The quantile function of a Laplace distribution with two different sides and median 0."""
    return np.where(level < 0.5, below * np.log(2 * level), -above * np.log(2 * (1 - level)))


@pytest.mark.parametrize("levels", [[0.1, 0.5, 0.9], [0.02, 0.1, 0.3, 0.5, 0.6, 0.95]])
def test_the_mean_of_exponential_sides_is_exact(levels):
    """By hand: each side is exponential with half the probability, so the mean is (above - below) / 2 = 1."""
    loss = nd.MQLoss(quantiles=levels, point="mean")
    output = torch.tensor(two_sided(np.array(levels)))
    assert float(loss.point(output)) == pytest.approx(1.0, abs=1e-12)
    assert float(nd.MQLoss(quantiles=levels).point(output)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    "truth", [stats.norm(10, 2), stats.expon(), stats.lognorm(0.5), stats.lognorm(1.0), stats.gamma(2)]
)
@pytest.mark.parametrize("level", [[80], [80, 90], [50, 80, 90, 98]])
def test_the_mean_of_other_shapes_is_within_five_percent(truth, level):
    """The means are scipy's. The median of the most skewed one, the lognormal, is 39 % below its mean."""
    loss = nd.MQLoss(level=level, point="mean")
    found = float(loss.point(torch.tensor(truth.ppf(loss.levels))))
    assert found == pytest.approx(truth.mean(), rel=0.05)


def test_quantiles_that_do_not_reach_out_give_no_mean():
    for levels in ([0.2, 0.5, 0.9], [0.1, 0.5, 0.8], [0.05, 0.1, 0.9]):
        with pytest.raises(nd.ConfigError, match=r'point="mean" of MQLoss.*must reach from 0.1 or less to 0.9'):
            nd.MQLoss(quantiles=levels, point="mean")
    with pytest.raises(nd.ConfigError, match='point must be "mean" or "median"'):
        nd.MQLoss(point="mode")


def test_the_choice_is_kept_in_files():
    for loss in (
        nd.MQLoss(level=[80], point="mean"),
        nd.ImplicitQuantile(point="mean"),
        nd.DistributionLoss(point="median"),
    ):
        assert loss.to_dict()["point"] in ("mean", "median")
        assert nd.Loss.from_dict(loss.to_dict()) == loss
    old = {name: value for name, value in nd.MQLoss(level=[80]).to_dict().items() if name != "point"}
    assert nd.Loss.from_dict(old) == nd.MQLoss(level=[80])


def test_mean_and_median_of_a_skewed_distribution_agree_with_scipy():
    """A negative binomial with mean m and dispersion a is scipy's nbinom(1/a, 1/(1 + a·m))."""
    raw = torch.tensor([2.0, 1.5], dtype=torch.float64)
    mean, spread = float(torch.nn.functional.softplus(raw[0])), float(torch.nn.functional.softplus(raw[1])) + 1e-4
    truth = stats.nbinom(1 / spread, 1 / (1 + spread * mean))
    loss = nd.DistributionLoss(distribution="NegativeBinomial")
    assert float(loss.point(raw)) == pytest.approx(truth.mean())
    assert float(loss.showing("median").point(raw)) == truth.median()


@pytest.fixture(scope="module")
def skewed():
    """Lognormal noise around nothing: the mean is exp(0.5) = 1.65 times the median."""
    y = np.exp(np.random.default_rng(0).standard_normal(3000))
    return pl.DataFrame({"ds": np.arange(3000), "y": y})


def test_the_point_of_a_fitted_model_can_be_changed_and_is_saved(skewed, tmp_path):
    config = FAST.replace(max_steps=300, loss=nd.MQLoss(level=[80, 90]), optimizer=nd.AdamW(learning_rate=0.01))
    fitted = nd.MLP(h=2, input_size=4, hidden_size=8, scaler="identity").fit(skewed, config)
    assert fitted.point == "median"
    medians, bias = fitted.predict(), fitted.evaluate(skewed, n_windows=300)["MLP", "bias_percent"]
    fitted.point = "mean"
    means = fitted.predict()
    assert (means["MLP"] > medians["MLP"]).all()
    assert means["MLP-median"].equals(medians["MLP-median"])
    assert bias == pytest.approx(100 * (np.exp(-0.5) - 1), abs=6), "the median is exp(-0.5) of the mean: -39 %"
    assert abs(fitted.evaluate(skewed, n_windows=300)["MLP", "bias_percent"]) < abs(bias) / 3
    fitted.save(tmp_path / "m")
    again = nd.load(tmp_path / "m")
    assert again.point == "mean"
    assert again.predict().equals(means)


def test_an_implicit_quantile_s_mean_does_not_depend_on_the_levels_asked_for(skewed):
    config = FAST.replace(loss=nd.Weighted(loss=nd.ImplicitQuantile(point="mean"), by="recency", half_life=100))
    fitted = nd.MLP(h=2, input_size=4, hidden_size=8).fit(skewed, config)
    assert fitted.point == "mean"
    alone, beside = fitted.predict(quantiles=[0.5]), fitted.predict(level=[80], quantiles=[0.3])
    assert alone["MLP"].to_numpy() == pytest.approx(beside["MLP"].to_numpy(), rel=1e-6)
    fitted.point = "median"
    found = fitted.predict(quantiles=[0.5])
    assert found["MLP"].equals(found["MLP_ql0.5"].alias("MLP"))


@pytest.mark.parametrize("model", [LSTM(h=2, input_size=4, hidden_size=4, recursive=True), DeepAR(h=2, input_size=4)])
def test_what_is_shown_does_not_change_what_a_recursive_network_is_told(skewed, model):
    """The weights of both trainings are the same bits, and so are the quantiles."""
    loss = nd.DistributionLoss(distribution="StudentT")
    fits = [model.fit(skewed.head(300), FAST.replace(max_steps=5, loss=loss.showing(p))) for p in ("mean", "median")]
    weights = [fitted.module.state_dict() for fitted in fits]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    low = f"{model.name}-lo-80"
    assert fits[0].predict(level=[80])[low].equals(fits[1].predict(level=[80])[low])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_median_of_drawn_trajectories_is_the_point_with_weights_too(skewed, weighted):
    """A recursive network draws its quantiles: the median that is shown is the one of its draws."""
    loss = nd.DistributionLoss(distribution="StudentT", point="median")
    loss = nd.Weighted(loss=loss, by="horizon", decay=0.9) if weighted else loss
    fitted = DeepAR(h=6, input_size=6).fit(skewed.head(300), FAST.replace(max_steps=5, loss=loss))
    found = fitted.predict(quantiles=[0.5])
    assert found["DeepAR"].equals(found["DeepAR_ql0.5"].alias("DeepAR"))


def test_a_loss_of_one_point_has_nothing_to_choose(skewed):
    fitted = nd.DLinear(h=2, input_size=4).fit(skewed.head(200), FAST.replace(loss=nd.MSE()))
    assert fitted.point == "mean"
    with pytest.raises(nd.ConfigError, match="MSE forecasts one point, so there is no median to choose"):
        fitted.point = "median"
