"""Every file says the number of its format; older ones are read, newer ones are refused with what to do."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.core import bundle
from neuro_divergent.data.store import files as store_files
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.forecasting.storage import save_load, several
from neuro_divergent.training.runs import snapshot

CONFIG = nd.TrainingConfig(max_steps=4, seed=0, validation_split=None, early_stopping=None)
MODEL = nd.MLP(h=3, input_size=6, hidden_size=4)


def rows():
    step = np.arange(40)
    return pl.DataFrame({"unique_id": "a", "ds": step, "y": np.sin(step)})


def rewritten(folder, name, change):
    """Change a JSON file of a bundle, with a manifest that fits."""
    contents = bundle.read(folder)
    document = json.loads(contents[name])
    change(document)
    bundle.write(folder, contents | {name: json.dumps(document).encode()}, overwrite=True)


@pytest.fixture(scope="module")
def fitted():
    return MODEL.fit(rows(), CONFIG)


def test_a_model_of_a_newer_format_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "model.json").read_bytes())["schema"] == save_load.MODEL_FORMAT
    rewritten(tmp_path / "model", "model.json", lambda facts: facts.update(schema=save_load.MODEL_FORMAT + 1))
    with pytest.raises(nd.StorageError, match=r"model\.json has format 2\. Update neuro-divergent"):
        nd.load(tmp_path / "model")


def test_a_model_that_does_not_say_its_format_is_of_the_first(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    rewritten(tmp_path / "model", "model.json", lambda facts: facts.pop("schema"))
    assert nd.load(tmp_path / "model").predict().equals(fitted.predict())


@pytest.mark.parametrize("number", [0, True, "1", 1.5, None])
def test_a_format_that_is_no_number_is_refused(fitted, tmp_path, number):
    fitted.save(tmp_path / "model")
    rewritten(tmp_path / "model", "model.json", lambda facts: facts.update(schema=number))
    with pytest.raises(nd.CorruptFileError, match="must be a whole number from 1"):
        nd.load(tmp_path / "model")


def test_an_index_of_a_newer_format_is_refused(fitted, tmp_path):
    nd.Ensemble([fitted, fitted]).save(tmp_path / "several")
    index = tmp_path / "several" / several.INDEX
    assert json.loads((index / "index.json").read_bytes())["schema"] == several.INDEX_FORMAT
    rewritten(index, "index.json", lambda facts: facts.update(schema=several.INDEX_FORMAT + 1))
    with pytest.raises(nd.StorageError, match=r"index\.json has format 2\. Update neuro-divergent"):
        nd.load(tmp_path / "several")


@pytest.mark.parametrize("kind", ["Forecast", None, ["Ensemble"]])
def test_an_index_of_an_unknown_kind_is_refused(fitted, tmp_path, kind):
    nd.Ensemble([fitted, fitted]).save(tmp_path / "several")
    rewritten(tmp_path / "several" / several.INDEX, "index.json", lambda facts: facts.update(kind=kind))
    with pytest.raises(nd.CorruptFileError, match="must name what was saved"):
        nd.load(tmp_path / "several")


def by_hand(forecasters, facts):
    """What the test below registers."""
    return [facts["title"], *(forecaster.model.name for forecaster in forecasters)]


def test_another_kind_of_several_models_registers_its_loader(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(several, "_MAKERS", dict(several._MAKERS))
    several.register_kind("Pair", f"{__name__}:by_hand")
    several.save_many([fitted, fitted], {"kind": "Pair", "title": "two"}, tmp_path / "pair")
    assert nd.load(tmp_path / "pair") == ["two", "MLP", "MLP"]
    with pytest.raises(nd.NeuroDivergentError, match="must have one loader"):
        several.register_kind("Ensemble", f"{__name__}:by_hand")


@pytest.mark.parametrize(
    ("number", "error", "sentence"),
    [
        (store_files.FORMAT + 1, nd.StorageError, "Update neuro-divergent"),
        (0, nd.CorruptFileError, "must have a format number"),
        (True, nd.CorruptFileError, "must have a format number"),
    ],
)
def test_a_series_store_of_another_format_is_refused(tmp_path, number, error, sentence):
    nd.TimeSeriesDataFrame.from_frame(rows()).store.save(tmp_path / "store")
    header = tmp_path / "store" / store_files.HEADER
    facts = json.loads(header.read_text(encoding="utf-8"))
    assert facts["format"] in range(1, store_files.FORMAT + 1)
    header.write_text(json.dumps(facts | {"format": number}), encoding="utf-8")
    with pytest.raises(error, match=sentence):
        SeriesStore.open(tmp_path / "store")


def test_a_checkpoint_of_a_newer_format_is_refused(tmp_path):
    config = CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / "run", every_n_steps=2, keep_last=1))
    MODEL.fit(rows(), config)
    (folder,) = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert json.loads((folder / "state.json").read_bytes())["schema"] == snapshot.SCHEMA
    rewritten(folder, "state.json", lambda facts: facts.update(schema=snapshot.SCHEMA + 1))
    with pytest.raises(nd.StorageError, match="Update neuro-divergent"):
        MODEL.fit(rows(), config, resume="auto")
    shutil.rmtree(folder)
