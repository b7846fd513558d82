"""The Python reader against a store that C++ wrote (D6, B3, E). GRAPHTAP_FIXTURE names that program."""
import gc
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import graphtap

DTYPES = ["f16", "bf16", "f32", "f64", "f8_e4m3", "f8_e5m2", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
          "bool"]
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def path(tmp_path):
    subprocess.run([os.environ["GRAPHTAP_FIXTURE"], str(tmp_path / "store")], check=True)
    return tmp_path / "store"


def written(layer, size):
    i = np.arange(size)
    return ((i % 2 if DTYPES[layer] == "bool" else 31 * layer + 7 * i) % 256).astype(np.uint8)


@pytest.mark.parametrize("layer", range(len(DTYPES)), ids=DTYPES)
def test_d6_b3_records_and_gathers_are_bitwise(path, layer):
    store = graphtap.open(path)
    first, second = store.read(f"resid_pre:{layer}")
    for record, rows in (first, 3), (second, 2):
        assert record.dtype == DTYPES[layer] and record.layer == layer and record.request == "a"
        array = record.numpy()
        assert array.shape == record.shape == (rows, 2, 3)
        bits = array.view(np.uint8).ravel()
        assert np.array_equal(bits, written(layer, bits.size))
    assert (first.first_token, second.first_token) == (0, 4)
    gathered = store.gather(f"resid_pre:{layer}", request="a")
    assert gathered.tokens == (0, 6) and gathered.shape == (6, 2, 3)
    assert gathered.mask.tolist() == [True, True, True, False, True, True]
    (missing,) = gathered.missing
    assert (missing.begin, missing.end, missing.why, missing.reason) == (3, 4, "gap", "shed_ring")
    array = gathered.numpy()
    assert np.shares_memory(array, gathered.numpy())
    assert array[:3].tobytes() == first.numpy().tobytes() and array[4:].tobytes() == second.numpy().tobytes()
    assert not any(array[3:4].tobytes())


def test_d6_a_record_is_a_read_only_view_that_outlives_its_store(path):
    store = graphtap.open(path)
    record = next(store.read("resid_pre:2"))
    array, again = record.numpy(), record.numpy()
    assert array.ctypes.data == again.ctypes.data and not array.flags.writeable
    with pytest.raises(ValueError):
        array[0, 0, 0] = 1
    address = array.ctypes.data
    with open("/proc/self/maps") as maps:
        segments = [line.split() for line in maps if str(path) in line]
    assert any(int(a, 16) <= address < int(b, 16) for a, b in (s[0].split("-") for s in segments))
    store.close()
    del store, record, again
    gc.collect()
    assert np.array_equal(array.view(np.uint8).ravel(), written(2, array.nbytes))


def test_d6_requests_tokens_and_gaps(path):
    with graphtap.open(path) as store:
        (request,) = store.requests()
        assert (request.id, request.prompt_tokens, request.tokens) == ("a", 3, (0, 6))
        assert request.gather("resid_pre:2", tokens=(1, 3)).shape == (2, 2, 3)
        assert [r.first_token for r in store.read("resid_pre:0", tokens=(2, 5))] == [2, 4]
        assert {(g.reason, g.first_token, g.rows) for g in store.gaps()} == {("shed_ring", 3, 1)}
    with pytest.raises(graphtap.UnavailableError):
        store.runs


def test_e_errors_are_one_class_a_code(path, tmp_path):
    with pytest.raises(graphtap.NotFoundError, match="nowhere") as caught:
        graphtap.open(tmp_path / "nowhere")
    assert isinstance(caught.value, KeyError) and not str(caught.value).startswith("'")
    store = graphtap.open(path)
    with pytest.raises(graphtap.InvalidArgumentError, match="resid_pre") as caught:
        store.read("resid_prr")
    assert isinstance(caught.value, ValueError)
    with pytest.raises(graphtap.NotFoundError):
        store.read(request="b")


def test_e_damage_is_warned_of_once(path):
    segment = next((path / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    (path / "segments" / segment.name).write_bytes(data[: len(data) * 2 // 3])  # a writer that died
    with pytest.warns(graphtap.DamageWarning):
        store = graphtap.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(store.read())
    assert store.findings


def test_import_is_light():
    code = "import sys, graphtap; print([m for m in ('torch', 'pyarrow', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_d6_torch_shares_the_gathered_buffer(path):
    torch = pytest.importorskip("torch")
    gathered = graphtap.open(path).gather("resid_pre:1", request="a")
    tensor = gathered.torch()
    assert tensor.dtype == torch.bfloat16 and tuple(tensor.shape) == (6, 2, 3)
    assert tensor.data_ptr() == gathered.numpy().ctypes.data


def test_d6_a_stack_is_one_buffer_and_says_where_it_has_holes(path):
    (request,) = graphtap.open(path).requests()
    with pytest.raises(graphtap.InvalidArgumentError, match="mlp_out"):
        request.stack("mlp_out")
    stack = request.stack("resid_pre", layers=[2, 2])
    array = stack.numpy()
    assert stack.shape == array.shape == (2, 6, 2, 3) and array.dtype == np.float32
    assert array[0].tobytes() == array[1].tobytes() == request.gather("resid_pre:2").numpy().tobytes()
    assert stack.tokens == (0, 6) and stack.mask.tolist() == [[True, True, True, False, True, True]] * 2
    assert request.stack("resid_pre", layers=[2], tokens=(4, 6)).mask.all()


def test_d6_a_stack_of_unlike_layers_is_refused_and_not_cast(path):
    (request,) = graphtap.open(path).requests()
    with pytest.raises(graphtap.UnsupportedError, match="layer 2 and float16"):
        request.stack("resid_pre", layers=[2, 0])
    with pytest.raises(graphtap.UnsupportedError, match="in layer 0 and"):
        request.stack("resid_pre")  # every layer of the fixture has another dtype


def test_d6_threads_read_while_the_store_is_refreshed(path):
    from concurrent.futures import ThreadPoolExecutor

    store = graphtap.open(path)
    expected = store.gather("resid_pre:3", request="a").numpy().tobytes()

    def read(_):
        store.refresh()
        rows = sum(record.rows for record in store.read("resid_pre:3"))
        return rows, store.gather("resid_pre:3", request="a").numpy().tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(read, range(40))) == {(5, expected)}
