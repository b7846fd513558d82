"""Reads graphtap's capture stores. Importing it starts no thread, opens no file and needs no torch."""
from ._arrays import Stack
from ._arrays import stack as _stack
from ._graphtap import Gap, Gathered, Hook, HookTotals, Missing, Record, Request, Run, Store
from .errors import *  # noqa: F403

__version__ = "0.1.0"


Request.stack = _stack


def open(path) -> Store:  # noqa: A001
    """Opens the store directory `path` for reading. Damage is warned of once (DamageWarning).

    Raises NotFoundError, InvalidArgumentError (not a store), UnsupportedError (a newer format),
    CorruptError (its manifest) or IoError.
    """
    import os

    store = Store(os.fspath(path))
    store._warn()
    return store
