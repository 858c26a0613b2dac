"""The settings of a strategy: plain data that a config holds, writes to a file and reads back."""

from typing import Any

import pytest

import neuro_divergent as nd
from neuro_divergent.core import registry
from neuro_divergent.training.config.strategy import StrategySettings


class HalfRate(StrategySettings):
    factor: float = 0.5

    def build(self) -> Any:
        return ("built", self.factor)


def test_a_strategy_comes_back_from_the_configuration_file():
    config = nd.TrainingConfig(strategy=HalfRate(factor=0.25))

    read = nd.TrainingConfig.from_json(config.to_json())

    assert read == config
    assert read.strategy.build() == ("built", 0.25)
    assert registry.members("strategy")["HalfRate"] is HalfRate


def test_the_base_is_not_a_strategy_and_an_unknown_name_is_answered():
    with pytest.raises(nd.ConfigError, match="is a base class"):
        nd.TrainingConfig(strategy={})
    with pytest.raises(nd.NeuroDivergentError, match=r"no strategy named 'halfrat'.*HalfRate"):
        nd.TrainingConfig(strategy="halfrat")


def test_a_file_from_before_the_field_is_read():
    old = nd.TrainingConfig().to_dict()
    del old["strategy"]

    assert nd.TrainingConfig.from_dict(old).strategy is None
