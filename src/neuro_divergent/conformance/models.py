"""The conformance matrix of models: checks for every forecaster, on small batches.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import safetensors.torch
import torch

from neuro_divergent.conformance.cases import Case, usual_loss
from neuro_divergent.conformance.descriptions import is_documented, round_trips
from neuro_divergent.conformance.examples import model_examples
from neuro_divergent.conformance.probes import (
    changed_rows,
    double,
    extremes,
    forecasts,
    joined,
    last_windows,
    reached_parameters,
    reversed_order,
    same,
    shortest,
    squared_error,
    to_export,
    usual_case,
)
from neuro_divergent.conformance.suite import Suite, expecting, require
from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.seeding import isolated
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.losses import MSE, MQLoss
from neuro_divergent.optim import gradient_norm

MODELS: Suite[Model] = Suite("model", model_examples)
"""The checks of models; `check_model` runs one of them."""

EXPORT_EXCEPTIONS: dict[str, str] = {}
"""Models that `torch.export` does not support, by kind, each with the reason. At most three."""

OVERFIT_STEPS = 150
OVERFIT_SHARE = 0.25
"""One batch counts as learned if the squared error has fallen to this share of its first value, ..."""
REST_SHARE = 0.1
"""... or if the training has converged: the gradient has fallen to this share, at a smaller loss. A model with few
parameters, or one that begins with a good forecast, cannot do more."""


@MODELS.check
def description_round_trips(model: Model) -> None:
    """JSON and YAML restore the description, and it builds the same parameters."""
    round_trips(model)
    case, again = usual_case(model), usual_case(Model.from_json(model.to_json()))
    shapes = {name: tensor.shape for name, tensor in case.module().state_dict().items()}
    require(
        shapes == {name: tensor.shape for name, tensor in again.module().state_dict().items()},
        "the restored description must build the same parameters, but builds others",
    )


@MODELS.check
def description_is_documented(model: Model) -> None:
    """The class and every field are described."""
    is_documented(model)


@MODELS.check
def shapes(model: Model) -> None:
    """A forecast is [B, H, C, Q] for one and several windows, series and outputs, with and without columns."""
    for loss in (MSE(), MQLoss(level=[80]), usual_loss(model)):
        for windows, series, columns in ((1, 1, False), (1, 3, True), (3, 1, True), (2, 3, False)):
            forecasts(Case(model=model, series=series, columns=columns, loss=loss), windows)


@MODELS.check
def smallest_sizes(model: Model) -> None:
    """h=1 and input_size=1, alone and together, and odd sizes work, or are refused with a ConfigError."""
    usual = usual_case(model)
    L, H = model.input_size, model.h
    for h, lookback in ((1, L), (H, 1), (1, 1), (5, 7), (L + 1, L), (3, 2 * L + 1)):
        for columns in (True, False):
            try:
                case = replace(usual, columns=columns).resized(h=h, input_size=lookback)
                case.module()
            except ConfigError as refusal:
                require(bool(str(refusal)), f"the refusal of h={h}, input_size={lookback} must state the rule")
                continue
            forecasts(case, 2)


@MODELS.check
def gradients_reach_every_parameter(model: Model) -> None:
    """Every trainable parameter gets a finite gradient that is not zero, with and without the declared columns.

    Parameters that some inputs do not use are named in `unreached_parameters: ClassVar[tuple[str, ...]]`, as patterns.
    """
    spared: tuple[str, ...] = getattr(type(model), "unreached_parameters", ())
    for columns in (True, False):
        case = replace(usual_case(model), columns=columns)
        with expecting(str(case)):
            module = case.module(shaken=True).train()
            reached = reached_parameters(module, [case.batch(4, seed=seed) for seed in range(3)])
            trainable = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
            lost = [name for name in trainable if name not in reached and not any(fnmatchcase(name, p) for p in spared)]
            require(not lost, f"every parameter must get a gradient, but these get none: {', '.join(lost)}")


@MODELS.check
def one_batch_can_be_learned(model: Model) -> None:
    """Trained on four windows, the squared error on them falls to a quarter, or the training converges.

    Dropout is off. Converged means that the gradient has fallen to a tenth of its first norm. A network without
    parameters has nothing to learn and passes.
    """
    off = {name: 0.0 for name, value in model if "dropout" in name and isinstance(value, float)}
    case = replace(usual_case(model), model=model.replace(**off), series=2, columns=False)
    batch = case.batch(4)
    tried = []
    for rate in (1e-2, 1e-3):
        module = case.module()
        if not any(parameter.requires_grad for parameter in module.parameters()):
            return
        first = squared_error(module, batch)
        losses, norms = [], []
        optimizer = torch.optim.Adam(module.parameters(), lr=rate)
        for step in range(OVERFIT_STEPS):
            module.train()
            optimizer.zero_grad()
            with isolated(0, "overfit", step):
                loss = case.loss.finish(module.loss_values(batch).mean())
                torch.autograd.backward(loss)
            losses.append(loss.item())
            norms.append(float(gradient_norm(list(module.parameters()))))
            optimizer.step()
            if step % 5 == 4 and (last := squared_error(module, batch)) <= OVERFIT_SHARE * first:
                return
        if losses[-1] < losses[0] and norms[-1] <= REST_SHARE * norms[0]:
            return
        tried.append(f"{first:.3g} → {last:.3g}, gradient {norms[0]:.3g} → {norms[-1]:.3g}, with Adam at rate {rate:g}")
    require(
        False,
        f"{case}: {OVERFIT_STEPS} steps on one batch of 4 windows must bring the squared error to {OVERFIT_SHARE:.0%} "
        f"of its first value, or the gradient to {REST_SHARE:.0%} at a smaller loss, but got {' and '.join(tried)}",
    )


@MODELS.check
def the_future_changes_nothing(model: Model) -> None:
    """Neither targets nor later rows change a forecast; columns known ahead count within the horizon only."""
    case = usual_case(model)
    module = case.module(shaken=True).double().eval()
    with expecting(str(case)):
        batch = double(case.batch(3))
        assert batch.target is not None
        told = batch._replace(target=batch.target * -7 + 3, weight=torch.rand_like(batch.target))
        same(module(batch), module(told), "changing the target must not change the forecast")
        rows = model.input_size + 3 * model.h + 4
        store = case.store(rows)
        number = np.array([model.h + 1])
        (_,), (time,) = case.windows(store).locate(number)
        later = changed_rows(store, slice(time, None), slice(time + model.h, None))
        same(
            module(double(case.windows(store).gather(number))),
            module(double(case.windows(later).gather(number))),
            f"changing the rows from {time} on must not change the forecast of rows {time} to {time + model.h - 1}",
        )


@MODELS.check
def the_far_past_changes_nothing(model: Model) -> None:
    """Rows before the last input_size ones do not change a forecast from the end of a table."""
    case = usual_case(model)
    module = case.module(shaken=True).double().eval()
    with expecting(str(case)):
        store = case.store(model.input_size + model.h + 6)
        seen = slice(None, model.h + 6)
        same(
            module(double(last_windows(case, store))),
            module(double(last_windows(case, changed_rows(store, seen, seen)))),
            f"changing rows before the last input_size={model.input_size} ones must not change the forecast",
        )


@MODELS.check
def teacher_forcing_sees_only_earlier_steps(model: Model) -> None:
    """If training reads the target, its output at a step depends only on earlier targets."""
    case = usual_case(model)
    module = case.module(shaken=True).double().train()
    if not hasattr(module.network, "train_forward"):
        return
    batch = double(case.batch(3))
    assert batch.target is not None
    for step in range(model.h):
        later = batch.target.clone()
        later[:, step:] += 5.0
        with isolated(0, "teacher"):
            before = module.forecast(batch).raw
        with isolated(0, "teacher"):
            after = module.forecast(batch._replace(target=later)).raw
        said = f"{case}: in training, step {step} must not see the target of steps {step} and later"
        same(before[:, : step + 1], after[:, : step + 1], said)


@MODELS.check
def evaluation_is_deterministic(model: Model) -> None:
    """In eval mode the same batch gives the same bits, for any state of the global generator; nothing is changed."""
    case = usual_case(model)
    module = case.module().eval()
    batch = case.batch(3, masked=0.2)
    kept = Batch(*(None if tensor is None else tensor.clone() for tensor in batch))  # type: ignore[arg-type]
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with expecting(str(case)), torch.no_grad():
        with isolated(1, "first"):
            first = module(batch)
        with isolated(2, "second"):
            second = module(batch)
        for name, before, after in zip(Batch._fields, kept, batch, strict=True):
            unchanged = before is None or (after is not None and torch.equal(before, after))
            require(unchanged, f"forward must not change its input, but it changed batch.{name}")
        require(torch.equal(first, second), "two forecasts of one batch in eval mode must be equal, but differ")
        changed = [name for name, tensor in module.state_dict().items() if not torch.equal(tensor, weights[name])]
        require(not changed, f"forecasting must not change the module, but it changed {', '.join(changed)}")


@MODELS.check
def windows_do_not_see_each_other(model: Model) -> None:
    """In eval mode a window's forecast is the same alone, in a batch, and with other windows beside it."""
    case = usual_case(model)
    module = case.module(shaken=True).double().eval()
    batch, others = (double(case.batch(4, seed=seed, masked=0.2)) for seed in (0, 1))
    mixed = joined(batch.rows(0, 2), others.rows(0, 3)._replace(y=others.rows(0, 3).y * 1e3))
    with expecting(str(case)), torch.no_grad():
        together = module(batch)
        alone = torch.cat([module(batch.rows(row, row + 1)) for row in range(4)])
        same(together, alone, "the forecast of a window must be the same alone and in a batch of 4")
        same(together[:2], module(mixed)[:2], "the other windows of a batch must not change a forecast")
        same(
            together, module(reversed_order(batch)).flip(0), "the order of the windows must not change their forecasts"
        )


@MODELS.check
def extreme_input_stays_finite(model: Model) -> None:
    """Constant, tiny, huge and unobserved windows give finite forecasts and finite gradients."""
    for columns in (True, False):
        case = replace(usual_case(model), columns=columns)
        module = case.module(shaken=True)
        for name, batch in extremes(case).items():
            with expecting(f"{case}, {name} input and scaler={model.scaler!r}"):
                with torch.no_grad():
                    forecast = module.eval()(batch)
                require(bool(forecast.isfinite().all()), "the forecast must be finite, but is not")
                module.train().zero_grad()
                torch.autograd.backward(module.loss_values(batch).mean())
                bad = [n for n, p in module.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
                require(not bad, f"every gradient must be finite, but not those of {', '.join(bad)}")


@MODELS.check
def weights_round_trip(model: Model) -> None:
    """The weights, written and read as safetensors, make another module forecast the same bits."""
    case = usual_case(model)
    module, other = case.module(seed=0, shaken=True).eval(), case.module(seed=1, shaken=True).eval()
    batch = case.batch(3)
    plain = {name: tensor.detach().clone().contiguous() for name, tensor in module.state_dict().items()}
    with expecting(str(case)), torch.no_grad():
        other.load_state_dict(safetensors.torch.load(safetensors.torch.save(plain)))
        same = torch.equal(module(batch), other(batch))
        require(same, "a module with loaded weights must forecast the same bits; is some of its state not registered?")


@MODELS.check
def precisions_agree(model: Model) -> None:
    """float64 and float32 give the same forecast up to rounding."""
    case = usual_case(model)
    module, batch = case.module(shaken=True).eval(), case.batch(3, masked=0.2)
    with expecting(str(case)), torch.no_grad():
        single = module(batch)
        require(single.dtype == torch.float32, f"a float32 batch must give float32, but got {single.dtype}")
        exact = module.double()(double(batch))
        require(exact.dtype == torch.float64, f"a float64 batch must give float64, but got {exact.dtype}")
        same(single.double(), exact, "float32 and float64 must agree", tolerance=2e-3)


@MODELS.check
def declared_columns_are_used(model: Model) -> None:
    """A change of any column of a declared kind changes the forecast; for columns known ahead, in the horizon."""
    case = usual_case(model)
    module, batch = case.module(shaken=True).double().eval(), double(case.batch(3))
    with expecting(str(case)), torch.no_grad():
        first = module(batch)
        for name in ("future", "historical", "static", "categorical"):
            block = getattr(batch, name)
            for column in range(0 if block is None else block.shape[-1]):
                other = block.clone()
                ahead = other[:, model.input_size :] if name == "future" else other
                if name == "categorical":
                    ahead[..., column] = (ahead[..., column] + 1) % case.spec.categories[column]
                else:
                    ahead[..., column] += 1.0
                changed = not torch.equal(first, module(batch._replace(**{name: other})))
                require(
                    changed,
                    f"capabilities declare {name}=True, so changing column {column} of batch.{name} must change the "
                    "forecast, but it does not",
                )


@MODELS.check
def anchors_work(model: Model) -> None:
    """With no anchor, the last value, a season, and two mixed seasons, the forecast is finite and has its shape."""
    for anchor in (None, "last", (3,), (1, 3)):
        try:
            case = usual_case(model.replace(anchor=anchor))
        except ConfigError as refusal:
            require("anchor" in str(refusal), f"a refusal of anchor={anchor!r} must say so, but got: {refusal}")
            continue
        with expecting(f"anchor={anchor!r}"):
            forecasts(case, 2)


@MODELS.check
def exports(model: Model) -> None:
    """`torch.export` exports the whole module for any number of windows, and the exported program agrees."""
    if model.kind in EXPORT_EXCEPTIONS:
        return
    case = shortest(usual_case(model))  # tracing time grows with the number of unrolled steps
    module = case.module().eval()
    windows = torch.export.Dim("windows")
    batch = to_export(case, 3)
    sizes = Batch(*(None if tensor is None else {0: windows} for tensor in batch))  # type: ignore[arg-type]
    with expecting(str(case)), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's own layers and tracer raise warnings
        program = torch.export.export(module, (batch,), dynamic_shapes=(sizes,)).module()
        for number in (1, 5):
            other = to_export(case, number, seed=1)
            said = f"exported with 3 windows, the program must agree with the module on {number}"
            same(program(other), module(other), said, tolerance=1e-4)
