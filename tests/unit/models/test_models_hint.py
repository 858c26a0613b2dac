"""HINT used like every other model: coherent points, quantiles of coherent draws, saved, cross-validated."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.data.hierarchy.hierarchy import Hierarchy
from neuro_divergent.forecasting.network.output_columns import named_columns

LEVELS = [[], ["state"], ["state", "shop"]]
SMALL = {"h": 3, "input_size": 6}
QUICK = nd.TrainingConfig(max_epochs=2)


def shops(steps: int = 60) -> pl.DataFrame:
    """Five shops of different size in two states, with a common movement."""
    draw = np.random.default_rng(5)
    together = np.cumsum(draw.normal(size=steps)) * 0.3
    frames = []
    for number, (state, shop) in enumerate([("N", "1"), ("N", "2"), ("N", "3"), ("S", "1"), ("S", "2")]):
        y = (10 + together + np.sin(np.arange(steps)) + 0.5 * draw.normal(size=steps)) * 3.0**number
        frames.append(pl.DataFrame({"state": state, "shop": shop, "ds": np.arange(steps), "y": y}))
    return pl.concat(frames)


DATA, FAMILY = nd.aggregate(shops(), LEVELS)


def described(**fields):
    return nd.HINT(**{"model": nd.MLP(**SMALL, hidden_size=16), "S": FAMILY} | fields)


def gap(frame: pl.DataFrame, column: str = "HINT", family: Hierarchy = FAMILY) -> float:
    """The largest distance between a series and the sum that S says, against the largest value."""
    keys = [name for name in ("cutoff", "sample_id", "ds") if name in frame.columns]
    wide = frame.pivot(on="unique_id", index=keys, values=column).select(family.ids).to_numpy().astype(np.float64).T
    return float(np.abs(family.matrix @ wide[list(family.bottom)] - wide).max() / np.abs(wide).max())


@pytest.fixture(scope="module")
def fitted():
    return described(reconciliation="MinTraceOLS").fit(DATA, QUICK.replace(loss=nd.DistributionLoss()))


@pytest.mark.parametrize("method", ["BottomUp", "MinTraceOLS", "MinTraceWLS"])
def test_forecasts_sum_up_and_are_the_projected_ones_of_the_model_alone(method):
    """Against numpy: S (Sᵀ W S)⁻¹ Sᵀ W times what the same network says without a reconciliation."""
    alone = described(reconciliation="Identity").fit(DATA, QUICK)
    with_it = described(reconciliation=method).fit(DATA, QUICK)
    base = alone.forecast_values(alone.data)[:, :, 0]
    S = FAMILY.matrix
    if method == "BottomUp":
        wanted = S @ base[list(FAMILY.bottom)]
    else:
        W = np.diag(np.ones(len(S)) if method == "MinTraceOLS" else 1 / S.sum(axis=1))
        wanted = S @ np.linalg.inv(S.T @ W @ S) @ S.T @ W @ base
    assert with_it.forecast_values(with_it.data)[:, :, 0] == pytest.approx(wanted, rel=1e-6)
    assert gap(with_it.predict()) < 1e-6
    assert gap(alone.predict()) > 1e-4


def test_identity_is_the_model_alone():
    hint = described(reconciliation="Identity", alias="MLP").fit(DATA, QUICK)
    assert hint.predict().equals(nd.MLP(**SMALL, hidden_size=16).fit(DATA, QUICK).predict())


def test_more_steps_than_h_and_local_scaling_stay_coherent():
    many = nd.NeuralForecast([described(), nd.MLP(**SMALL, hidden_size=16)], freq=1, local_scaler_type="standard")
    many.fit(DATA, QUICK)
    found = many.predict(h=7)
    assert gap(found) < 1e-6
    assert gap(found, "MLP") > 1e-4


def test_cross_validation_is_coherent_at_every_cutoff():
    found = nd.cross_validation([described()], DATA, config=QUICK, n_windows=2, freq=1)
    assert found.frame["cutoff"].n_unique() == 2
    assert gap(found.frame) < 1e-6


def test_quantiles_are_those_of_coherent_draws(fitted):
    """By hand from numpy: normal draws that go together, projected, and their quantiles."""
    answer = fitted.predict(level=[80], quantiles=[0.3])
    assert answer.columns == ["unique_id", "ds", "HINT", "HINT-lo-80", "HINT-hi-80", "HINT_ql0.3"]
    assert gap(answer) < 1e-6
    low, mid, high = (answer[name].to_numpy() for name in ("HINT-lo-80", "HINT", "HINT-hi-80"))
    assert (low < mid).all()
    assert (mid < high).all()
    # The spread of a projected normal forecast is known: the diagonal of P C Pᵀ, C what the draws were made with.
    alone = nd.Forecaster(
        model=fitted.model.replace(reconciliation="Identity"), config=fitted.config, module=fitted.module,
        data=fitted.data, history=fitted.history,
    )  # fmt: skip
    sigma = alone.forecast_values(fitted.data, named_columns("HINT", (), (0.8413447,)))
    sigma = (sigma[:, 0, 1] - sigma[:, 0, 0]).ravel()
    loading = fitted.network.error_factors.double().numpy()
    C = loading.T @ loading
    np.fill_diagonal(C, 1.0)
    S = FAMILY.matrix
    P = S @ np.linalg.inv(S.T @ S) @ S.T
    spread = np.sqrt(np.diag(P @ (C * np.outer(sigma, sigma)) @ P.T))
    first = answer.filter(pl.col("ds") == 60)
    found = (first["HINT-hi-80"] - first["HINT-lo-80"]).to_numpy() / (2 * 1.2815516)
    assert found == pytest.approx(spread, rel=0.12)  # 1000 draws


def test_series_that_err_together_have_wider_totals(fitted):
    """All shops follow one walk, so their errors do not cancel in the total."""
    together = fitted.network.error_factors.clone()
    assert float(together.abs().sum()) > 0
    wide = fitted.predict(level=[80]).filter(pl.col("unique_id") == "Total")
    fitted.network.error_factors.zero_()
    try:
        narrow = fitted.predict(level=[80]).filter(pl.col("unique_id") == "Total")
    finally:
        fitted.network.error_factors.copy_(together)
    assert (wide["HINT-hi-80"] - wide["HINT-lo-80"]).mean() > (narrow["HINT-hi-80"] - narrow["HINT-lo-80"]).mean()


def test_every_path_is_coherent(fitted):
    assert gap(fitted.simulate(n_paths=5)) < 1e-6


def test_a_model_that_draws_its_own_paths():
    deep = nd.DeepAR(**SMALL, hidden_size=8, layers=1)
    hint = described(model=deep).fit(DATA, QUICK.replace(loss=nd.DistributionLoss()))
    assert gap(hint.simulate(n_paths=3)) < 1e-6
    assert gap(hint.predict(level=[80])) < 1e-6


@pytest.mark.parametrize("loss", [nd.MQLoss(level=[80]), nd.ImplicitQuantile(width=8)], ids=["several", "any"])
def test_losses_of_quantiles(loss):
    answer = described().fit(DATA, QUICK.replace(loss=loss)).predict(level=[80])
    assert gap(answer) < 1e-6
    assert (answer["HINT-lo-80"] < answer["HINT-hi-80"]).all()


def test_point_forecasts_get_measured_intervals_around_coherent_ones():
    hint = described().fit(DATA, QUICK, prediction_intervals=nd.PredictionIntervals(n_windows=3))
    answer = hint.predict(level=[50])
    assert gap(answer) < 1e-6
    assert (answer["HINT-lo-50"] <= answer["HINT"]).all()


def test_a_multivariate_model_is_reconciled_too():
    hint = described(model=nd.TSMixer(**SMALL, hidden_size=8)).fit(DATA, QUICK)
    assert gap(hint.predict()) < 1e-6
    assert gap(hint.cross_validation(DATA, n_windows=2, config=QUICK).frame) < 1e-6


def test_a_saved_model_says_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "hint")
    again = nd.load(tmp_path / "hint")
    assert again.model == fitted.model
    assert again.predict(level=[80]).equals(fitted.predict(level=[80]))


def test_rows_of_s_in_any_order_if_they_are_named():
    order = np.random.default_rng(0).permutation(len(FAMILY.ids))
    rows = {FAMILY.ids[row]: FAMILY.matrix[row] for row in order}
    named = described(S=rows).fit(DATA, QUICK)
    assert gap(named.predict()) < 1e-6
    plain = described(S=FAMILY.matrix).fit(DATA, QUICK)
    assert plain.predict()["HINT"].to_numpy() == pytest.approx(named.predict()["HINT"].to_numpy(), rel=1e-6)


def test_rows_in_another_order_than_the_names_are_refused(caplog):
    turned = described(S=FAMILY.matrix[::-1]).fit(DATA, QUICK)
    assert "the data does not match" in caplog.text
    with pytest.raises(nd.DataError, match=r"is not the sum in its row\. Name the rows of S"):
        turned.predict()


def test_other_series_than_those_of_s_are_named():
    some = DATA.filter(pl.col("unique_id") != "S/2")
    with pytest.raises(nd.DataError, match="the data lacks 'S/2'"):
        described().fit(some, QUICK)
    hint = described().fit(DATA, QUICK)
    with pytest.raises(nd.DataError, match="the data lacks 'S/2'"):
        hint.predict(some)
    with pytest.raises(nd.DataError, match="S has no row for 'X'"):
        hint.predict(
            pl.concat([DATA, DATA.filter(pl.col("unique_id") == "S").with_columns(pl.lit("X").alias("unique_id"))])
        )


def test_series_that_end_earlier_are_named():
    hint = described().fit(DATA, QUICK)
    short = DATA.filter((pl.col("unique_id") != "N/2") | (pl.col("ds") < 50))
    with pytest.raises(nd.DataError, match="end earlier: 'N/2'"):
        hint.predict(short)


def test_what_both_share_may_be_given_to_either():
    model = nd.HINT(h=4, input_size=8, model={"kind": "MLP"}, S=FAMILY, scaler="robust")
    assert (model.model.h, model.model.input_size, model.model.scaler) == (4, 8, "robust")
    assert nd.HINT(model=model.model, S=FAMILY) == model
    assert model.replace(h=2).model.h == 2
    assert model.replace(model=nd.DLinear(h=5, input_size=9)).h == 5
    with pytest.raises(nd.ConfigError, match=r"h must be the model's, but got h=3 and model.h=4"):
        nd.HINT(h=3, model=model.model, S=FAMILY)
    with pytest.raises(nd.ConfigError, match="model=HINT"):
        nd.HINT(model=model, S=FAMILY)


def test_it_can_what_its_model_can():
    assert described(model=nd.TSMixer(**SMALL)).capabilities.multivariate
    assert not described().capabilities.multivariate
    assert described(model=nd.TFT(**SMALL)).capabilities.static
    assert not described(model=nd.DLinear(**SMALL)).capabilities.future


def test_going_on_with_newer_rows_keeps_the_hierarchy():
    hint = described().fit(DATA.filter(pl.col("ds") < 55), QUICK)
    hint.update(DATA, nd.TrainingConfig(max_epochs=1))
    answer = hint.predict()
    assert answer["ds"].min() == 60
    assert gap(answer) < 1e-6


def test_the_peers_arguments():
    from neuro_divergent.compat.neuralforecast import NeuralForecast
    from neuro_divergent.compat.neuralforecast.losses.pytorch import GMM
    from neuro_divergent.compat.neuralforecast.models import HINT, MLP

    base = MLP(
        h=3, input_size=6, loss=GMM(n_components=2, level=[80], num_samples=300), max_steps=3, scaler_type="robust"
    )
    model = HINT(h=3, S=FAMILY.matrix, model=base, reconciliation="BottomUp")
    assert (repr(model), model.description.samples, model.hparams["reconciliation"]) == ("HINT", 300, "BottomUp")
    nf = NeuralForecast([model], freq=1)
    nf.fit(DATA, val_size=6)
    answer = nf.predict()
    assert answer.columns == ["unique_id", "ds", "HINT", "HINT-median", "HINT-lo-80", "HINT-hi-80"]
    assert gap(answer) < 1e-6
    with pytest.raises(nd.ConfigError, match="h must be the model's 3, but got h=4"):
        HINT(h=4, S=FAMILY.matrix, model=base, reconciliation="BottomUp")
    with pytest.raises(nd.ConfigError, match="HINT takes a model"):
        HINT(h=4, S=FAMILY.matrix, model=nd.MLP(**SMALL), reconciliation="BottomUp")


def test_the_network_is_the_models():
    torch.manual_seed(0)
    spec = nd.InputSpec(horizon=3, lookback=6, series=8)
    ours = {name for name, _ in described().build(spec).named_parameters()}
    assert ours == {name for name, _ in nd.MLP(**SMALL, hidden_size=16).build(spec).named_parameters()}
