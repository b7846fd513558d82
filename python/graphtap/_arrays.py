"""Buffers of the extension as numpy arrays and torch tensors."""
import functools

import numpy as np

_NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32",
          "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool"}
_SMALL = {"bf16": "bfloat16", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2"}
_TORCH = {**_NUMPY, **_SMALL}
_NEEDS = {"f8_e4m3": "2.1", "f8_e5m2": "2.1", "u16": "2.3", "u32": "2.3", "u64": "2.3"}
_CARRIER = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}  # what every torch can take from numpy


@functools.cache
def numpy_dtype(name):
    if name in _SMALL:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _SMALL[name]))
    return np.dtype(_NUMPY[name])


def as_numpy(value):
    return np.ndarray(value.shape, numpy_dtype(value.dtype), buffer=value)


def _tensor(value, array):
    import torch

    dtype = getattr(torch, _TORCH[value.dtype], None)
    if dtype is None:
        from .errors import UnsupportedError

        raise UnsupportedError(f"torch {torch.__version__} has no {_TORCH[value.dtype]}; "
                               f"torch {_NEEDS[value.dtype]} or later has, and .numpy() works with any")
    return torch.from_numpy(array.view(_CARRIER[array.dtype.itemsize])).view(dtype)


def as_torch(value):
    return _tensor(value, as_numpy(value))


def as_torch_copy(value):
    return _tensor(value, as_numpy(value).copy())


class Stack:
    """One hook type of several layers of a request, as one buffer.

    `layers`, `tokens` (begin, end), `mask` bool (layers, tokens): is the row there? Rows that are not are zero.
    """

    def __init__(self, layers, tokens, values, mask):
        self.layers, self.tokens, self.mask, self._values = layers, tokens, mask, values

    @property
    def shape(self):
        return self._values.shape

    def numpy(self):
        """The buffer, (layers, tokens, row shape...), no copy."""
        return self._values


def stack(request, type, layers=None, tokens=None):
    """Gathers one hook type of every layer (or of `layers`) of a request into one Stack.

    Raises NotFoundError if no layer has rows of it, InvalidArgumentError (the model has no such hook),
    UnsupportedError if layers differ in dtype or row shape.
    """
    from .errors import NotFoundError, UnsupportedError

    if layers is None:
        layers = sorted({r.layer for r in request._store.read(type, serial=request.serial, run=request.run)
                         if r.layer is not None})
    if not layers:
        raise NotFoundError(f"request {request.id!r} has no rows of {type} in any layer")
    tokens = tokens or request.tokens
    values = mask = None
    for i, layer in enumerate(layers):
        gathered = request.gather(f"{type}:{layer}", tokens=tokens)
        rows = gathered.numpy()
        if values is None:
            values = np.empty((len(layers), *rows.shape), rows.dtype)
            mask = np.empty(values.shape[:2], bool)
        if rows.dtype != values.dtype or rows.shape != values.shape[1:]:
            raise UnsupportedError(f"{type} is {values.dtype} {values.shape[2:]} in layer {layers[0]} and {rows.dtype} "
                                   f"{rows.shape[1:]} in layer {layer}; name layers that are alike")
        values[i], mask[i] = rows, gathered.mask
    return Stack(list(layers), tuple(tokens), values, mask)


def mask_of(value):
    begin, end = value.tokens
    mask = np.ones(end - begin, bool)
    for missing in value.missing:
        mask[missing.begin - begin : missing.end - begin] = False
    return mask
