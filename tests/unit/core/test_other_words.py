"""Words of other documents are answered with what to write, and what is written works."""

import re

import pytest

import neuro_divergent as nd
from neuro_divergent.core import registry
from neuro_divergent.core.other_words import FIELDS, NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_of_another_document_is_answered(name):
    with pytest.raises(AttributeError) as caught:
        getattr(nd, name)
    assert str(caught.value) == f"neuro_divergent has no name {name!r}; write {NAMES[name]}"


def test_answers_name_only_what_is_there():
    answers = [*NAMES.values(), *(answer for fields in FIELDS.values() for answer in fields.values())]
    named = set(re.findall(r"\bnd\.(\w+)", " ".join(answers)))
    assert {name for name in named if not hasattr(nd, name)} == set()
    assert "TrainingConfig" in named


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: nd.SGD(lr=0.1), "SGD has no field 'lr'; write learning_rate=0.1"),
        (lambda: nd.Checkpoints("run", save_frequency=5), "write every_n_epochs=5, or every_n_steps"),
        (lambda: nd.FaultTolerance(graceful_shutdown=True), "saves when it is told to end"),
        (lambda: nd.Quantile(quantiles=[0.1]), r"write nd.MQLoss\(quantiles=\[0.1\]\)"),
        (lambda: nd.TimeSeriesSplit(gap_size=2), "write gap=2"),
        (lambda: nd.DeepAR(h=2, input_size=4, quantile_levels=[0.1]), r"loss=nd.MQLoss\(quantiles=\[0.1\]\)"),
        (lambda: nd.DeepAR(h=2, input_size=4, teacher_forcing_ratio=0.5), "teacher_forcing=0.5"),
        (lambda: nd.AdamW(1e-3, 0.02), r"such as AdamW\(learning_rate=0.001, weight_decay=0.02\), but got"),
        (lambda: nd.Huber(0.5), r"such as Huber\(delta=0.5\), but got 0.5"),
    ],
)
def test_a_field_of_another_document_is_answered(make, answer):
    with pytest.raises(nd.ConfigError, match=answer):
        make()


def test_words_belong_to_kinds_and_families_that_exist():
    for owner in FIELDS:
        assert hasattr(nd, owner) or registry.members(owner)
