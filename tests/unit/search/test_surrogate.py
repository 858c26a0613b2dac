"""The surrogate of the scores: partial dependence against the formula that made the scores."""

import numpy as np
import pytest

import neuro_divergent as nd
from neuro_divergent.search.surrogate import partial_dependence

DIMENSIONS = {
    "a": nd.uniform(0, 1),
    "rate": nd.loguniform(1e-4, 1e-2),
    "kind": nd.choice("x", "y"),
}


@pytest.fixture
def trials():
    """Scores of the formula (a - 0.3)² + 0.5 if kind is y; the rate does nothing."""
    random = np.random.default_rng(0)
    points = [
        {"a": random.uniform(), "rate": 10 ** random.uniform(-4, -2), "kind": str(random.choice(["x", "y"]))}
        for _ in range(120)
    ]
    return points, [(point["a"] - 0.3) ** 2 + 0.5 * (point["kind"] == "y") for point in points]


def test_the_dependence_is_that_of_the_formula(trials):
    points, scores = trials
    share = np.mean([point["kind"] == "y" for point in points])
    found = partial_dependence(points, scores, DIMENSIONS, "a")
    expected = (np.array(found.values) - 0.3) ** 2 + 0.5 * share
    np.testing.assert_allclose(found.mean, expected, atol=0.03)
    kinds = partial_dependence(points, scores, DIMENSIONS, "kind")
    assert kinds.values == ["x", "y"]
    assert kinds.mean[1] - kinds.mean[0] == pytest.approx(0.5, abs=0.03)
    rates = partial_dependence(points, scores, DIMENSIONS, "rate")
    assert np.ptp(rates.mean) < 0.03


def test_a_training_that_diverged_does_not_flatten_the_rest(trials):
    points, scores = trials
    found = partial_dependence(points, [*scores[:-1], 1e9], DIMENSIONS, "a")
    assert found.values[int(found.mean.argmin())] == pytest.approx(0.3, abs=0.1)


def test_trials_without_the_value_are_left_out(trials):
    points, scores = trials
    some = [
        point if number % 2 else {"rate": point["rate"], "kind": point["kind"]} for number, point in enumerate(points)
    ]
    found = partial_dependence(some, scores, DIMENSIONS, "a")
    assert found.values[int(found.mean.argmin())] == pytest.approx(0.3, abs=0.1)
