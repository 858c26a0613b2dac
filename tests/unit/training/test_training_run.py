"""A training as a value: advanced in pieces it gives the bits of one piece, and its hooks see what they declare."""

import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare

CONFIG = nd.TrainingConfig(max_steps=14, batch_size=8, steps_per_epoch=4, progress=False, seed=2, threads=1)
MODEL = nd.MLP(h=4, input_size=8, hidden_size=8, layers=1, dropout=0.1)


def frame():
    return nd.samples.hourly_panel(2, 80)


def prepared(config=CONFIG, **options):
    return prepare(job_of(MODEL, frame(), config, **options))


def test_a_run_in_pieces_has_the_bits_of_a_run_in_one():
    whole = MODEL.fit(frame(), CONFIG)
    run = prepared()
    for until in (1, 3, 4, 9):  # inside of epochs and at the end of one
        run.advance(until)
        assert run.training.state.step == until
        assert not run.training.state.history.stopped
    fitted = run.finish()
    assert fitted.history.step_loss == whole.history.step_loss
    assert [epoch["validation_loss"] for epoch in fitted.history.epochs] == [
        epoch["validation_loss"] for epoch in whole.history.epochs
    ]
    assert fitted.predict().equals(whole.predict())


def test_two_runs_can_take_turns():
    alone = [MODEL.fit(frame(), CONFIG.replace(seed=seed)) for seed in (1, 2)]
    runs = [prepared(CONFIG.replace(seed=seed)) for seed in (1, 2)]
    for until in range(2, 15, 2):
        for run in runs:
            run.advance(until)
    for run, other in zip(runs, alone, strict=True):
        assert run.finish().history.step_loss == other.history.step_loss


def test_threads_and_the_global_generator_are_given_back_between_pieces():
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    run = prepared()
    run.advance(5)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), before)
    run.close()


def test_an_ended_run_is_refused():
    run = prepared()
    run.finish()
    with pytest.raises(nd.TrainingError, match="has ended"):
        run.advance(3)


def test_a_closed_run_leaves_its_directory_to_the_next(tmp_path):
    saved = CONFIG.replace(checkpoints=nd.Checkpoints(str(tmp_path / "run"), every_n_steps=2))
    run = prepared(saved)
    run.advance(6)
    with pytest.raises(nd.StorageError, match="process"):
        prepared(saved, resume="auto").advance()
    run.training.state.saver.join()
    run.close()
    fitted = prepared(saved, resume="auto").finish()
    assert fitted.history.step_loss == MODEL.fit(frame(), CONFIG).history.step_loss


def test_a_job_comes_back_from_its_folder(tmp_path):
    job = job_of(MODEL, frame(), CONFIG, short="pad", local_scaler="standard")
    job.write(tmp_path / "job")
    again = Job.read(tmp_path / "job")
    assert (again.model, again.config, again.short, again.local_scaler) == (MODEL, CONFIG, "pad", "standard")
    assert again.table.to_polars().equals(job.table.to_polars())


class Watcher(nd.Callback):
    looks_at = frozenset({"gradients", "outputs"})

    def __init__(self):
        self.seen = []

    def on_gradients(self, state):
        norm = torch.sqrt(sum(parameter.grad.square().sum() for parameter in state.module.parameters()))
        self.seen.append((float(norm), tuple(state.outputs.shape), state.loss))


def test_gradients_before_clipping_and_outputs_are_seen_by_who_declares_it():
    """The norm in the history is that before clipping: the hook must see the same gradients."""
    watcher = Watcher()
    clipped = CONFIG.replace(gradient_clipping=nd.ClipByNorm(1e-3), callbacks=(watcher,))
    fitted = MODEL.fit(frame(), clipped)
    assert [norm for norm, _, _ in watcher.seen] == pytest.approx(fitted.history.gradient_norm, rel=1e-5)
    assert [loss for _, _, loss in watcher.seen] == fitted.history.step_loss
    assert {shape for _, shape, _ in watcher.seen} == {(8, 4, 1, 1)}
    plain = MODEL.fit(frame(), CONFIG.replace(gradient_clipping=nd.ClipByNorm(1e-3)))
    assert plain.history.step_loss == fitted.history.step_loss


def test_outputs_of_a_network_that_trains_by_another_path_are_seen():
    watcher = Watcher()
    model = nd.DeepAR(h=4, input_size=8, hidden_size=8, layers=1)
    model.fit(frame(), CONFIG.replace(max_steps=3, callbacks=(watcher,)))
    assert len(watcher.seen) == 3


def test_outputs_of_a_plain_module_are_seen():
    watcher = Watcher()
    x = torch.linspace(-1, 1, 64)[:, None]
    config = CONFIG.replace(max_steps=3, steps_per_epoch=None, callbacks=(watcher,))
    nd.Trainer(config).fit(torch.nn.Linear(1, 1), (x, 3 * x))
    assert {shape for _, shape, _ in watcher.seen} == {(8, 1)}


class Unknown(nd.Callback):
    def on_batch_end(self, state):
        pass


@pytest.mark.parametrize(
    ("callback", "whole"),
    [
        (nd.Timer(), True),
        (nd.LearningRateMonitor(), True),
        (nd.GradientNormMonitor(), False),
        (Watcher(), False),
        (Unknown(), False),
    ],
    ids=lambda item: type(item).__name__ if not isinstance(item, bool) else "",
)
def test_only_who_looks_inside_a_step_switches_the_compiled_step_off(callback, whole, caplog):
    run = prepared(CONFIG.replace(compile=True, callbacks=(callback,)))
    run.training.begin()
    assert run.training._decided.whole is whole
    run.close()
