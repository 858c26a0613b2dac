"""Seeding, devices, files, bundles, extras."""

import json
import logging
import os
import stat

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro_divergent.core import bundle, files, seeding
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import ConfigError, CorruptFileError, MissingExtraError, StorageError
from neuro_divergent.core.extras import require
from neuro_divergent.core.json import parse_json


@given(st.integers(), st.integers(0, 2**40))
def test_keys_are_pure_and_64_bits(seed, step):
    key = seeding.key(seed, "dropout", step)
    assert key == seeding.key(seed, "dropout", step)
    assert 0 <= key < 2**64


def test_keys_of_different_draws_differ():
    keys = {seeding.key(seed, purpose, step) for seed in range(10) for purpose in "ab" for step in range(500)}
    assert len(keys) == 10 * 2 * 500


def test_mix_is_the_splitmix64_finaliser():
    # The first output of splitmix64 seeded with 0, as published with the generator: 0xE220A8397B1DCDAF.
    assert seeding.mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


def test_generators_draw_the_same_for_the_same_key():
    a, b = (seeding.torch_generator(1, "x", 5) for _ in range(2))
    assert torch.equal(torch.rand(4, generator=a), torch.rand(4, generator=b))
    assert np.array_equal(seeding.numpy_generator(1, "x").random(4), seeding.numpy_generator(1, "x").random(4))


def test_isolated_leaves_the_global_stream_as_it_was():
    before = torch.get_rng_state()
    with seeding.isolated(1, "weights"):
        first = torch.rand(3)
    with seeding.isolated(1, "weights"):
        assert torch.equal(first, torch.rand(3))
    assert torch.equal(before, torch.get_rng_state())


def test_device_names():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ConfigError, match="device must be auto, cpu, cuda, cuda:N or mps, but got device='gpu'"):
        resolve_device("gpu")


def test_an_absent_device_falls_back_to_the_cpu_and_says_so(caplog):
    absent = "cuda:99" if torch.cuda.is_available() else "cuda:1"
    with caplog.at_level(logging.WARNING):
        assert resolve_device(absent) == torch.device("cpu")
    assert absent in caplog.text
    assert "CPU instead" in caplog.text


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "deep" / "file.json"
    files.write_json(path, {"a": 1})
    files.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert os.listdir(path.parent) == ["file.json"]


def test_a_directory_appears_whole_or_not_at_all(tmp_path):
    place = tmp_path / "run"

    def half():
        with files.new_directory(place) as directory:
            (directory / "half").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert list(tmp_path.iterdir()) == []
    with files.new_directory(place) as directory:
        (directory / "whole").write_text("whole")
    assert (place / "whole").read_text() == "whole"
    with pytest.raises(StorageError, match="exists already"), files.new_directory(place):
        pass
    with files.new_directory(place, overwrite=True) as directory:
        (directory / "new").write_text("new")
    assert os.listdir(place) == ["new"]


def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="could not be written"):
        files.write_text(tmp_path / "file" / "below", "x")


def test_a_bundle_is_read_only_if_every_byte_is_right(tmp_path):
    place = tmp_path / "b"
    bundle.write(place, {"a.json": b"{}", "b.bin": b"12345"})
    assert bundle.read(place) == {"a.json": b"{}", "b.bin": b"12345"}
    (place / "b.bin").write_bytes(b"12346")
    with pytest.raises(CorruptFileError, match="damaged"):
        bundle.read(place)
    (place / "b.bin").write_bytes(b"1234")
    with pytest.raises(CorruptFileError, match="must have 5 bytes, but has 4"):
        bundle.read(place)


def test_a_bundle_with_more_or_less_than_its_manifest_is_refused(tmp_path):
    place = tmp_path / "b"
    bundle.write(place, {"a.json": b"{}"})
    (place / "extra.pkl").write_bytes(b"x")
    with pytest.raises(CorruptFileError, match=r"extra\.pkl"):
        bundle.read(place)
    with pytest.raises(StorageError, match="does not exist"):
        bundle.read(tmp_path / "nowhere")


def test_written_files_are_readable_by_others(tmp_path):
    files.write_text(tmp_path / "x", "x")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) & 0o400


def test_a_missing_extra_is_one_sentence_with_the_install_line():
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_package_of_tests", extra="plots", purpose="A plot")
    assert str(caught.value) == (
        "A plot needs no_such_package_of_tests, which is not installed. "
        "Install it with: pip install 'neuro-divergent[plots]'"
    )


@pytest.mark.parametrize(("value", "depth"), [("[" * 100, 1), ('a "quoted" [text]' * 70 + "\\", 1), ("[", 63)])
def test_brackets_in_texts_are_not_nesting(value, depth):
    nested = value
    for _ in range(depth):
        nested = [nested]
    assert parse_json(json.dumps(nested).encode(), "file") == nested


def test_a_text_does_not_hide_nesting():
    for data in (b"[" * 65 + b'"a"' + b"]" * 65, b'["\\"", ' + b"[" * 64 + b"]" * 64 + b"]"):
        with pytest.raises(CorruptFileError, match="nested at most 64 deep, but is 65 deep"):
            parse_json(data, "file")


def test_an_encoding_does_not_hide_nesting():
    """In UTF-16 the sign ∡ has a byte that looks like a quotation mark: what follows would not be counted."""
    hidden = ('{"∡":' + "[" * 500 + "]" * 500 + ',"":1}').encode("utf-16-le")
    with pytest.raises(CorruptFileError, match="must be JSON, but is not"):
        parse_json(hidden, "file")


def test_other_peoples_files_are_not_replaced(tmp_path):
    """A run's directory is no place for a model: following the first message must not delete the run."""
    place = tmp_path / "run"
    (place / "checkpoints").mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(
            StorageError, match="exists already" if not overwrite else "has other files: checkpoints, notes.txt. "
        ):
            bundle.write(place, {"model.json": b"{}"}, overwrite=overwrite)
    assert (place / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    for content in (b"1", b"2"):
        bundle.write(tmp_path / "empty", {"model.json": content}, overwrite=True)
    assert bundle.read(tmp_path / "empty") == {"model.json": b"2"}
