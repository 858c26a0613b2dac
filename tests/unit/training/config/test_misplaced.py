"""Settings in the wrong place, or by another library's name: the answer is Python that can be run."""

import re

import pytest

import neuro_divergent as nd
from neuro_divergent.cli.request.shell_wording import on_the_shell
from neuro_divergent.core.errors import Advice
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.training.config.misplaced import WORDS, as_code

DATA = nd.samples.air_passengers()
VALUES = {
    "validation": DATA, "static": ["a"], "future": ["a"], "historical": ["a"], "scaler": "robust", "alias": "own",
    "checkpoints": "runs/a", "loss": "mae", "validation_loss": "mse", "optimizer": "sgd", "metrics": ["mae"],
    "level": [80], "quantiles": [0.1, 0.9], "point": "mean", "distribution": "Gaussian", "betas": (0.9, 0.99),
    "accelerator": "gpu", "freq": "1mo", "id_col": "unique_id", "time_col": "ds", "progress": False,
    "mixed_precision": True, "validation_split": 0.2,
    "label_smoothing": 0.1, "quantile_levels": [0.1, 0.9], "teacher_forcing": 0.5,
    "dropout": 0.1, "momentum": 0.9, "weight_decay": 0.1,
}  # fmt: skip
"""A value that each setting can have; any other one is given 2."""


def value_of(word: str):
    field = WORDS[word].write.split("=", 1)[0]
    return VALUES.get(word, VALUES.get(field, 2))


def answered(make) -> nd.ConfigError:
    with pytest.raises(nd.ConfigError) as caught:
        make()
    return caught.value


class Model:
    """Stands in the printed snippets for the user's model: takes what fit takes, and trains nothing."""

    def fit(self, data, *arguments, **named):
        return job_of(nd.DLinear(h=6, input_size=12), data, *arguments, **{"id_col": "unique_id"} | named)


def runs(snippet: str):
    return eval(snippet, {"nd": nd, "model": Model(), "data": DATA, "fit": Model().fit})


@pytest.mark.parametrize("word", [word for word, home in WORDS.items() if home.owner == "training"])
def test_words_of_training_on_a_model_and_in_the_config(word):
    value = value_of(word)
    on_model = answered(lambda: nd.MLP(h=6, input_size=12, **{word: value}))
    snippet = re.fullmatch(
        rf"MLP has no field '{word}'; write (model\.fit\(data, .*\)){re.escape(WORDS[word].note)}", str(on_model)
    )
    assert snippet, on_model
    job = runs(snippet.group(1))
    if word in nd.TrainingConfig.model_fields:
        return
    in_config = answered(lambda: nd.TrainingConfig(**{word: value}))
    note = re.escape(WORDS[word].note)
    sentence = rf"TrainingConfig has no field '{word}'; write (nd\.TrainingConfig\(.*\)){note}"
    snippet = re.fullmatch(sentence, str(in_config))
    assert snippet, in_config
    assert runs(snippet.group(1)) == job.config


@pytest.mark.parametrize("word", [word for word, home in WORDS.items() if home.owner == "model"])
def test_words_of_models(word):
    value = value_of(word)
    in_config = answered(lambda: nd.TrainingConfig(**{word: value}))
    snippet = re.search(r"it is a field of the model: write (nd\.\w+\(.*\))$", str(in_config))
    assert snippet, in_config
    assert isinstance(runs(snippet.group(1)), nd.Model)


@pytest.mark.parametrize("word", ["freq", "frequency", "id_col", "group_ids", "validation", "val_data", "missing"])
def test_words_of_fit(word):
    value = {"validation": None, "val_data": None, "missing": "mask"}.get(word, value_of(word))
    error = answered(lambda: nd.MLP(h=6, input_size=12, **{word: value}))
    snippet = re.search(r"; write (model\.fit\(data, \w+=.*\))$", str(error))
    assert snippet, error
    runs(snippet.group(1))


def test_every_field_of_a_training_is_answered_on_a_model():
    for name in nd.TrainingConfig.model_fields:
        error = answered(lambda name=name: nd.MLP(h=6, input_size=12, **{name: 2}))
        assert f"write model.fit(data, nd.TrainingConfig({name}=2))" in str(error)
        assert error.advice == (Advice(f"training.{name}", "2"),)


def test_fields_of_models_are_found_by_the_models_themselves():
    error = answered(lambda: nd.TrainingConfig(patch_len=16))
    assert str(error).endswith("it is a field of the model: write nd.PatchTST(h=12, input_size=24, patch_len=16)")
    assert error.advice == (Advice("model.patch_len", "16"),)


def test_a_word_for_a_field_that_the_model_has_is_renamed():
    error = answered(lambda: nd.NHITS(prediction_length=12, input_size=24))
    assert "NHITS has no field 'prediction_length'; write h=12" in str(error)
    assert "n_layers" in str(answered(lambda: nd.DLinear(h=1, input_size=2, n_layers=3)))  # it has no layers: no answer
    assert "write" not in str(answered(lambda: nd.DLinear(h=1, input_size=2, n_layers=3)))


def test_the_shell_says_it_in_flags():
    error = answered(lambda: nd.NHITS(h=12, input_size=24, max_steps=500))
    assert on_the_shell(error) == "NHITS has no field 'max_steps'. Say --set training.max_steps=500"


def test_values_are_shown_as_they_would_be_written():
    assert as_code(nd.MQLoss(level=[80])) == "nd.MQLoss(level=(80.0,))"
    assert as_code(nd.MAE) == "nd.MAE"
    assert as_code(object()) == "..."
    error = answered(lambda: nd.NHITS(h=1, input_size=2, loss=nd.Huber(delta=2.0)))
    assert "nd.TrainingConfig(loss=nd.Huber(delta=2.0))" in str(error)
