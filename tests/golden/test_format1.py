"""Models and checkpoints of format 1 load, forecast and go on as they did with the code that wrote them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from make_format1 import SMALL, future, interrupted, table
from safetensors.numpy import load_file

import neuro_divergent as nd
from neuro_divergent.core import bundle

OLD = Path(__file__).with_name("format1")
EXPECTED = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))
# Written down by the old code; another processor may round the last bits of a sum otherwise.
CLOSE = {"rel": 1e-5, "abs": 1e-6}


@pytest.mark.parametrize("name", ["quantiles", "recurrent", "several", "ensemble"])
def test_an_old_model_forecasts_as_it_did(name):
    fitted = nd.load(OLD / name)
    forecast = fitted.predict(future=future()) if name == "quantiles" else fitted.predict()
    assert forecast.drop("unique_id", "ds").to_numpy().ravel() == pytest.approx(EXPECTED[name], **CLOSE)


@pytest.mark.parametrize("name", ["quantiles", "recurrent"])
def test_an_old_model_has_the_weights_that_its_file_holds(name):
    saved = load_file(OLD / name / "weights.safetensors")
    loaded = {key: tensor.numpy() for key, tensor in nd.load(OLD / name).module.state_dict().items()}
    assert loaded.keys() == saved.keys()
    assert all(np.array_equal(loaded[key], saved[key]) for key in saved)


def test_an_old_run_goes_on_where_it_was_stopped(tmp_path):
    shutil.copytree(OLD / "run", tmp_path / "run")
    model = nd.MLP(**SMALL, hidden_size=4, layers=1)
    fitted = model.fit(table().drop("hour"), interrupted(tmp_path / "run"), resume="auto")
    assert fitted.history.step_loss == pytest.approx(EXPECTED["run"], **CLOSE)


def older(folder, **without):
    """The old run as a version would have written it that lacked some fields: of the configuration, or of one in it."""
    shutil.copytree(OLD / "run", folder)
    (checkpoint,) = (folder / "checkpoints").iterdir()
    contents = bundle.read(checkpoint)
    document = json.loads(contents["state.json"])
    for name, inner in without.items():
        if inner is None:
            del document["config"][name]
        else:
            del document["config"][name][inner]
    bundle.write(checkpoint, contents | {"state.json": json.dumps(document).encode()}, overwrite=True)


def test_an_old_run_without_fields_of_today_goes_on_with_their_defaults(tmp_path):
    """The losses are those that the old code wrote down: what it had resolved is kept, new fields change nothing."""
    older(tmp_path / "run", gradient_noise=None, nonfinite=None, optimizer="amsgrad")
    model = nd.MLP(**SMALL, hidden_size=4, layers=1)
    fitted = model.fit(table().drop("hour"), interrupted(tmp_path / "run"), resume="auto")
    assert fitted.history.step_loss == pytest.approx(EXPECTED["run"], **CLOSE)
    assert (fitted.config.batch_size, fitted.config.seed, fitted.config.max_steps) == (16, 5, 10)
    assert fitted.config.gradient_noise is None
    assert fitted.config.nonfinite == "stop"
    assert fitted.config.optimizer.amsgrad is False


def test_another_value_than_the_default_is_refused_for_a_field_that_an_old_run_did_not_have(tmp_path):
    older(tmp_path / "run", nonfinite=None, optimizer="amsgrad")
    model = nd.MLP(**SMALL, hidden_size=4, layers=1)
    given = interrupted(tmp_path / "run")
    for other, name in (
        (given.replace(nonfinite="skip"), "training.nonfinite was 'stop', but is 'skip'"),
        (given.replace(optimizer=nd.AdamW(weight_decay=0.01, amsgrad=True)), "training.optimizer.amsgrad was False"),
    ):
        with pytest.raises(nd.StorageError, match=name):
            model.fit(table().drop("hour"), other, resume="auto")
