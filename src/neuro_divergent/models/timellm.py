"""TimeLLM: a frozen language model reads patches of the window, told to it in its own words.

Letters: B windows, L lookback, H horizon, Q outputs, N patches, P patch length, D width of a patch,
W width of the language model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.attention import attention_rate, join_heads, split_heads


class TimeLLM(Model):
    """Patches are expressed as mixtures of word embeddings, read by a frozen language model, and its states projected.

    The language model comes from a directory on this machine in the transformers library's format, with its weights
    as safetensors; nothing is downloaded and no code from the directory is run. The prompt is fixed text: the window's
    own statistics, which the paper writes into it, are what the window scaler has taken out.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = (
        "Jin, Wang, Ma, Chu, Zhang, Shi, Chen, Liang, Li, Pan & Wen (2024), "
        "Time-LLM: Time series forecasting by reprogramming large language models"
    )

    llm: str
    """Directory with the language model, on this machine."""
    prompt: str = ""
    """What the data is about, in words; put before the patches."""
    llm_layers: Annotated[int, Field(ge=1)] | None = None
    """Use only the first so many layers of the language model; None uses all."""
    patch_len: Annotated[int, Field(ge=1)] = 16
    """Steps in one patch; at most the whole window is used."""
    stride: Annotated[int, Field(ge=1)] = 8
    """Steps from one patch to the next."""
    hidden_size: Annotated[int, Field(ge=1)] = 32
    """Width of an embedded patch."""
    heads: Annotated[int, Field(ge=1)] = 8
    """Attention heads between patches and word prototypes."""
    key_size: Annotated[int, Field(ge=1)] = 128
    """Width of one of these heads."""
    prototypes: Annotated[int, Field(ge=1)] = 1000
    """Mixtures of word embeddings that a patch can be expressed in."""
    read_size: Annotated[int, Field(ge=1)] = 128
    """How many of the language model's features are read for the forecast."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Share of units and attention weights switched off while training."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Share of attention weights hidden while training; None takes that of `dropout`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "://" in self.llm or self.llm.replace("\\", "/").startswith("//"):  # a saved model could name any server
            raise ConfigError(f"llm must be a directory on this machine, not an address, but got llm={self.llm!r}")
        if self.stride > self.patch_len:
            raise ConfigError(
                f"stride must be at most patch_len, or steps between patches are never seen, "
                f"but got stride={self.stride} and patch_len={self.patch_len}"
            )
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes, with the language model read from its directory."""
        directory = Path(self.llm)
        if not directory.is_dir():
            raise ConfigError(f"llm must be a directory with a language model, but got llm={self.llm!r}")
        transformers = require("transformers", extra="llm", purpose="TimeLLM")
        # Said outright: left open, the library would ask on the terminal whether to run the directory's code.
        safe = {"local_files_only": True, "trust_remote_code": False}
        reader = transformers.AutoModelForCausalLM
        words = reader.from_pretrained(directory, use_safetensors=True, **safe).base_model
        prompt: list[int] = []
        if self.prompt:
            prompt = transformers.AutoTokenizer.from_pretrained(directory, **safe).encode(self.prompt)
        return _Network(self, spec, words, prompt)


class _Network(nn.Module):
    prompt: Tensor

    def __init__(self, model: TimeLLM, spec: InputSpec, words: Any, prompt: list[int]) -> None:
        super().__init__()
        self.spec = spec
        self.words = words.float().requires_grad_(False).eval()
        if model.llm_layers is not None:
            _keep_layers(self.words, model.llm_layers)
        vocabulary, W = self.words.get_input_embeddings().weight.shape
        self.patch_len = min(model.patch_len, spec.lookback)
        self.stride = min(model.stride, self.patch_len)
        patches = (spec.lookback - self.patch_len) // self.stride + 2
        self.read_size = min(model.read_size, W)
        self.register_buffer("prompt", torch.tensor(prompt, dtype=torch.long), persistent=False)
        self.embed = nn.Linear(self.patch_len, model.hidden_size)
        self.dropout = nn.Dropout(model.dropout)
        self.prototypes = nn.Linear(vocabulary, model.prototypes)
        self.reprogram = _Reprogramming(model, W)
        self.head = nn.Linear(patches * self.read_size, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        table: Tensor = self.words.get_input_embeddings().weight
        patches = self.dropout(self.embed(self.patches(batch.y.squeeze(-1))))
        told = self.reprogram(patches, self.prototypes(table.t()).t())
        prompt = table[self.prompt].expand(told.shape[0], -1, -1)
        read = self.words(inputs_embeds=torch.cat([prompt, told], dim=1), use_cache=False).last_hidden_state
        output: Tensor = self.head(read[:, -told.shape[1] :, : self.read_size].flatten(1))
        return output.view(-1, self.spec.horizon, 1, self.spec.outputs)

    def patches(self, y: Tensor) -> Tensor:
        """[B, L] → [B, N, P]: the last value is repeated so that the last patch reaches beyond the window's end."""
        padded = F.pad(y.unsqueeze(1), (0, self.stride), mode="replicate").squeeze(1)
        return padded.unfold(-1, self.patch_len, self.stride)

    def train(self, mode: bool = True) -> Self:
        """The language model stays as it is: its own dropout would only blur what it says."""
        super().train(mode)
        self.words.eval()
        return self


class _Reprogramming(nn.Module):
    """Patches [B, N, D] ask, word prototypes answer: [B, N, W]."""

    def __init__(self, model: TimeLLM, width: int) -> None:
        super().__init__()
        inner = model.heads * model.key_size
        self.heads = model.heads
        self.dropout = attention_rate(model.dropout, model.attention_dropout)
        self.query = nn.Linear(model.hidden_size, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)

    def forward(self, patches: Tensor, prototypes: Tensor) -> Tensor:
        words = prototypes.unsqueeze(0)
        key, value = split_heads(self.key(words), self.heads), split_heads(self.value(words), self.heads)
        query = split_heads(self.query(patches), self.heads)
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
        dropout = self.dropout if self.training else 0.0
        return self.output(join_heads(F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)))  # type: ignore[no-any-return]


def _keep_layers(words: Any, count: int) -> None:
    """Cut the language model after some of its layers: they are the longest list of modules in it."""
    lists = {name: part for name, part in words.named_modules() if isinstance(part, nn.ModuleList)}
    name, layers = max(lists.items(), key=lambda item: len(item[1]))
    if count > len(layers):
        raise ConfigError(
            f"llm_layers must be at most {len(layers)} for this language model, but got llm_layers={count}"
        )
    owner = words.get_submodule(name.rpartition(".")[0])
    setattr(owner, name.rpartition(".")[2], layers[:count])
