"""Converts values of neuralforecast to ours, where the two are written differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from neuro_divergent.core.errors import ConfigError


def activation(value: Any) -> Any:
    """'LeakyReLU' → 'leaky_relu', 'ReLU' → 'relu'."""
    if not isinstance(value, str):
        return value
    return {"leakyrelu": "leaky_relu"}.get(value.lower(), value.lower())


def transformer_activation(value: Any) -> Any:
    """The activation of a transformer's feed-forward part, relu or gelu."""
    if value not in ("relu", "gelu"):
        raise ConfigError(f"the activation of a transformer is 'relu' or 'gelu'. Check activation={value!r}")
    return value


def decoder_share(value: Any) -> float:
    """The share of the window that a decoder starts from."""
    if not 0 < value < 1:
        raise ConfigError(f"a decoder starts from a part of the window. Check decoder_input_size_multiplier={value!r}, "
                          "which must be between 0 and 1")  # fmt: skip
    return float(value)


def activation_or(default: str) -> Callable[[Any], Any]:
    """The same, with a value for None."""
    return lambda value: default if value is None else activation(value)


def widths(units: Any) -> tuple[int, ...]:
    """[[8, 16], [16, 32]] → (8, 16, 32): the input of the first pair is a layer, too."""
    pairs = [tuple(pair) for pair in units]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ConfigError(f"mlp_units must be pairs of widths such as [[512, 512]], but got mlp_units={units!r}")
    return (int(pairs[0][0]), *(int(last) for _, last in pairs))


def numbers(value: Any) -> tuple[Any, ...]:
    """A list, an array or a tuple as a tuple."""
    return tuple(value)


def groups(value: Any) -> tuple[tuple[int, ...], ...]:
    """Lists of lists as tuples of tuples."""
    return tuple(tuple(group) for group in value)


def named(**meanings: Any) -> Callable[[Any], Any]:
    """A function that maps some names to ours; other names are left to our own check."""
    return lambda value: meanings.get(value, value)


def stacks(kinds: Any) -> tuple[str, ...]:
    """Kinds of stacks; what they call identity is generic."""
    return tuple("generic" if kind == "identity" else str(kind) for kind in kinds)


def identity_stacks(given: Mapping[str, Any]) -> None:
    """Check that every stack of N-HiTS is of the kind identity, with one entry per entry of n_blocks."""
    kinds = list(given["stack_types"])
    if set(kinds) != {"identity"}:
        raise ConfigError(f"every stack of NHITS is 'identity', but got stack_types={kinds}")
    if len(kinds) != len(given["n_blocks"]):
        raise ConfigError(
            f"stack_types and n_blocks have one entry per stack, but got {len(kinds)} and {len(given['n_blocks'])}"
        )


def mixing(independence: Any) -> bool:
    """channel_independence 0 mixes the series, 1 does not."""
    if independence not in (0, 1):
        raise ConfigError(f"channel_independence must be 0 or 1, but got channel_independence={independence!r}")
    return not independence


def decoder_sizes(given: Mapping[str, Any]) -> tuple[int, ...]:
    """The hidden layers of DeepAR's decoder, from their number and width."""
    layers, size = given["decoder_hidden_layers"], given["decoder_hidden_size"]
    if layers and not size:
        raise ConfigError(f"decoder_hidden_layers={layers} need decoder_hidden_size, but got {size!r}")
    return (int(size),) * int(layers)


def scaler_when(argument: str, scaler: str) -> Callable[[Mapping[str, Any]], Any]:
    """The window scaler for a normalisation inside their network; an explicit scaler takes precedence."""

    def chosen(given: Mapping[str, Any]) -> Any:
        asked = given["scaler_type"] or "identity"
        return scaler if given[argument] and asked == "identity" else asked

    return chosen


def patch_scaler(given: Mapping[str, Any]) -> Any:
    """PatchTST's normalisation, with or without learned factors."""
    return scaler_when("revin", "revin" if given["revin_affine"] else "standard")(given)


def patch_anchor(given: Mapping[str, Any]) -> Any:
    """The anchor for a normalisation around the last value: the network forecasts the difference to it."""
    return "last" if given["revin"] and given["revin_subtract_last"] else None
