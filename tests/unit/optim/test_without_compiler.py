"""Optimizers that leave torch's compiler unloaded do what torch's own do."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.optim.without_compiler import _lightened

TRAINS = """
import sys
import torch
import neuro_divergent as nd
config = nd.TrainingConfig(max_steps=2, progress=False)
nd.MLP(h=12, input_size=24).fit(nd.samples.air_passengers(), config).predict()
for kind in (nd.Adam, nd.SGD, nd.RMSprop, nd.NAdam, nd.RAdam, nd.Adagrad):
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    kind().build(layer).step()
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""


EVERY = """
import sys
import torch
import neuro_divergent as nd
from neuro_divergent.core import registry
kinds = [kind for kind in registry.members("optimizer").values() if kind is not nd.Muon and not any(
    field.is_required() for field in kind.model_fields.values()
)]  # Muon takes matrices only
own = [kind for kind in kinds if kind.__module__ == "neuro_divergent.optim.optimizers"]
for kind in sorted(kinds, key=lambda kind: kind not in own):  # the others may load the compiler
    x = torch.linspace(-1, 1, 16)[:, None]
    module = torch.nn.Linear(1, 1)
    before = module.weight.item()
    config = nd.TrainingConfig(max_steps=1, optimizer=kind(), validation_split=None, progress=False)
    nd.Trainer(config).fit(module, (x, 3 * x))
    assert module.weight.item() != before, kind
    assert kind not in own or "torch._dynamo" not in sys.modules, kind
print(sorted(kind.__name__ for kind in own))
"""


def test_every_optimizer_takes_a_step_in_a_process_without_the_compiler():
    done = subprocess.run([sys.executable, "-c", EVERY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = ["Adafactor", "Adagrad", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "SGD"]
    assert done.stdout.splitlines()[-1] == str(expected)


def test_a_training_does_not_load_the_compiler():
    done = subprocess.run([sys.executable, "-c", TRAINS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_steps_are_those_of_torch(kind):
    plain, light = (nn.Linear(3, 2) for _ in range(2))
    light.load_state_dict(plain.state_dict())
    optimizers = kind(plain.parameters(), lr=0.1), _lightened(kind)(light.parameters(), lr=0.1)
    for number in range(3):
        for layer, optimizer in zip((plain, light), optimizers, strict=True):
            optimizer.zero_grad()
            (layer(torch.full((4, 3), float(number))) ** 2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(light.weight, plain.weight, rtol=0, atol=0)
    assert repr(optimizers[1]) == repr(optimizers[0])


def test_hooks_and_closures_work_and_gradients_stay_on():
    layer = nn.Linear(3, 1, bias=False)
    nn.init.ones_(layer.weight)
    optimizer = _lightened(torch.optim.Adam)(layer.parameters())
    heard = []
    optimizer.register_step_pre_hook(lambda *_: heard.append("before"))
    optimizer.register_step_post_hook(lambda *_: heard.append("after"))

    def closure() -> torch.Tensor:
        loss = layer(torch.ones(2, 3)).sum()
        loss.backward()  # fails unless gradients are on
        return loss

    assert optimizer.step(closure) == 6.0  # two rows of three ones
    assert heard == ["before", "after"]
    assert torch.is_grad_enabled()


def test_torch_itself_is_left_as_it_was():
    inner = torch.optim.Optimizer.add_param_group.__wrapped__
    before = getattr(inner, "__dynamo_disable", None)
    nd.AdamW().build(nn.Linear(1, 1))
    assert getattr(inner, "__dynamo_disable", None) is before
