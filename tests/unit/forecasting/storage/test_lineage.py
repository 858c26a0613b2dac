"""A saved model says which training made it, from which other model, and on which data."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core import bundle

CONFIG = nd.TrainingConfig(max_steps=2, seed=0)
MODEL = nd.MLP(h=3, input_size=6, hidden_size=4)
OLD = Path(__file__).parents[3] / "golden" / "format1"


def rows(first=0, last=40):
    step = np.arange(first, last)
    return pl.DataFrame({"unique_id": "a", "ds": step, "y": np.sin(step)})


def changed(source, target, name, **fields):
    """A copy of a saved bundle with other fields in one of its JSON files, and a manifest that fits."""
    contents = bundle.read(source)
    document = json.loads(contents[name]) | fields
    bundle.write(target, contents | {name: json.dumps(document).encode()})


def test_every_fit_has_an_identity_of_its_own_and_the_fingerprint_of_its_data():
    table = nd.TimeSeriesDataFrame.from_frame(rows())
    first, second = MODEL.fit(table, CONFIG).lineage, MODEL.fit(table, CONFIG).lineage
    assert len(first.run_id) == 32
    assert first.run_id != second.run_id
    assert first.parent_id is None
    assert first.data_fingerprint == second.data_fingerprint == table.store.fingerprint()


def test_the_identity_is_not_drawn_from_the_generator_of_torch():
    def after():
        torch.manual_seed(3)
        weights = MODEL.fit(rows(), CONFIG).module.state_dict()
        return weights, torch.rand(2)

    (weights, draw), (again, other) = after(), after()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert torch.equal(draw, other)


def test_saving_and_loading_keeps_it(tmp_path):
    fitted = MODEL.fit(rows(), CONFIG)
    fitted.save(tmp_path / "model", context=False)
    assert nd.load(tmp_path / "model").lineage == fitted.lineage  # although the rows are not there any more
    nd.NeuralForecast.from_forecasters([fitted]).save(tmp_path / "several")
    assert nd.load(tmp_path / "several").forecasters["MLP"].lineage == fitted.lineage


def test_a_continued_model_names_its_parent(tmp_path):
    fitted = MODEL.fit(rows(), CONFIG)
    first = fitted.lineage
    tuned = fitted.fine_tune(rows(5, 50), CONFIG)
    assert tuned.lineage.parent_id == first.run_id
    assert tuned.lineage.data_fingerprint == tuned.data.store.fingerprint() != first.data_fingerprint
    assert fitted.lineage == first
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    loaded.update(rows(40, 45), CONFIG)
    assert loaded.lineage.parent_id == first.run_id
    assert loaded.lineage.run_id != first.run_id
    assert loaded.lineage.data_fingerprint == loaded.data.store.fingerprint()


def test_an_old_file_has_none_and_can_be_continued(tmp_path):
    shutil.copytree(OLD / "recurrent", tmp_path / "old")
    loaded = nd.load(tmp_path / "old")
    assert loaded.lineage is None
    loaded.save(tmp_path / "again")
    assert nd.load(tmp_path / "again").lineage is None
    step = np.arange(60)
    longer = pl.DataFrame({"unique_id": "a", "ds": step, "y": np.sin(step)})
    tuned = loaded.fine_tune(longer, CONFIG.replace(loss=loaded.loss), freq="1i")
    assert tuned.lineage.parent_id is None


@pytest.mark.parametrize("wrong", [5, {"run_id": 5}, {"parent_id": "x"}, {"run_id": "x", "more": "y"}])
def test_a_lineage_of_a_wrong_form_is_refused(tmp_path, wrong):
    MODEL.fit(rows(), CONFIG).save(tmp_path / "model")
    changed(tmp_path / "model", tmp_path / "odd", "model.json", lineage=wrong)
    with pytest.raises(nd.CorruptFileError, match="lineage"):
        nd.load(tmp_path / "odd")
