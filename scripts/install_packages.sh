#!/usr/bin/env bash
# usage: scripts/install_packages.sh GROUP…   (groups: see packages.txt)
# Installs the Debian packages that are missing; when none is, it neither needs root nor a network.
set -euo pipefail
list=$(dirname "${BASH_SOURCE[0]}")/packages.txt
(($#)) || { echo "usage: $0 GROUP..." >&2; exit 2; }

say() { printf 'packages: %s\n' "$*" >&2; }
die() { printf 'packages: error: %s\n' "$*" >&2; exit 1; }

release=none
if [[ -r /etc/os-release ]]; then
  release=$(. /etc/os-release && [[ ${ID:-} == debian ]] && echo "${VERSION_ID:-none}" || echo none)
fi
packages=()
while read -r for_release group package; do
  [[ $for_release == "$release" && " $* " == *" $group "* ]] && packages+=("$package")
done < <(grep -v '^#' "$list")
if ((${#packages[@]} == 0)); then
  say "no list for this system (packages.txt knows Debian 12); going on with what is installed"
  exit 0
fi

missing() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || echo "$package"
  done
}

mapfile -t wanted < <(missing)
((${#wanted[@]})) || exit 0
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "missing: ${wanted[*]}; install them as root, or install sudo"
  as_root=(sudo)
fi
say "installing ${wanted[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=3 "$@" >"$log" 2>&1
}
for try in 1 2 3; do
  if apt update && apt install -y --no-install-recommends "${wanted[@]}"; then break; fi
  say "try $try failed: $(grep -m1 -E '^(E|W):' "$log" || tail -n1 "$log")"
  ((try < 3)) && sleep $((5 * try))
done
mapfile -t wanted < <(missing)
((${#wanted[@]} == 0)) || die "could not install ${wanted[*]}:"$'\n'"$(tail -n 15 "$log")"
