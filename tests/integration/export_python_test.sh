#!/usr/bin/env bash
# D6: what graphtap exports is what the libraries that own the formats read: numpy reads npz files, safetensors reads
# safetensors files, and both see the bits that the store holds. Skipped where python3 has neither.
set -euo pipefail
command=$(find "${GRAPHTAP_BUILD_DIR:?}" -type f -name graphtap -perm -u+x -print -quit)
[[ -x ${command:-} ]] || { echo "the command is not built"; exit 77; }
python=${GRAPHTAP_PYTHON:-python3}
"$python" -c 'import numpy, safetensors.numpy' 2>/dev/null || { echo "python3 has no numpy or safetensors"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$command" graph --layers 4 --hidden 16 --steps 40 --tier soft --store store --quiet >/dev/null 2>&1
"$command" export store --to rows.safetensors >/dev/null
"$command" export store --to rows.npz --compress >/dev/null || { (($? == 5)) && { echo "built without libzip"; exit 77; }; exit 1; }
"$command" export store --to stored.npz >/dev/null
"$command" export store --to wide.npz --float32 >/dev/null
"$command" export store --to many/ --max-file-bytes 20KiB >/dev/null
"$command" show store --limit 100000 --values 4 --json >shown.json

"$python" - <<'PYTHON'
import json, pathlib, urllib.parse
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

rows = load_file("rows.safetensors")
with safe_open("rows.safetensors", "np") as file:
    said = json.loads(file.metadata()["graphtap"])
assert rows and set(rows) == set(said["tensors"]), "names"

for name in ("rows.npz", "stored.npz"):
    with np.load(name) as npz:
        assert json.loads(npz["graphtap.json"])["tensors"].keys() == rows.keys(), name
        for tensor, values in rows.items():
            assert npz[tensor].dtype == values.dtype and npz[tensor].shape == values.shape, tensor
            assert npz[tensor].tobytes() == values.tobytes(), (name, tensor)

index = json.loads(pathlib.Path("many/export.safetensors.index.json").read_text())["weight_map"]
assert index.keys() == rows.keys() and len(set(index.values())) > 3, "index"
for file in set(index.values()):
    for tensor, values in load_file(f"many/{file}").items():
        assert index[tensor] == file and values.tobytes() == rows[tensor].tobytes(), tensor

# Each row that `show` prints is where the file says, and what the file calls missing is zero.
shown = json.loads(pathlib.Path("shown.json").read_text())["rows"]
compared = 0
for row in shown:
    request = urllib.parse.quote(row["request"], safe="")
    tensor = f'{request}/{row["hook"]}'
    entry, values = said["tensors"][tensor], rows[tensor]
    assert (entry["run"], entry["serial"]) == (row["run"], row["serial"])
    mine = values[row["token"] - entry["tokens"][0]].reshape(-1)[:4].astype(float)
    if "recomputed" in row["notes"] or "rejected" in row["notes"]:
        continue
    np.testing.assert_allclose(mine, [np.nan if v is None else v for v in row["values"]], rtol=0, atol=0)
    compared += 1
assert compared > 500, compared
for tensor, entry in said["tensors"].items():
    for gap in entry["missing"]:
        begin, end = (t - entry["tokens"][0] for t in gap["tokens"])
        assert not rows[tensor][begin:end].any(), (tensor, gap)

# A file that these libraries wrote goes in, and comes out as it was.
rng = np.random.default_rng(7)
probe = rng.standard_normal((5, 16)).astype(np.float16)
save_file({"probe": probe}, "probe.safetensors")
np.savez("probe.npz", probe=probe)
np.savez_compressed("packed.npz", probe=probe)
PYTHON

for file in probe.safetensors probe.npz packed.npz; do
  rm -rf in back.safetensors
  "$command" import "$file" --store in --hook blocks.2.resid_pre --request r --first-token 3 >/dev/null
  "$command" export in --to back.safetensors >/dev/null
  "$python" - "$file" <<'PYTHON'
import sys
import numpy as np
from safetensors.numpy import load_file
back = load_file("back.safetensors")["r/blocks.2.resid_pre"]
if sys.argv[1].endswith(".npz"):
    there = np.load(sys.argv[1])["probe"]
else:
    there = load_file(sys.argv[1])["probe"]
assert back.dtype == there.dtype and back.tobytes() == there.tobytes(), sys.argv[1]
PYTHON
done
echo "numpy and safetensors agree"
