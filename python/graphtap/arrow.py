"""Rows of a store as Arrow record batches, for pandas, Polars, DuckDB and Parquet. Needs pyarrow (graphtap[arrow]).

One row is one token of one request at one hook. Columns: `run` uint32, `serial` uint64 and `request` string (whose),
`hook` string, `layer` int32 or null, `ordinal` uint16, `token` int64, `values` fixed_size_list (the row, flattened;
its shape is in the field's metadata). Rows that are not there are left out: request.gather(...).missing says why.
"""
import numpy as np

from .errors import InvalidArgumentError, NotFoundError, UnsupportedError

SMALL_FLOATS = ("float32", "bits")
_BITS = {"bf16": "uint16", "f8_e4m3": "uint8", "f8_e5m2": "uint8"}


def places(store, hooks="", **filters):
    """(hook, layer, ordinal) -> (dtype, row shape) of what is stored, in stored order. `filters` are Store.read's."""
    found = {}
    for record in store.read(hooks, **filters):
        if record.serial is not None:
            found.setdefault((record.hook, record.layer, record.ordinal), (record.dtype, record.shape[1:]))
    return found


def schema(dtype, shape, small_floats="float32"):
    """The schema of rows of `dtype` and `shape`. bf16 and fp8, which Arrow does not have, become float32 (exact) or,
    with "bits", uint16 and uint8."""
    import pyarrow as pa

    if small_floats not in SMALL_FLOATS:
        raise InvalidArgumentError(f"small_floats is {small_floats!r}; it can be 'float32' or 'bits'")
    width = int(np.prod(shape, dtype=np.int64))
    if dtype in _BITS:
        numpy_type = np.dtype("float32" if small_floats == "float32" else _BITS[dtype])
    else:
        from ._arrays import numpy_dtype

        numpy_type = numpy_dtype(dtype)
    metadata = {"dtype": dtype, "shape": ",".join(map(str, shape))}
    return pa.schema([
        pa.field("run", pa.uint32()), pa.field("serial", pa.uint64()), pa.field("request", pa.string()),
        pa.field("hook", pa.string()), pa.field("layer", pa.int32()), pa.field("ordinal", pa.uint16()),
        pa.field("token", pa.int64()),
        pa.field("values", pa.list_(pa.from_numpy_dtype(numpy_type), width), metadata=metadata)])


def request_batches(store, request, hooks="", *, tokens=None, small_floats="float32", batch_bytes=16 << 20):
    """Record batches of one request, hook by hook and token by token, at most about `batch_bytes` each.

    Nothing more than a batch is held in memory. `tokens`: (begin, end). Raises UnsupportedError when the hooks differ
    in dtype or row shape: one table has one type of row.
    """
    import pyarrow as pa

    found = places(store, hooks, run=request.run, serial=request.serial)
    kinds = {}
    for (hook, _, _), kind in found.items():
        kinds.setdefault(kind, hook)
    if len(kinds) > 1:
        told = " and ".join(f"{hook} is {dtype} {shape}" for (dtype, shape), hook in list(kinds.items())[:2])
        raise UnsupportedError(f"rows of one table are alike, but {told}; export them one by one")
    begin, end = tokens or request.tokens
    for (hook, layer, ordinal), (dtype, shape) in found.items():
        form = schema(dtype, shape, small_floats)
        values_type = form.field("values").type
        row_bytes = max(values_type.list_size * values_type.value_type.bit_width // 8, 1)
        rows = max(batch_bytes // row_bytes, 1)
        for first in range(begin, end, rows):
            gathered = store.gather(hook, run=request.run, serial=request.serial, ordinal=ordinal,
                                    tokens=(first, min(first + rows, end)))
            there = np.flatnonzero(gathered.mask)
            if not there.size:
                continue
            values = gathered.numpy().reshape(gathered.shape[0], -1)[there]
            if dtype in _BITS:
                values = values.astype(np.float32) if small_floats == "float32" else values.view(_BITS[dtype])
            count = len(there)
            yield pa.record_batch([
                pa.array(np.full(count, request.run, np.uint32)), pa.array(np.full(count, request.serial, np.uint64)),
                pa.array([request.id] * count), pa.array([hook] * count), pa.array([layer] * count, pa.int32()),
                pa.array(np.full(count, ordinal, np.uint16)), pa.array(first + there.astype(np.int64)),
                pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), type=values_type)], schema=form)


def batches(store, hooks="", *, small_floats="float32", batch_bytes=16 << 20):
    """request_batches() of every request, by run and serial."""
    for request in store.requests():
        yield from request_batches(store, request, hooks, small_floats=small_floats, batch_bytes=batch_bytes)


def table(store, hooks="", *, small_floats="float32"):
    """All of it as one pyarrow.Table, in memory. Raises NotFoundError if nothing stored matches."""
    import pyarrow as pa

    made = list(batches(store, hooks, small_floats=small_floats))
    if not made:
        raise NotFoundError(f"nothing stored matches {hooks!r}" if hooks else "the store has no rows")
    if any(batch.schema != made[0].schema for batch in made):
        raise UnsupportedError("rows of one table are alike, and those of these requests are not; make one for each")
    return pa.Table.from_batches(made)
