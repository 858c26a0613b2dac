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


STEADY = SHORT.replace(schedule=None, optimizer=nd.SGD(learning_rate=0.1), metrics=("mae",))


def rates(*callbacks, config=STEADY):
    """The learning rate of every epoch of a training."""
    return nd.Trainer(config.replace(callbacks=callbacks)).fit(nn.Linear(2, 1), (X, X[:, :1]))["learning_rate"]


def test_logs_set_the_learning_rate_of_the_next_epoch():
    def slower(epoch, logs):
        logs.set_learning_rate(0.5)  # the last word counts, not the product
        logs.set_learning_rate(0.04 / (epoch + 1))

    assert rates(slower) == pytest.approx([0.1, 0.04, 0.02])


def test_a_schedule_goes_on_from_the_rate_that_was_set():
    once = STEADY.replace(schedule=nd.StepDecay(every=1, factor=0.5))

    def first(epoch, logs):
        if epoch == 0:
            logs.set_learning_rate(0.2)

    assert rates(first, config=once) == pytest.approx([0.1, 0.1, 0.05])  # 0.2 halved, and halved again


def test_groups_keep_their_ratio():
    groups = (nd.ParameterGroup(pattern="bias", rate_factor=0.1),)
    seen = []

    class Set(nd.Callback):
        def on_batch_end(self, state):
            state.set_learning_rate(0.03)
            seen.append([group["lr"] for group in state.optimizer.param_groups])

    rates(Set(), config=STEADY.replace(optimizer=nd.SGD(learning_rate=0.1, groups=groups)))
    assert max(seen[-1]) / min(seen[-1]) == pytest.approx(10)
    assert seen[-1][0] == pytest.approx(0.03)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), "0.1"])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(nd.TrainingError, match=r"finite number above 0, but got"):
        train(lambda epoch, logs: logs.set_learning_rate(rate))


def test_logs_know_metrics_by_their_short_names_and_can_stop():
    heard = []

    def watch(epoch, logs):
        heard.append((logs.get_metric("MAE"), logs.get_metric("val_mae"), logs["validation_mae"]))
        if epoch == 1:
            logs.stop("good enough")

    history = nd.Trainer(STEADY.replace(callbacks=watch)).fit(nn.Linear(2, 1), (X, X[:, :1]))
    assert (len(history), history.stopped) == (2, "good enough")
    assert heard == [(value,) * 3 for value in history["validation_mae"]]
    with pytest.raises(nd.ConfigError, match=r"has epoch, train_loss, .*but got 'mse'. A metric is"):
        train(lambda epoch, logs: logs.get_metric("mse"))


def test_a_method_may_take_epoch_and_logs():
    class Told(nd.Callback):
        def on_epoch_end(self, epoch, logs):
            self.last = (epoch, logs["train_loss"])

    class Inherited(Told):
        """Has the hook of its base."""

    told = Inherited()
    history = train(told)
    assert told.last == (2, history.train_loss[-1])
    with pytest.raises(nd.ConfigError, match=r"takes \(state\) or \(epoch, logs\), but got .*on_epoch_end"):

        class Wrong(nd.Callback):
            def on_epoch_end(self, epoch, logs, more):
                """Never."""
