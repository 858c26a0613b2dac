"""Many trainings as one computation: what comes out is what each training gives by itself.

The expected values are those of the single run, which steps by torch.optim and differentiates by torch.autograd.
"""

import copy
import logging

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.data.windows.samplers import Sequential
from neuro_divergent.training.arrays import ArraySource, ArrayTask, as_rows
from neuro_divergent.training.stacked.check import obstacle
from neuro_divergent.training.stacked.stacked_loop import StackedLoop
from neuro_divergent.training.stacked.strategy import StackedSteps
from neuro_divergent.training.stacked.train_many import train_many
from neuro_divergent.training.stacked.weights import named_parameters_of
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.trainer import prepare, train, training_sampler

CPU = torch.device("cpu")


def perceptron(seed=0, activation=nn.Tanh, width=8):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 1))


def rows(count, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, 4)).astype(np.float32)
    return x, np.sin(x.sum(axis=1, keepdims=True)) + 0.1 * generator.normal(size=(count, 1)).astype(np.float32)


def member(module, config=None, data=None, held=None, **fields):
    """A prepared training on arrays."""
    config = (config or nd.TrainingConfig(max_steps=30, batch_size=16, progress=False, validation_split=None)).replace(
        **fields
    )
    config = config.resolved()
    precision = Precision(config.precision, CPU, "dynamic")
    table = as_rows(data or rows(64), config.loss, CPU, precision.dtype)
    source = ArraySource(table, training_sampler(config, len(table.x)), reuse=True)
    validation = None
    if held is not None:
        kept = as_rows(held, config.loss, CPU, precision.dtype)
        validation = ArraySource(kept, Sequential(len(kept.x), 1024))
    state = prepare(module, config, source, validation, precision)
    return ArrayTask(config.loss, config.validation_loss, config.metrics), state


def both(make, count=3, **options):
    """The members of the same trainings, by themselves and stacked, all trained."""
    alone, together = ([make(number) for number in range(count)] for _ in range(2))
    for task, state in alone:
        train(task, state)
    train_many(together, **{"stacked": True} | options)
    return [state for _, state in alone], [state for _, state in together]


def assert_same(alone, together, tolerance=2e-5):
    for one, other in zip(alone, together, strict=True):
        assert len(one.history.step_loss) == len(other.history.step_loss)
        np.testing.assert_allclose(other.history.step_loss, one.history.step_loss, rtol=tolerance)
        np.testing.assert_allclose(other.history.gradient_norm, one.history.gradient_norm, rtol=10 * tolerance)
        assert other.history.stopped == one.history.stopped
        assert other.history.best_epoch == one.history.best_epoch
        for left, right in zip(one.history.epochs, other.history.epochs, strict=True):
            timed = {"seconds", "validation_seconds", "time"}
            assert set(left) == set(right)
            for name in set(left) - timed:
                assert right[name] == pytest.approx(left[name], rel=10 * tolerance), name
        for name, tensor in one.module.state_dict().items():
            torch.testing.assert_close(other.module.state_dict()[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
        assert not other.module.training


OPTIMIZERS = {
    "Adam": nd.Adam(learning_rate=3e-3),
    "Adam with L2": nd.Adam(learning_rate=3e-3, weight_decay=0.1, betas=(0.8, 0.99)),
    "AdamW": nd.AdamW(learning_rate=3e-3, weight_decay=0.2),
    "SGD": nd.SGD(learning_rate=0.05, momentum=0.0),
    "momentum": nd.SGD(learning_rate=0.02, momentum=0.9, weight_decay=0.01),
    "Nesterov": nd.SGD(learning_rate=0.02, momentum=0.9, nesterov=True),
    "dampened": nd.SGD(learning_rate=0.02, momentum=0.9, dampening=0.5),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_stacked_optimizer_takes_the_steps_of_the_single_run(optimizer):
    alone, together = both(lambda seed: member(perceptron(seed), seed=seed + 1, optimizer=optimizer))
    assert_same(alone, together)


def test_gradients_agree_for_twenty_steps():
    """The promise of the feature: within 1e-5, relative, each side going its own way from the same weights."""
    stacked, single = ([member(perceptron(seed), seed=seed + 1) for seed in range(4)] for _ in range(2))
    stack = StackedSteps(stacked)
    assert obstacle(stack) is None
    loop = StackedLoop(stack, "test")
    from neuro_divergent.training.loop.loop import train_step
    from neuro_divergent.training.step.eager import Eager

    worst = 0.0
    for _ in range(20):
        loop.train_step(list(range(4)))
        for row, (task, state) in enumerate(single):
            train_step(task, state, state.source.batch(state.epoch, state.position), Eager())
            own = torch.cat([parameter.grad.flatten() for parameter in named_parameters_of(state).values()])
            worst = max(worst, float((stack.slab.gradients[row, : len(own)] - own).norm() / own.norm()))
        for _, state in (*stacked, *single):
            if state.position == state.steps_per_epoch:
                state.epoch, state.position = state.epoch + 1, 0
    assert 0 <= worst < 1e-5


CLIPPINGS = {
    "none": None,
    "norm": nd.ClipByNorm(0.05),
    "largest": nd.ClipByNorm(max_norm=0.02, norm=float("inf")),
    "value": nd.ClipByValue((-0.01, 0.02)),
    "both": [nd.ClipByValue(0.01), nd.ClipByNorm(0.02)],
}


@pytest.mark.parametrize("clipping", CLIPPINGS.values(), ids=CLIPPINGS)
def test_each_member_is_clipped_by_its_own_norm(clipping):
    """One member's gradients are a hundred times larger: clipped together, it would silence the others."""
    x, y = rows(64)

    def make(number):
        data = (x, y * 100 if number == 1 else y)
        optimizer = nd.SGD(learning_rate=1e-3, momentum=0.0)
        return member(perceptron(number), data=data, gradient_clipping=clipping, optimizer=optimizer)

    assert_same(*both(make))


def test_rates_decays_and_schedules_of_their_own():
    rates, decays = (1e-3, 1e-2, 3e-4), (0.0, 0.1, 0.3)

    def make(number):
        optimizer = nd.AdamW(learning_rate=rates[number], weight_decay=decays[number])
        return member(perceptron(0), optimizer=optimizer, schedule=nd.WarmupCosine(warmup=0.2, min_lr=1e-5))

    alone, together = both(make)
    assert_same(alone, together)
    assert len({state.history.epochs[-1]["learning_rate"] for state in together}) == 3


def test_parameter_groups_keep_their_rates():
    groups = (nd.ParameterGroup(pattern="0.*", rate_factor=0.1), nd.ParameterGroup(pattern="4.*", weight_decay=0.5))
    optimizer = nd.AdamW(learning_rate=1e-2, groups=groups)
    assert_same(*both(lambda seed: member(perceptron(seed), optimizer=optimizer)))


def test_members_of_different_lengths_and_batches_that_are_not_full():
    """50, 64 and 71 rows in batches of 16: epochs end at different steps, the last batches have 2, 16 and 7 rows."""
    sizes = (50, 64, 71)
    alone, together = both(
        lambda number: member(
            perceptron(number), data=rows(sizes[number], number), max_steps=None, max_epochs=6, held=rows(20, 9)
        )
    )
    assert [len(state.history.step_loss) for state in together] == [24, 24, 30]
    assert_same(alone, together)


def test_members_stop_early_by_themselves_and_keep_their_best_weights():
    rule = nd.EarlyStopping(patience=2, min_delta=0.0)
    rates = (0.3, 1e-3, 0.1, 0.05)

    def make(number):
        return member(
            perceptron(number), data=rows(48, number), held=rows(30, 10 + number), max_steps=None, max_epochs=25,
            optimizer=nd.SGD(learning_rate=rates[number], momentum=0.9), early_stopping=rule,
        )  # fmt: skip

    alone, together = both(make, count=4)
    assert len({len(state.history) for state in together}) > 2, "they end at different epochs"
    assert_same(alone, together)


def test_reduce_on_plateau_follows_each_member():
    schedule = nd.ReduceOnPlateau(patience=1, factor=0.5)
    assert_same(
        *both(lambda number: member(perceptron(number), held=rows(20, number), schedule=schedule, max_steps=40))
    )


def test_row_weights_and_metrics():
    x, y = rows(40)
    weight = np.linspace(0, 2, 40)
    alone, together = both(
        lambda number: member(perceptron(number), data=(x, y, weight), held=(x, y), metrics=("mae",), loss=nd.Huber())
    )
    assert_same(alone, together)


class Mixed(nn.Module):
    """Layers that are not Linear: a convolution, a layer norm, an embedding, a linear layer used twice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 3, 2)
        self.norm = nn.LayerNorm(9)
        self.table = nn.Embedding(2, 9)
        self.twice = nn.Linear(9, 9, bias=False)
        self.out = nn.Linear(9, 1)

    def forward(self, x):
        y = self.norm(self.conv(x.unsqueeze(1)).flatten(1)) + self.table((x[:, 0] > 0).long())
        return self.out(torch.relu(self.twice(torch.relu(self.twice(y)))))


def seeded(kind):
    def make(number):
        torch.manual_seed(number)
        return kind()

    return make


def test_layers_of_other_kinds():
    assert_same(*both(lambda number: member(seeded(Mixed)(number), seed=number)))


def test_frozen_weights_stay_and_count():
    def make(number):
        return member(perceptron(number), freeze=("2.*",))

    alone, together = both(make)
    assert_same(alone, together)
    assert torch.equal(together[1].module[2].weight, perceptron(1)[2].weight)


def test_double_precision():
    alone, together = both(lambda number: member(perceptron(number), precision="float64"))
    assert_same(alone, together, tolerance=1e-12)


class AcrossRows(nn.Module):
    """Each row sees the mean of the batch: rows of different members would see each other."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x - x.mean(dim=0))


class NotAsLayer(nn.Module):
    """Uses a layer's weight without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return x @ self.layer.weight.T


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        return self.out(self.lstm(x.unsqueeze(-1))[0][:, -1])


UNSTACKABLE = {
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)), "random"),
    "batch norm": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), "batch norm"),
    "rows that see each other": (AcrossRows, "depend on each other"),
    "a weight without its layer": (NotAsLayer, "do not affect the loss|not used by the forward"),
    "a recurrent layer": (Recurrent, "torch.vmap|torch says"),
}


@pytest.mark.parametrize(("kind", "why"), UNSTACKABLE.values(), ids=UNSTACKABLE)
def test_what_cannot_be_stacked_is_trained_alone_to_the_same_bits(kind, why, caplog):
    make = seeded(kind)
    with pytest.raises(nd.ConfigError, match=f"stacked=True .*({why})"):
        train_many([member(make(number), seed=number) for number in range(2)], stacked=True)
    with caplog.at_level(logging.INFO):
        alone, together = both(lambda number: member(make(number), seed=number), stacked="auto")
    assert "one after the other" in caplog.text
    for one, other in zip(alone, together, strict=True):
        assert one.history.step_loss == other.history.step_loss
        for name, tensor in one.module.state_dict().items():
            assert torch.equal(tensor, other.module.state_dict()[name]), name


ONE_RUN = {
    "callbacks": (nd.Timer(),),
    "averaging": nd.EMA(),
    "accumulate_gradients": 2,
    "precision": "bf16",
    "optimizer": nd.RMSprop(),
    "gradient_clipping": nd.AdaptiveClip(),
    "regularization": nd.Regularization(l2=0.1),
    "nonfinite": "skip",
    "gradient_method": "central",
    "compile": True,
}


@pytest.mark.parametrize(("name", "value"), ONE_RUN.items(), ids=ONE_RUN)
def test_options_of_one_run_are_named_in_the_refusal(name, value):
    named = getattr(value, "kind", name) if name in ("optimizer", "gradient_clipping") else name
    with pytest.raises(nd.ConfigError, match=named):
        train_many([member(perceptron(number), **{name: value}) for number in range(2)], stacked=True)


def test_members_that_do_not_agree_are_stacked_by_kind(caplog):
    widths = (8, 16, 8, 16, 5)
    with caplog.at_level(logging.INFO):
        alone, together = both(lambda number: member(perceptron(number, width=widths[number])), 5, stacked="auto")
    assert caplog.text.count("2 trainings run as one") == 2
    assert "no other training is like it" in caplog.text
    assert_same(alone, together)
    with pytest.raises(nd.ConfigError, match="differ in shapes"):
        train_many([member(perceptron(0, width=width)) for width in widths], stacked=True)


class Centred(nn.Module):
    """Takes the mean over the batch between two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        y = self.first(x)
        return self.last(torch.relu(y - y.mean(dim=0)))


def test_rows_that_see_each_other_are_found_also_where_all_members_begin_alike():
    """Trials of one seed: the same weights and the same batches at the first step."""
    optimizers = (nd.AdamW(learning_rate=1e-3), nd.AdamW(learning_rate=1e-2))
    with pytest.raises(nd.ConfigError, match="depend on each other"):
        train_many([member(seeded(Centred)(0), optimizer=optimizer) for optimizer in optimizers], stacked=True)


def test_equal_shapes_do_not_make_equal_networks():
    """The second network has another activation: its own gradients tell."""
    kinds = (nn.Tanh, nn.ReLU)
    with pytest.raises(nd.ConfigError, match="not possible here"):
        train_many([member(perceptron(0, kinds[number])) for number in range(2)], stacked=True)


def test_a_loss_that_stops_being_finite_ends_the_training_with_its_place():
    x, y = rows(64)
    x[40:] *= 1e30
    options = {"shuffle": False, "data": (x, y), "gradient_clipping": None}
    members = [member(perceptron(number, nn.ReLU), **options) for number in range(2)]
    failures = train_many(members, stacked=True)
    assert set(failures) == {0, 1}
    assert all(
        isinstance(error, nd.NonFiniteError) and "at step 3 (epoch 1)" in str(error) for error in failures.values()
    )
    for _, state in members:
        assert all(bool(torch.isfinite(parameter).all()) for parameter in state.module.parameters())
        assert len(state.history.step_loss) == 2


def test_a_member_that_fails_leaves_the_others_as_if_it_had_not_been_there():
    """The second member's inputs overflow at its third step; the others end with the weights of a run without it."""
    x, y = rows(64)
    wild = x.copy()
    wild[40:] *= 1e30
    options = {"shuffle": False, "gradient_clipping": None}

    def members(*tables):
        return [member(perceptron(number, nn.ReLU), data=data, **options) for number, data in enumerate(tables)]

    with_it, without = members((x, y), (wild, y), (x, y)), members((x, y), (x, y), (x, y))
    failures = train_many(with_it, stacked=True)
    assert train_many(without, stacked=True) == {}
    assert list(failures) == [1]
    assert isinstance(failures[1], nd.NonFiniteError)
    for number in (0, 2):
        ours, theirs = with_it[number][1], without[number][1]
        assert ours.step == theirs.step == ours.total_steps
        for one, other in zip(ours.module.parameters(), theirs.module.parameters(), strict=True):
            assert torch.allclose(one, other, rtol=1e-5, atol=1e-7)


def test_the_global_generator_is_left_as_it_was():
    members = [member(perceptron(number)) for number in range(2)]
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train_many(members, stacked=True)
    assert torch.equal(before, torch.get_rng_state())


def test_finished_weights_have_memory_of_their_own():
    members = [member(perceptron(number), max_steps=steps) for number, steps in enumerate((12, 30, 30))]
    train_many(members, stacked=True)
    first, second, _ = (state.module for _, state in members)
    kept = copy.deepcopy(second.state_dict())
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.fill_(7.0)
    assert all(torch.equal(kept[name], tensor) for name, tensor in second.state_dict().items())
    for module in (first, second):
        assert all(parameter.untyped_storage().nbytes() == parameter.nbytes for parameter in module.parameters())


def test_only_a_choice_is_a_choice():
    with pytest.raises(nd.ConfigError, match="stacked must be 'auto', True or False, but got stacked='yes'"):
        train_many([], stacked="yes")
