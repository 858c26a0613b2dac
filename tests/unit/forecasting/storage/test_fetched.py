"""nd.load of remote addresses, with the memory file system of fsspec: the forecasts are those of the local files."""

import fsspec
import numpy as np
import pytest

import neuro_divergent as nd
from neuro_divergent.core.errors import CorruptFileError, StorageError

DATA = nd.samples.air_passengers()
CONFIG = nd.TrainingConfig(max_steps=3, validation_split=None, early_stopping=None)


@pytest.fixture
def upload(tmp_path):
    system = fsspec.filesystem("memory")
    system.rm("/kept", recursive=True) if system.exists("/kept") else None
    yield lambda folder: system.put(str(folder), "/kept", recursive=True)
    if system.exists("/kept"):
        system.rm("/kept", recursive=True)


def _same(one, other):
    np.testing.assert_array_equal(one.predict()["NLinear"].to_numpy(), other.predict()["NLinear"].to_numpy())


@pytest.mark.parametrize("several", [False, True])
def test_a_saved_model_is_loaded_from_an_address(upload, tmp_path, several):
    if several:
        fitted = nd.NeuralForecast([nd.NLinear(h=4, input_size=8)], freq="1mo")
        fitted.fit(DATA, CONFIG)
    else:
        fitted = nd.NLinear(h=4, input_size=8).fit(DATA, CONFIG)
    fitted.save(tmp_path / "model")
    upload(tmp_path / "model")
    _same(nd.load("memory://kept"), fitted)


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_and_its_newest_checkpoint_are_loaded_from_an_address(upload, tmp_path, finished):
    import shutil

    run = tmp_path / "run"
    config = CONFIG.replace(checkpoints=nd.Checkpoints(run, every_n_steps=1))
    fitted = nd.NLinear(h=4, input_size=8).fit(DATA, config)
    if not finished and (run / "model").exists():
        shutil.rmtree(run / "model")
    upload(run)
    _same(nd.load("memory://kept"), fitted)


def test_a_damaged_or_missing_model_is_refused(upload, tmp_path):
    with pytest.raises(StorageError, match="is none"):
        nd.load("memory://kept/nowhere")
    nd.NLinear(h=4, input_size=8).fit(DATA, CONFIG).save(tmp_path / "model")
    weights = tmp_path / "model" / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    upload(tmp_path / "model")
    with pytest.raises(CorruptFileError, match="damaged"):
        nd.load("memory://kept")
