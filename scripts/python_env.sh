#!/usr/bin/env bash
# usage: scripts/python_env.sh   prints the Python of a virtual environment with what tests/requirements.txt pins
# Kept in the cache, one for each content of that file. What the tests hold our files against: the libraries that
# own the formats.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

list=$root/tests/requirements.txt
# Debian's own interpreter where there is one: another one in PATH may lack venv.
python=/usr/bin/python3
[[ -x $python ]] || python=$(command -v python3)
folder=$cache/python/$( { cat "$list"; "$python" --version; } | sha256sum | cut -c1-12)
if [[ ! -f $folder/ready ]]; then
  say "python: making an environment with $(grep -cv '^#' "$list") packages"
  rm -rf "$folder"
  mkdir -p "${folder%/*}"
  "$python" -m venv "$folder" >&2
  for try in 1 2 3; do
    if "$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: -r "$list" >&2; then
      touch "$folder/ready"
      break
    fi
    ((try == 3)) || { say "python: try $try failed, again in $((5 * try)) s"; sleep $((5 * try)); }
  done
  [[ -f $folder/ready ]] || die "the Python packages of tests/requirements.txt could not be installed"
fi
echo "$folder/bin/python"
