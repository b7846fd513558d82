"""Rows as Arrow and Parquet: bitwise, resumable, verified (D6, E)."""
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import graphtap

pa = pytest.importorskip("pyarrow")
import graphtap.arrow  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from graphtap.export import MANIFEST, export, main  # noqa: E402

from test_reader import DTYPES, path  # noqa: E402, F401


def cells(table):
    return table.column("values").combine_chunks().flatten().to_numpy(zero_copy_only=False)


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize("layer", range(len(DTYPES)), ids=DTYPES)
def test_d6_b3_every_dtype_is_bitwise(path, tmp_path, layer, format):  # noqa: F811
    hook, bits = f"resid_pre:{layer}", "bits"
    made = export(path, tmp_path / "out", hook, format=format, small_floats=bits, batch_bytes=64)
    (name,) = made["parts"]
    file = tmp_path / "out" / name
    table = pq.read_table(file) if format == "parquet" else pa.ipc.open_file(file).read_all()
    gathered = graphtap.open(path).gather(hook, request="a")
    assert table.column("token").to_pylist() == [0, 1, 2, 4, 5]
    expected = gathered.numpy()[gathered.mask]
    assert cells(table).tobytes() == expected.tobytes()
    assert table.schema.field("values").metadata == {b"dtype": DTYPES[layer].encode(), b"shape": b"2,3"}
    assert table.column("layer").to_pylist() == [layer] * 5 and set(table.column("request").to_pylist()) == {"a"}
    (missing,) = made["parts"][name]["missing"]
    assert (missing["tokens"], missing["why"], missing["reason"]) == ([3, 4], "gap", "shed_ring")


@pytest.mark.parametrize("layer", [1, 4, 5], ids=["bf16", "f8_e4m3", "f8_e5m2"])
def test_d6_small_floats_become_float32_exactly(path, layer):  # noqa: F811
    store = graphtap.open(path)
    table = graphtap.arrow.table(store, f"resid_pre:{layer}")
    gathered = store.gather(f"resid_pre:{layer}", request="a")
    expected = gathered.numpy()[gathered.mask].astype(np.float32)
    assert np.array_equal(cells(table), expected.ravel(), equal_nan=True)


def test_e_rows_that_are_not_alike_and_wrong_words_are_refused(path, tmp_path):  # noqa: F811
    store = graphtap.open(path)
    with pytest.raises(graphtap.UnsupportedError, match="blocks.0.resid_pre is f16 .* and blocks.1.resid_pre is bf16"):
        graphtap.arrow.table(store)
    with pytest.raises(graphtap.InvalidArgumentError, match="'float32' or 'bits'"):
        graphtap.arrow.table(store, "resid_pre:0", small_floats="f32")
    with pytest.raises(graphtap.InvalidArgumentError, match="parquet or arrow"):
        export(path, tmp_path / "out", format="csv")
    assert main([str(path), "--to", str(tmp_path / "mixed"), "--quiet"]) == 5
    assert main([str(tmp_path / "no"), "--to", str(tmp_path / "out"), "--quiet"]) == 3
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert main([str(path), "--to", str(tmp_path / "full"), "--hooks", "resid_pre:0", "--quiet"]) == 2
    assert os.listdir(tmp_path / "full") == ["mine.txt"]


def test_e_other_settings_do_not_mix_and_a_broken_manifest_is_named(path, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    assert main([str(path), "--to", str(out), "--hooks", "resid_pre:2", "--quiet"]) == 0
    assert main([str(path), "--to", str(out), "--hooks", "resid_pre:3", "--quiet"]) == 2
    (out / MANIFEST).write_text("{")
    assert main([str(path), "--to", str(out), "--hooks", "resid_pre:2", "--quiet"]) == 6


# The real command, killed by itself at its n-th rename: before or behind the file's, or the manifest's.
KILL = """
import os, signal, sys
import graphtap.export
real, left = os.replace, int(sys.argv.pop(1))
def replace(*paths):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*paths)
os.replace = replace
sys.exit(graphtap.export.main())
"""


def test_d6_after_a_kill_the_same_command_goes_on(path, tmp_path):  # noqa: F811
    arguments = [str(path), "--hooks", "resid_pre:2", "--quiet", "--to"]
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    whole = json.loads((tmp_path / "whole" / MANIFEST).read_text())
    kills = 0
    for n in range(1, 10):
        out = tmp_path / f"killed-{n}"
        ended = subprocess.run([sys.executable, "-c", KILL, str(n), *arguments, str(out)], env=os.environ)
        kills += ended.returncode == -signal.SIGKILL
        if ended.returncode == 0:
            break
        named = json.loads((out / MANIFEST).read_text())["parts"] if (out / MANIFEST).exists() else {}
        assert all((out / name).stat().st_size == part["bytes"] for name, part in named.items())
        assert main([*arguments, str(out)]) == 0
        assert json.loads((out / MANIFEST).read_text()) == whole
        assert sorted(os.listdir(out)) == sorted(os.listdir(tmp_path / "whole"))
    assert kills == 4  # the first manifest, the file, the manifest with it, the one that says complete


def test_e_a_file_that_was_cut_is_made_again(path, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    made = export(path, out, "resid_pre:2")
    (name,) = made["parts"]
    content = (out / name).read_bytes()
    (out / name).write_bytes(content[:-10])
    export(path, out, "resid_pre:2")
    assert pq.read_table(out / name).num_rows == 5


def test_e_what_does_not_read_back_is_not_kept(path, tmp_path, monkeypatch):  # noqa: F811
    import graphtap.export as module

    def flipped(file, kind, read=module._read):
        for batch in read(file, kind):
            yield batch.set_column(6, "token", pa.array([t + 1 for t in batch.column("token").to_pylist()]))

    monkeypatch.setattr(module, "_read", flipped)
    with pytest.raises(graphtap.IoError, match="does not read back"):
        export(path, tmp_path / "out", "resid_pre:2")
    assert not list((tmp_path / "out").glob("*.parquet"))
