"""Architecture: parameters and multiply-adds by hand, shapes, pictures, for every model and for plain modules."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from nonfinite_cases import MODELS, table
from torch import nn

import neuro_divergent as nd
from neuro_divergent.conformance.cases import Case, usual_loss
from neuro_divergent.conformance.examples import model_examples
from neuro_divergent.core.kinds import KINDS


def test_a_plain_module_by_hand():
    """10·20 + 20 and 20·3 + 3 parameters; 10·20 + 20·3 multiply-adds."""
    module = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    found = nd.architecture(module, torch.zeros(8, 10))
    assert [item.parameters for item in found.modules] == [283, 220, 0, 63]
    assert [item.multiply_adds for item in found.modules] == [260, 200, 0, 60]
    assert [item.output for item in found.modules] == [((8, 3),), ((8, 20),), ((8, 20),), ((8, 3),)]
    assert found.modules[0].share == 1.0
    assert "Sequential" in str(found)


@pytest.mark.parametrize(
    ("module", "example", "work"),
    [
        # 6 steps, 4 gates, from 5 inputs and 7 states each
        (nn.LSTM(5, 7, batch_first=True), torch.zeros(4, 6, 5), 6 * 4 * 7 * (5 + 7)),
        # 8 places, 3 channels, 3 taps, 4 outputs
        (nn.Conv1d(3, 4, 3), torch.zeros(2, 3, 10), 8 * 3 * 3 * 4),
    ],
    ids=["LSTM", "convolution"],
)
def test_multiply_adds_of_other_layers(module, example, work):
    assert nd.architecture(module, example).multiply_adds == work


def test_a_shared_layer_counts_once_and_is_called_twice():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.layer(x))

    found = nd.architecture(Twice(), torch.zeros(2, 4))
    assert (found.parameters, found.modules[1].calls, found.multiply_adds) == (20, 2, 32)


def language_model(folder: Path) -> nd.TimeLLM:
    """A Time-LLM with a language model of one narrow layer, its weights random."""
    transformers = pytest.importorskip("transformers")
    sizes = transformers.GPT2Config(vocab_size=40, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(sizes).save_pretrained(folder)
    return nd.TimeLLM(h=4, input_size=12, llm=str(folder), heads=2, key_size=8, prototypes=12, read_size=16)


@pytest.mark.parametrize("name", sorted(KINDS["model"]))
def test_every_model_is_drawn_with_exact_counts(name, tmp_path):
    model = language_model(tmp_path) if name == "TimeLLM" else model_examples(getattr(nd, name))[0]
    case = Case(model=model, loss=usual_loss(model))
    module, batch = case.module(), case.batch()
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    found = nd.architecture(module, (batch._replace(target=None),), title=name)
    assert found.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert len(found.modules) == len(list(module.modules()))
    assert found.modules[0].output[0][:2] == (batch.size, model.h)
    drawn = ElementTree.fromstring(found.svg())
    texts = ["".join(item.itertext()) for item in drawn.iter() if item.tag.endswith("text")]
    assert texts[0].startswith(f"{name}: {found.parameters:,} parameters")
    assert sum(item.tag.endswith("}g") for item in drawn.iter()) == len(found.modules)
    assert all(torch.equal(before[key], tensor) for key, tensor in module.state_dict().items())


def test_a_forecaster_draws_to_files(tmp_path):
    pytest.importorskip("matplotlib")
    fitted = MODELS["TFT"].fit(table(), nd.TrainingConfig(max_steps=2, refit=None))
    for suffix in ("svg", "png"):
        found = fitted.architecture(tmp_path / f"network.{suffix}")
        assert (tmp_path / f"network.{suffix}").stat().st_size > 5000
    assert found.parameters == fitted.num_parameters
    assert nd.Architecture.from_json(found.to_json()) == found
    assert found.to_polars().height == len(found.modules)
    assert len(found.text(depth=1).splitlines()) < len(found.text().splitlines())


def test_an_example_without_a_tensor_is_refused():
    with pytest.raises(nd.ConfigError, match="example must be a tensor"):
        nd.architecture(nn.Linear(2, 2), "nothing")


def test_multiply_adds_of_attention_and_torchs_own_transformer_layer():
    """For 10 places of 8 channels: 4 times 8·8 and twice 8·16 for each place, and twice 10·10·8."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    found = nd.architecture(layer, torch.zeros(4, 10, 8))
    attention = 10 * 4 * 8 * 8 + 2 * 10 * 10 * 8
    assert found.multiply_adds == attention + 10 * 2 * 8 * 16
    assert {item.name: item.multiply_adds for item in found.modules}["self_attn"] == attention


def test_each_part_keeps_its_own_mode():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    module[1].eval()
    nd.architecture(module, torch.randn(4, 3))
    nd.WeightAnalyzer().analyze_module(module, [torch.randn(4, 3)])
    assert [part.training for part in module] == [True, False, True]
