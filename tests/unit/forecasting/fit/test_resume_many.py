"""Several models that go on: each from its own directory, and nothing is changed before all of them can."""

from collections import Counter
from pathlib import Path

import pytest

import neuro_divergent as nd

MODELS = [nd.DLinear(h=4, input_size=12), nd.MLP(h=4, input_size=12, hidden_size=8), nd.NLinear(h=4, input_size=12)]
NAMES = [model.name for model in MODELS]


class Interrupt(nd.Callback):
    """Ends the whole call in the middle of one of its trainings."""

    def __init__(self, which="MLP", step=3):
        self.which, self.step = which, step

    def on_batch_end(self, state):
        if state.run_directory.name == self.which and state.step == self.step:
            raise KeyboardInterrupt


class Count(nd.Callback):
    def __init__(self):
        self.steps = Counter()

    def on_batch_end(self, state):
        self.steps[state.run_directory.name] += 1


def panel():
    return nd.samples.hourly_panel(2, 90)


def config(directory, *callbacks, **fields):
    """Nothing in it depends on how long the training is to be: a longer one is a shorter one, and then some."""
    base = {"max_epochs": 2, "batch_size": 32, "steps_per_epoch": 4, "schedule": None, "early_stopping": None}
    checkpoints = None if directory is None else nd.Checkpoints(directory, every_n_steps=1, asynchronous=False)
    return nd.TrainingConfig(**base | {"progress": False, "checkpoints": checkpoints, "callbacks": callbacks} | fields)


def interrupted(directory):
    with pytest.raises(KeyboardInterrupt):
        nd.NeuralForecast(MODELS).fit(panel(), config(directory, Interrupt()))
    assert sorted(path.name for path in Path(directory).iterdir()) == ["DLinear", "MLP"]


def contents(directory):
    """Every file below a directory, with its bytes and the time of its last change."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.rglob("*") if path.is_file()}


def test_changes_are_for_all_models_or_by_name(tmp_path):
    interrupted(tmp_path / "run")
    steps = Count()
    longer = nd.NeuralForecast(MODELS).fit(
        panel(), config(tmp_path / "run", steps), resume="auto", resume_with={"max_epochs": 3}
    )
    whole = nd.NeuralForecast(MODELS).fit(panel(), config(None, max_epochs=3))
    assert longer.predict().equals(whole.predict())
    # DLinear had ended after 8 of now 12 steps, MLP had saved 2 of them, NLinear had not begun.
    assert steps.steps == {"DLinear": 4, "MLP": 10, "NLinear": 12}
    again = nd.NeuralForecast(MODELS).fit(
        panel(), config(tmp_path / "run", max_epochs=3), resume="auto", resume_with={"MLP": {"max_epochs": 4}}
    )
    assert [len(item.history.step_loss) for item in again.forecasters.values()] == [12, 16, 12]
    alone = MODELS[1].fit(panel(), config(None, max_epochs=4))
    assert again["MLP"].predict().equals(alone.predict())
    # A path does not need the model's own directory, and a model that had not begun takes the changes too.
    interrupted(tmp_path / "second")
    elsewhere = nd.NeuralForecast(MODELS).fit(
        panel(), config(tmp_path / "third"), resume=tmp_path / "second", resume_with={"max_epochs": 3}
    )
    assert elsewhere.predict().equals(whole.predict())


def test_one_model_is_a_run_and_not_a_folder_of_runs(tmp_path):
    fitted = nd.NeuralForecast(MODELS[0]).fit(panel(), config(tmp_path))
    for source in ("auto", tmp_path, tmp_path / "checkpoints" / "step-00000005"):
        again = nd.NeuralForecast(MODELS[0]).fit(panel(), config(tmp_path), resume=source)
        assert again.predict().equals(fitted.predict())


def test_another_model_is_refused_before_the_ones_before_it_go_on(tmp_path):
    """The first model could go on; the third is not the one that was trained, so that nothing happens at all."""
    fields = {"max_epochs": 3}
    nd.NeuralForecast(MODELS).fit(panel(), config(tmp_path))
    before = contents(tmp_path)
    other = [*MODELS[:2], nd.NLinear(h=4, input_size=16)]
    with pytest.raises(nd.StorageError, match=r"model\.input_size was 12, but is 16"):
        nd.NeuralForecast(other).fit(panel(), config(tmp_path), resume="auto", resume_with=fields)
    mixed = {name: config(tmp_path) for name in NAMES} | {"NLinear": config(tmp_path, batch_size=16)}
    with pytest.raises(nd.StorageError, match=r"training\.batch_size was 32, but is 16"):
        nd.NeuralForecast(MODELS).fit(panel(), mixed, resume=tmp_path, resume_with=fields)
    for path in (tmp_path / "MLP" / "checkpoints").glob("step-*/weights.safetensors"):
        path.write_bytes(b"")
        before[path] = (b"", path.stat().st_mtime_ns)
    with pytest.raises(nd.CorruptFileError, match="all 5 are damaged"):
        nd.NeuralForecast(MODELS).fit(panel(), config(tmp_path), resume="auto", resume_with=fields)
    assert contents(tmp_path) == before


def test_what_cannot_go_on_is_refused(tmp_path):
    several = nd.NeuralForecast(MODELS)
    mixed = {"DLinear": config(tmp_path / "a"), "MLP": config(None), "NLinear": config(None)}
    with pytest.raises(nd.ConfigError, match=r"needs checkpoints=.* for each run, but there is none for MLP, NLinear"):
        several.fit(panel(), mixed, resume="auto")
    with pytest.raises(nd.NoCheckpointError, match=r"a folder for each run \(DLinear, MLP, NLinear\)"):
        several.fit(panel(), config(tmp_path / "run"), resume=tmp_path / "nothing")
    with pytest.raises(nd.ConfigError, match="two trainings, so it cannot be resumed"):
        several.fit(
            panel(), config(tmp_path / "run"), resume="auto", prediction_intervals=nd.PredictionIntervals(n_windows=2)
        )
    with pytest.raises(nd.ConfigError, match="resume_with changes a resumed run"):
        several.fit(panel(), config(tmp_path / "run"), resume_with={"max_epochs": 3})
    with pytest.raises(nd.ConfigError, match=r"resume_with may change .*, but got batch_size"):
        several.fit(panel(), config(tmp_path / "run"), resume="auto", resume_with={"MLP": {"batch_size": 3}})
    with pytest.raises(nd.ConfigError, match=r"by model name \(DLinear, MLP, NLinear\), but got max_epochs"):
        several.fit(panel(), config(tmp_path / "run"), resume="auto", resume_with={"MLP": {}, "max_epochs": 3})
    assert not list(tmp_path.iterdir())
    assert not several.fitted


def test_one_call_forms_go_on(tmp_path):
    panel().write_csv(tmp_path / "data.csv")
    panel().write_parquet(tmp_path / "data.parquet")
    interrupted(tmp_path / "run")
    whole = nd.NeuralForecast(MODELS).fit(panel(), config(None)).predict()
    steps = Count()
    first = nd.train_from_csv(tmp_path / "data.csv", "y", MODELS, config(tmp_path / "run", steps), resume="auto")
    assert first.predict().equals(whole)
    assert steps.steps == {"MLP": 6, "NLinear": 8}
    longer = nd.train_from_parquet(
        tmp_path / "data.parquet",
        "y",
        MODELS[0],
        config(tmp_path / "run" / "DLinear"),
        resume="auto",
        resume_with={"max_epochs": 3},
    )
    assert len(longer.history.step_loss) == 12


class TestFitMany:
    def test_each_training_goes_on_in_its_own_directory(self, tmp_path):
        def configs(*callbacks):
            return [config(tmp_path / str(seed), *callbacks, seed=seed) for seed in (1, 2, 3)]

        with pytest.raises(KeyboardInterrupt):
            nd.fit_many(MODELS[1], panel(), configs(Interrupt("2")))
        steps = Count()
        fitted = nd.fit_many(MODELS[1], panel(), configs(steps), resume="auto")
        whole = nd.fit_many(MODELS[1], panel(), config(None), seeds=3, stacked=False)
        assert [item.predict().equals(other.predict()) for item, other in zip(fitted, whole, strict=True)] == [True] * 3
        assert steps.steps == {"2": 6, "3": 8}
        longer = nd.fit_many(MODELS[1], panel(), configs(), resume="auto", resume_with={"max_epochs": 3})
        assert [len(item.history.step_loss) for item in longer] == [12, 12, 12]

    def test_what_cannot_go_on_is_refused(self, tmp_path):
        saved = [config(tmp_path / str(seed), seed=seed) for seed in (1, 2)]
        with pytest.raises(nd.ConfigError, match="use resume='auto', not"):
            nd.fit_many(MODELS[1], panel(), saved, resume=tmp_path)
        with pytest.raises(nd.ConfigError, match="but there is none for training 1, training 2"):
            nd.fit_many(MODELS[1], panel(), config(None), seeds=2, resume="auto")
        with pytest.raises(nd.ConfigError, match="checkpoints is about one run"):
            nd.fit_many(MODELS[1], panel(), saved, stacked=True, resume="auto")
        with pytest.raises(nd.ConfigError, match="several trainings have the same one"):
            nd.fit_many(MODELS[1], panel(), saved[0], seeds=2, resume="auto")
        with pytest.raises(nd.ConfigError, match="resume_with changes a resumed run"):
            nd.fit_many(MODELS[1], panel(), saved, resume_with={"max_epochs": 3})
        assert not list(tmp_path.iterdir())
