"""Attributions by Shapley values and of single outputs."""

import numpy as np

import neuro_divergent as nd

STEPS = nd.TrainingConfig(max_epochs=None, max_steps=3, validation_split=None, early_stopping=None)


def test_shapley_values_add_up_and_are_those_of_the_gradient_for_a_linear_network() -> None:
    fitted = nd.DLinear(h=2, input_size=6).fit(nd.samples.air_passengers(), STEPS)
    shapley = fitted.explain(method="shapley_sampling", points=2)
    gradients = fitted.explain(method="integrated_gradients")
    assert shapley.baseline is not None
    np.testing.assert_allclose(shapley.values["y"].sum(axis=2), shapley.forecast - shapley.baseline, rtol=1e-3)
    np.testing.assert_allclose(shapley.values["y"], gradients.values["y"], atol=0.02)


def test_each_output_of_a_quantile_loss_has_its_own_attributions() -> None:
    config = STEPS.replace(loss=nd.MQLoss(level=[80]))
    fitted = nd.MLP(h=2, input_size=6, hidden_size=4).fit(nd.samples.air_passengers(), config)
    one, other = fitted.explain(output=0), fitted.explain(output=2)
    for told in (one, other):
        assert told.baseline is not None
        np.testing.assert_allclose(told.values["y"].sum(axis=2), told.forecast - told.baseline, rtol=0.1, atol=1.0)
    assert not np.allclose(one.forecast, other.forecast)
    assert not np.allclose(one.values["y"], other.values["y"])
