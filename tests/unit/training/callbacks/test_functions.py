"""Plain functions as callbacks."""

import numpy as np
import pytest
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.errors import CallbackError

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
SHORT = nd.TrainingConfig(max_epochs=3, batch_size=16, progress=False)


def train(*callbacks):
    return nd.Trainer(SHORT.replace(callbacks=callbacks)).fit(nn.Linear(2, 1), (X, X[:, :1]))


def test_two_arguments_are_the_epoch_and_its_record():
    heard = []
    history = train(lambda epoch, logs: heard.append((epoch, logs)))
    assert [epoch for epoch, _ in heard] == [0, 1, 2]
    assert [logs for _, logs in heard] == history.epochs


def test_one_argument_is_the_state_and_the_name_of_a_function_may_be_a_hook():
    heard = []

    def at_the_end_of_an_epoch(state):
        heard.append(("epoch", state.epoch))

    def on_fit_end(state):
        heard.append(("end", len(state.history)))

    class Bound:
        def on_epoch_start(self, state):
            heard.append(("start", state.epoch))

    train(at_the_end_of_an_epoch, on_fit_end, Bound().on_epoch_start)
    epochs = [event for epoch in range(3) for event in (("start", epoch), ("epoch", epoch))]
    assert heard == [*epochs, ("end", 3)]


def test_a_function_may_stop_the_training():
    history = train(lambda state: state.stop("seen enough"))
    assert (len(history), history.stopped) == (1, "seen enough")


def test_an_error_names_the_function():
    def broken(epoch, logs):
        raise RuntimeError("no")

    with pytest.raises(CallbackError, match=r"broken\.on_epoch_end raised RuntimeError: no"):
        train(broken)


def show(epoch, logs):
    """Nothing is shown."""


def test_it_is_a_description_and_given_back_by_reference():
    config = nd.TrainingConfig(callbacks=show)
    assert config == nd.TrainingConfig(callbacks=[nd.CustomCallback(function=show)])
    assert nd.TrainingConfig.from_json(config.to_json(), using={"show": show}) == config


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nd.TrainingConfig(callbacks=[lambda a, b, c: 0]), r"takes \(state\) or \(epoch, logs\), but got"),
        (lambda: nd.CustomCallback(function=lambda a, b: 0, hook="on_batch_end"), "called at the end of an epoch"),
        (lambda: nd.TrainingConfig(callbacks=[3]), "callbacks must be Callback objects, their settings or functions"),
    ],
)
def test_what_cannot_be_called_is_refused(make, words):
    with pytest.raises(nd.ConfigError, match=words):
        make()
