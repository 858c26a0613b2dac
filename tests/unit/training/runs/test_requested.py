"""Checkpoints at a moment of the user's choice: saved between any two steps, loaded, gone on from, forecast with."""

import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare

CONFIG = nd.TrainingConfig(max_steps=12, batch_size=8, steps_per_epoch=4, progress=False, seed=2, threads=1)
MODEL = nd.MLP(h=4, input_size=8, hidden_size=8, layers=1, dropout=0.1)


def table():
    return nd.samples.hourly_panel(2, 80)


def prepared(config=CONFIG, **options):
    return prepare(job_of(MODEL, table(), config, **options))


@pytest.mark.parametrize("step", [0, 3, 4])
def test_a_saved_moment_goes_on_to_the_same_bits(tmp_path, step):
    whole = MODEL.fit(table(), CONFIG)
    run = prepared()
    run.advance(step)
    run.save_checkpoint(tmp_path / "moment")
    run.close()
    again = nd.resume_training(tmp_path / "moment", table())
    assert again.history.step_loss == whole.history.step_loss
    assert again.predict().equals(whole.predict())


def test_a_run_goes_back_to_a_saved_moment_and_repeats_itself(tmp_path):
    run = prepared(CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / "run", every_n_steps=2, keep_last=None)))
    run.advance(3)
    run.save_checkpoint(tmp_path / "moment")
    run.advance(9)
    losses = list(run.training.state.history.step_loss)
    run.load_checkpoint(tmp_path / "moment")
    assert run.training.state.step == 3
    assert run.training.state.history.step_loss == losses[:3]
    run.advance(9)
    assert run.training.state.history.step_loss == losses
    run.finish()
    kept = [saved.step for saved in nd.read_run(tmp_path / "run").checkpoints]
    assert kept[0] == 2  # of before the moment; those after it were set aside and written anew
    assert kept[-1] == 12


class SaveAt(nd.Callback):
    """Asks for a checkpoint in one hook at one step."""

    def __init__(self, hook, step, path):
        self.step, self.path = step, path
        setattr(self, "_" + hook, True)

    def _at(self, hook, state):
        if state.step == self.step and hasattr(self, "_" + hook):
            state.save_checkpoint(self.path)

    def on_fit_start(self, state):
        self._at("on_fit_start", state)

    def on_batch_end(self, state):
        self._at("on_batch_end", state)

    def on_epoch_end(self, state):
        self._at("on_epoch_end", state)

    def on_validation_end(self, state):
        self._at("on_validation_end", state)


@pytest.mark.parametrize(
    ("hook", "step"),
    [("on_fit_start", 0), ("on_batch_end", 2), ("on_batch_end", 4), ("on_epoch_end", 4), ("on_validation_end", 8)],
)
def test_a_callback_saves_the_moment_it_wants(tmp_path, hook, step):
    whole = MODEL.fit(table(), CONFIG)
    path = tmp_path / "moment"
    MODEL.fit(table(), CONFIG.replace(callbacks=(SaveAt(hook, step, path),)))
    assert nd.read_run(path).checkpoints[0].document["progress"]["step"] == step
    again = nd.resume_training(path, table())
    assert again.history.step_loss == whole.history.step_loss
    assert again.history["validation_loss"] == whole.history["validation_loss"]


def test_at_the_end_of_a_run_it_is_too_late(tmp_path):
    class Late(nd.Callback):
        def on_fit_end(self, state):
            state.save_checkpoint(tmp_path / "late")

    with pytest.raises(nd.TrainingError, match="has ended"):
        MODEL.fit(table(), CONFIG.replace(callbacks=(Late(),)))


@pytest.mark.parametrize("moment", ["run", "checkpoint", "loose"])
def test_a_forecaster_is_loaded_from_a_run_or_a_checkpoint(tmp_path, moment):
    config = CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / "run", every_n_steps=4), early_stopping=None)
    run = prepared(config)
    run.advance(12)
    run.save_checkpoint(tmp_path / "loose")
    fitted = run.finish()
    place = {
        "run": tmp_path / "run",
        "checkpoint": tmp_path / "run" / "checkpoints" / "step-00000012",
        "loose": tmp_path / "loose",
    }[moment]
    loaded = nd.load(place)
    assert loaded.predict().equals(fitted.predict())
    assert loaded.history.step_loss == fitted.history.step_loss


@pytest.mark.parametrize(
    "fields",
    [
        {"early_stopping": nd.EarlyStopping(patience=3)},
        {"averaging": nd.EMA(decay=0.8), "early_stopping": None},
        {"optimizer": nd.ScheduleFreeAdamW(), "early_stopping": None},
    ],
)
def test_a_loaded_checkpoint_has_the_weights_that_the_run_returns(tmp_path, fields):
    fitted = MODEL.fit(table(), CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / "run"), **fields))
    loaded = nd.load(tmp_path / "run")
    for name, tensor in fitted.module.state_dict().items():
        assert torch.equal(tensor, loaded.module.state_dict()[name]), name


def test_a_stopped_run_is_resumed_without_saying_again_what_it_was(tmp_path):
    config = CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / "run", every_n_steps=2))
    run = prepared(config)
    run.advance(5)
    run.close()
    (tmp_path / "run").rename(tmp_path / "moved")
    again = nd.resume_training(tmp_path / "moved", table(), resume_with={"max_steps": 14})
    assert len(again.history.step_loss) == 14
    assert not (tmp_path / "run").exists()


def test_what_is_no_checkpoint_is_not_replaced(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    run = prepared()
    run.advance(1)
    with pytest.raises(nd.StorageError, match="is no checkpoint"):
        run.save_checkpoint(tmp_path / "notes")
    run.close()


def test_another_table_is_refused_by_name(tmp_path):
    run = prepared()
    run.advance(1)
    run.save_checkpoint(tmp_path / "moment")
    run.close()
    with pytest.raises(nd.StorageError, match="data"):
        nd.resume_training(tmp_path / "moment", nd.samples.hourly_panel(2, 81))
