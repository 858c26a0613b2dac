"""Exact mode, inside one process: the tree of sums, and the same training as without processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch
from neuro_divergent.data.windows.samplers import RowsOfBatches, Shuffled
from neuro_divergent.distributed.exact import _Tree, _tree_sum
from neuro_divergent.distributed.launched import launched
from neuro_divergent.distributed.sources import Part, Shards
from neuro_divergent.distributed.zero import owners
from neuro_divergent.training.arrays import Rows

CASES = [(50, 12, 4, False), (50, 12, 4, True), (7, 12, 4, False), (100, 66, 4, False), (100, 13, 4, False)]


def test_a_tree_adds_pairs_of_neighbours() -> None:
    # In float32, 1e8 + 1 is 1e8: the order of the additions can be seen. By hand: (1e8 + 1) + (-1e8 + 1) = 0 + ...
    # ... where -1e8 + 1 is -99999999, rounded to -1e8.
    values = [torch.tensor([value]) for value in (1e8, 1.0, -1e8, 1.0)]
    tree = _Tree()
    for value in values:
        tree.add(value.clone())
    assert tree.total().item() == 0.0
    assert sum(value.item() for value in values) == 2.0
    assert _tree_sum(torch.tensor([1e8, 1.0, -1e8, 1.0])) == 0.0


@pytest.mark.parametrize(
    ("n", "size", "world", "drop_last"), [(50, 12, 4, False), (50, 12, 4, True), (7, 12, 4, False)]
)
def test_the_rows_of_all_processes_are_the_batch(n: int, size: int, world: int, drop_last: bool) -> None:
    whole = Shuffled(n=n, batch_size=size, seed=3, drop_last=drop_last)
    share = -(-size // world)
    parts = [RowsOfBatches(whole, rank * share, share) for rank in range(world)]
    for epoch in range(2):
        for step in range(whole.steps_per_epoch):
            own = [part.numbers(epoch, step) for part in parts if step < part.steps_per_epoch]
            assert np.array_equal(np.concatenate(own), whole.numbers(epoch, step))


def test_exact_mode_trains_what_one_process_trains() -> None:
    # No dropout, so the only difference is the order of the sums.
    config = nd.TrainingConfig(
        max_steps=20, batch_size=33, accumulate_gradients=2, early_stopping=None, refit=None, optimizer=nd.SGD()
    )
    data = nd.samples.hourly_panel(4, 120)
    model = nd.MLP(h=4, input_size=12, hidden_size=16)
    alone = model.fit(data, config)
    exact = model.fit(data, config.replace(distributed=nd.Distributed(processes=1, exact=True)))
    assert exact.history.step_loss == pytest.approx(alone.history.step_loss, rel=1e-5)
    assert exact.history.gradient_norm == pytest.approx(alone.history.gradient_norm, rel=1e-4)


def test_the_largest_parameters_are_divided_evenly() -> None:
    assert owners([10, 4, 4, 2], 2) == [0, 1, 1, 1]
    assert owners([1, 1, 1], 1) == [0, 0, 0]


def test_launchers_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    assert launched() is None
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert launched() == (3, 4, 0)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert launched() == (1, 2, 0)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(nd.ConfigError, match="RANK=2 and WORLD_SIZE=2"):
        launched()


class Given:
    """A source of a user: batches of 60, 67 and 1 rows, whatever the batch size of the training is."""

    steps_per_epoch = 3

    def batch(self, epoch: int, step: int) -> Rows:
        """Rows numbered from 0."""
        x = torch.arange((60, 67, 1)[step], dtype=torch.float32)[:, None]
        return Rows(x, x, None)


@pytest.mark.parametrize(("world", "shards"), [(2, 2), (3, 3), (4, 8)])
def test_a_source_of_any_batches_loses_no_row(world: int, shards: int) -> None:
    own = shards // world
    parts = [Part(Given(), Shards(rank * own, own, shards), 32) for rank in range(world)]
    for step in range(3):
        found = torch.cat([part.batch(0, step).x for part in parts])
        assert torch.equal(found, Given().batch(0, step).x)
        assert [part.given(0, step).shard_rows for part in parts] == [-(-len(found) // shards)] * world


def test_a_process_without_rows_gets_one_that_does_not_count() -> None:
    part = Part(Given(), Shards(1, 1, 2), 32, never_empty=True)
    assert part.batch(0, 2).x.tolist() == [[0.0]]
    assert part.given(0, 2).empty
    assert len(part.batch(0, 0).x) == 30
    assert not part.given(0, 0).empty


def test_exact_mode_has_one_number_of_threads() -> None:
    # Others add in another order, and a machine's own number is another one than that of the processes of `fit`.
    assert nd.Distributed(processes=1, exact=True).build().threads == 1  # type: ignore[attr-defined]
    assert nd.Distributed(processes=1).build().threads is None  # type: ignore[attr-defined]


def test_a_batch_of_as_many_windows_as_series_keeps_its_series() -> None:
    # [B, L, C] with B = C = 4: `series` names the channels, and a part of the windows has all of them.
    batch = Batch(torch.zeros(4, 2, 4), series=torch.arange(4))
    assert batch.rows(0, 1).series is not None
    assert len(batch.rows(0, 1).series) == 4  # type: ignore[arg-type]
