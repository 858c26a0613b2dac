"""Settings of several processes and machines: what fits together, and the commands that come out."""

from __future__ import annotations

import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.distributed.group import Group
from neuro_divergent.distributed.zero import DividedOptimizer


def test_the_words_of_the_specification_are_understood() -> None:
    assert nd.Distributed(strategy="data_parallel").strategy == "ddp"
    settings = nd.Distributed(processes=2, exact=True, strategy="zero", timeout=30)
    assert nd.TrainingConfig.from_dict(nd.TrainingConfig(distributed=settings).to_dict()).distributed == settings


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"processes": 3, "exact": True}, "trains with 1, 2, 4, 8 processes, but got 3"),
        ({"processes": 16, "exact": True}, "but got 16"),
        ({"shards": 6}, "power of two, but got shards=6"),
        ({"exact": True, "synchronization": "local"}, "Leave one of them out"),
        ({"strategy": "zero", "synchronization": "local"}, "Leave one of them out"),
        ({"local_steps": 4}, 'got synchronization="all_reduce"'),
        ({"devices": [0, 0]}, "different numbers of GPUs"),
        ({"devices": [0, 1], "processes": 4}, "one process per device"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(nd.ConfigError, match=sentence):
        nd.Distributed(**fields)


def test_devices_that_are_not_there_are_named() -> None:
    config = nd.TrainingConfig(max_steps=1, distributed=nd.Distributed(devices=[0, 1, 2, 77]))
    with pytest.raises(nd.DeviceError, match=r"but got .*77"):
        nd.MLP(h=2, input_size=4).fit(nd.samples.air_passengers(), config)


def test_nccl_needs_a_gpu() -> None:
    config = nd.TrainingConfig(max_steps=1, distributed=nd.Distributed(processes=2, backend="nccl"))
    with pytest.raises(nd.DeviceError, match="this machine has none"):
        nd.MLP(h=2, input_size=4).fit(nd.samples.air_passengers(), config)


def test_more_processes_than_windows_are_refused() -> None:
    config = nd.TrainingConfig(max_steps=1, batch_size=2, distributed=nd.Distributed(processes=3))
    with pytest.raises(nd.ConfigError, match="3 processes and batches of 2"):
        nd.MLP(h=2, input_size=4).fit(nd.samples.air_passengers(), config)


def test_a_field_that_one_process_alone_can_use_is_refused() -> None:
    config = nd.TrainingConfig(
        max_steps=1, gradient_method="central", distributed=nd.Distributed(processes=1, exact=True)
    )
    with pytest.raises(nd.ConfigError, match="gradient_method='central'"):
        nd.MLP(h=2, input_size=4).fit(nd.samples.air_passengers(), config)


def test_a_batch_norm_is_refused_with_the_option() -> None:
    data = nd.samples.air_passengers()
    settings = nd.Distributed(processes=1, exact=True)
    config = nd.TrainingConfig(max_steps=2, batch_size=16, early_stopping=None, refit=None, distributed=settings)
    model = (
        nd.TCN(h=2, input_size=8, batch_norm=True)
        if "batch_norm" in nd.TCN.model_fields
        else nd.PatchTST(h=2, input_size=8, heads=2, hidden_size=8)
    )
    if any(
        type(part).__name__.startswith("BatchNorm")
        for part in model.fit(data, config.replace(distributed=None)).network.modules()
    ):
        with pytest.raises(nd.ConfigError, match='batch_norm="per_process"'):
            model.fit(data, config)
        allowed = config.replace(distributed=settings.replace(batch_norm="per_process"))
        assert model.fit(data, allowed).history.step_loss


def cluster(**fields: object) -> nd.Cluster:
    nodes = [nd.Node("10.0.0.10:29500", gpus=[0, 1], role="master"), nd.Node("10.0.0.11:29500", gpus=[0, 1])]
    return nd.Cluster(**{"nodes": nodes, "backend": "nccl", **fields})


def test_the_commands_of_a_cluster() -> None:
    first, second = cluster().commands("train.py", "--epochs", "3")
    assert first == (
        "env TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 CUDA_VISIBLE_DEVICES=0,1 torchrun --nnodes=2 --nproc-per-node=2 "
        "--node-rank=0 --master-addr=10.0.0.10 --master-port=29500 --max-restarts=0 train.py --epochs 3"
    )
    assert "--node-rank=1" in second
    (file,) = cluster().commands("train.py", how="slurm")
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --gpus-per-node=2\n" in file
    assert cluster().commands("train.py", how="ssh")[1].startswith("ssh 10.0.0.11 ")
    assert nd.Distributed(strategy="zero", cluster=cluster()).wanted == 4


def test_the_main_machine_has_rank_0_wherever_it_stands() -> None:
    nodes = [nd.Node("a"), nd.Node("b", role="master"), nd.Node("c")]
    assert [nd.Cluster(nodes=nodes).number(place) for place in range(3)] == [1, 0, 2]


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        ([nd.Node("a"), nd.Node("b")], "one main machine, but got 0"),
        ([nd.Node("a", role="master"), nd.Node("b", role="master")], "one main machine, but got 2"),
        ([nd.Node("a", role="master"), nd.Node("b", gpus=[0, 1])], "same number of processes"),
        ([nd.Node("a", role="master"), nd.Node("a")], "named once"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(nodes: list[nd.Node], sentence: str) -> None:
    with pytest.raises(nd.ConfigError, match=sentence):
        nd.Cluster(nodes=nodes)


@pytest.mark.parametrize("address", ["", "a b", ":29500", "a:99999", "a:x"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(nd.ConfigError, match="address must be"):
        nd.Node(address)


def test_an_optimizer_with_two_sets_of_weights_is_not_divided() -> None:
    # Each process would validate and save a mixture of both sets.
    module = torch.nn.Linear(2, 2)
    optimizer = nd.ScheduleFreeAdamW().build(module)
    with pytest.raises(nd.ConfigError, match="ScheduleFreeAdamW keeps other weights"):
        DividedOptimizer(optimizer, list(module.parameters()), Group(0, 2))


def test_a_loss_scale_needs_all_gradients() -> None:
    config = nd.TrainingConfig(
        max_steps=1, precision="fp16", distributed=nd.Distributed(processes=1, exact=True, strategy="zero")
    )
    with pytest.raises(nd.ConfigError, match="Use precision='bf16'"):
        nd.MLP(h=2, input_size=4).fit(nd.samples.air_passengers(), config)
