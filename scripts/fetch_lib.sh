# Sourced by fetch_engine.sh and fetch_cuda.sh: files from a Python package index, pinned by version and sha256, fetched
# with pip under whatever configuration pip has here. They use say, die, $cache (with downloads/) and $work.
# shellcheck shell=bash
# shellcheck disable=SC2154

sha_of() { sha256sum "$1" | cut -d' ' -f1; }

# pip may live beside python3 or only inside a virtual environment; both only ever write into $work.
pip=()
find_pip() {
  [[ ${#pip[@]} -eq 0 ]] || return 0
  if python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3 -m pip)
  elif python3 -m venv "$work/venv" >"$work/venv.log" 2>&1; then
    pip=("$work/venv/bin/python" -m pip)
  else
    die "python3 has neither pip nor a working venv; on Debian: apt-get install python3-pip"
  fi
}

# run_pip WHAT ARGS…: three tries; a hash mismatch is final.
run_pip() {
  local what=$1 try; shift
  find_pip
  for try in 1 2 3; do
    if PYTHONPATH="$work/tools" "${pip[@]}" --disable-pip-version-check "$@" >"$work/pip.log" 2>&1
    then return 0; fi
    if grep -q 'DO NOT MATCH THE HASHES' "$work/pip.log"; then
      die "$what: what pip fetched is not the pinned file:"$'\n'"$(grep -A8 'DO NOT MATCH' "$work/pip.log")"
    fi
    if (( try < 3 )); then
      say "$what: try $try failed ($(grep -m1 '^ERROR' "$work/pip.log" || tail -n1 "$work/pip.log"))," \
        "again in $((5 * try)) s"
      sleep $((5 * try))
    fi
  done
  die "$what: pip failed three times; its last words:"$'\n'"$(tail -n 15 "$work/pip.log")"
}

# fetch FILE SHA REQUIREMENT ARGS…: the file into downloads/, checked.
fetch() {
  local file=$1 sha=$2 requirement=$3; shift 3
  local kept=$cache/downloads/$file
  if [[ -f $kept ]]; then
    [[ $(sha_of "$kept") == "$sha" ]] && { say "have $file"; return; }
    say "$kept has the wrong checksum; fetching it again"
    rm -f "$kept"
  fi
  say "fetching $requirement"
  printf '%s --hash=sha256:%s\n' "$requirement" "$sha" >"$work/requirement.txt"
  run_pip "$requirement" download --no-deps --require-hashes --dest "$work/files" "$@" \
    -r "$work/requirement.txt"
  [[ -f $work/files/$file ]] || die "$requirement: pip fetched $(ls "$work/files"), not $file"
  [[ $(sha_of "$work/files/$file") == "$sha" ]] || die "$file: its checksum is not the pinned one"
  mv "$work/files/$file" "$kept"
}
