"""python -m graphtap.export STORE --to FOLDER: rows as Parquet or Arrow files, one a request.

The files are those of graphtap.arrow; graphtap-export.json beside them says which are whole and what each lacks. A file
is read back and compared before it gets its name. After an interruption the same command goes on.
"""
import argparse
import errno
import hashlib
import json
import os
import sys
from pathlib import Path

from . import arrow, errors
from . import open as open_store

MANIFEST = "graphtap-export.json"
FORMATS = ("parquet", "arrow")
_EXIT = [(errors.InvalidArgumentError, 2), (errors.NotFoundError, 3), (errors.UnavailableError, 4),
         (errors.UnsupportedError, 5), (errors.CorruptError, 6), (errors.ExhaustedError, 7), (errors.IoError, 9)]


class _Sum:
    """What a file holds, whatever its chunks: a hash over the cells of each column."""

    def __init__(self):
        self.rows, self._columns = 0, {}

    def add(self, batch):
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns):
            hasher = self._columns.setdefault(name, hashlib.blake2b(digest_size=16))
            if name == "values":
                cells = column.flatten().to_numpy(zero_copy_only=False).tobytes()
            else:
                cells = json.dumps(column.to_pylist()).encode()
            hasher.update(cells if name == "values" else cells[1:-1] + b", ")

    def digest(self):
        return hashlib.blake2b("".join(h.hexdigest() for h in self._columns.values()).encode(),
                               digest_size=16).hexdigest()


def _sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _save(folder, manifest):
    temporary = folder / (MANIFEST + ".part")
    temporary.write_text(json.dumps(manifest, indent=1) + "\n")
    _sync(temporary)
    os.replace(temporary, folder / MANIFEST)
    _sync(folder)


def _writer(path, form, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "parquet":
        return pq.ParquetWriter(path, form, compression="zstd")
    return pa.ipc.new_file(path, form)


def _read(path, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=4096)
    else:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            for i in range(file.num_record_batches):
                yield file.get_batch(i)


def _missing(store, request, hooks):
    told = []
    for (hook, _, ordinal), _ in arrow.places(store, hooks, run=request.run, serial=request.serial).items():
        # In pieces, so that no more than a few rows' worth of memory is taken at once.
        begin, end = request.tokens
        for first in range(begin, end, 1024):
            gathered = store.gather(hook, run=request.run, serial=request.serial, ordinal=ordinal,
                                    tokens=(first, min(first + 1024, end)))
            told += [{"hook": hook, "ordinal": ordinal, "tokens": [m.begin, m.end], "why": m.why,
                      **({"reason": m.reason} if m.reason else {})} for m in gathered.missing]
    return told


def _write_part(store, request, path, hooks, kind, options):
    """Writes, reads back, and renames; the part's entry in the manifest, or None if nothing matches."""
    temporary, writer, wrote = path.with_name(path.name + ".part"), None, _Sum()
    try:
        for batch in arrow.request_batches(store, request, hooks, **options):
            writer = writer or _writer(temporary, batch.schema, kind)
            writer.write(batch)
            wrote.add(batch)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        return None
    _sync(temporary)
    there = _Sum()
    for batch in _read(temporary, kind):
        there.add(batch)
    if (there.rows, there.digest()) != (wrote.rows, wrote.digest()):
        raise errors.IoError(f"{temporary} does not read back as it was written")
    os.replace(temporary, path)
    return {"run": request.run, "serial": request.serial, "request": request.id, "rows": wrote.rows,
            "bytes": path.stat().st_size, "digest": wrote.digest(), "finished": request.finished,
            "missing": _missing(store, request, hooks)}


def export(store_path, folder, hooks="", *, format="parquet", small_floats="float32", batch_bytes=16 << 20,  # noqa: A002
           progress=None):
    """Exports rows of `hooks` into `folder`, one file a request, and returns the manifest.

    Goes on where an export with the same settings was interrupted: files that are named in the manifest and have their
    size are kept, unless their request had not finished. Memory: some times `batch_bytes`. `progress(done, of, name)`
    is called behind each request. Raises InvalidArgumentError (something else is in the folder, or an export with other
    settings), NotFoundError (nothing matches), UnsupportedError (rows that are not alike), IoError (what was written
    does not read back).
    """
    if format not in FORMATS:
        raise errors.InvalidArgumentError(f"format is {format!r}; it can be parquet or arrow")
    arrow.schema("f32", (1,), small_floats)  # says now what is wrong with small_floats, and that pyarrow is there
    store, folder = open_store(store_path), Path(folder)
    settings = {"version": 1, "store": os.path.realpath(store_path), "hooks": hooks, "format": format,
                "small_floats": small_floats}
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {**settings, "complete": False, "parts": {}}
    if (folder / MANIFEST).exists():
        try:
            manifest = json.loads((folder / MANIFEST).read_text())
            same = all(manifest[key] == value for key, value in settings.items())
            manifest["parts"].items()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.CorruptError(f"{folder / MANIFEST} is no manifest of an export: {error}") from error
        if not same:
            raise errors.InvalidArgumentError(f"{folder} holds an export with other settings ({MANIFEST}); name another "
                                              "folder, or remove it")
    elif any(entry.name != MANIFEST + ".part" for entry in folder.iterdir()):
        raise errors.InvalidArgumentError(f"{folder} is not empty and holds no export; name another folder")
    options = {"small_floats": small_floats, "batch_bytes": batch_bytes}
    requests = store.requests()
    manifest["complete"] = False
    _save(folder, manifest)
    for done, request in enumerate(requests, 1):
        name = f"request-{request.run:04}-{request.serial:08}.{format}"
        part, path = manifest["parts"].get(name), folder / name
        whole = part and part["finished"] and path.exists() and path.stat().st_size == part["bytes"]
        if not whole:
            part = _write_part(store, request, path, hooks, format, options)
            if part:
                manifest["parts"][name] = part
                _save(folder, manifest)
        if progress:
            progress(done, len(requests), name)
    if not manifest["parts"]:
        raise errors.NotFoundError(f"nothing stored matches {hooks!r}" if hooks else "the store has no rows")
    for left in folder.glob("*.part"):
        left.unlink()
    manifest["complete"] = True
    _save(folder, manifest)
    return manifest


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m graphtap.export", description=__doc__.split("\n\n")[0],
                                     epilog="Exit codes are those of graphtap (docs/exit-codes.md).")
    parser.add_argument("store", help="the store's folder")
    parser.add_argument("--to", required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--hooks", default="", metavar="SELECTION", help="e.g. resid_pre:20-29 (default: all)")
    parser.add_argument("--format", choices=FORMATS, default="parquet")
    parser.add_argument("--small-floats", choices=arrow.SMALL_FLOATS, default="float32",
                        help="bf16 and fp8 as float32, or as their bits (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    given = parser.parse_args(arguments)

    def progress(done, of, name):
        print(f"\r{done} of {of} requests", end="" if done < of else "\n", file=sys.stderr, flush=True)

    try:
        made = export(given.store, given.to, given.hooks, format=given.format, small_floats=given.small_floats,
                      progress=None if given.quiet else progress)
    except KeyboardInterrupt:
        print("\ngraphtap: interrupted; the same command goes on", file=sys.stderr)
        return 130
    except (errors.Error, OSError, ImportError) as error:
        print(f"graphtap: {error}", file=sys.stderr)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return 7
        if isinstance(error, ImportError):
            return 5
        return next((code for kind, code in _EXIT if isinstance(error, kind)), 9)
    if not given.quiet:
        rows = sum(part["rows"] for part in made["parts"].values())
        lacking = sum(len(part["missing"]) for part in made["parts"].values())
        print(f"{rows} rows in {len(made['parts'])} files of {given.to}; {lacking} ranges are missing ({MANIFEST})",
              file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
