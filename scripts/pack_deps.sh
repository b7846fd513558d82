#!/usr/bin/env bash
# usage: ./run pack-deps   Copies what graphtap is built with from this Debian machine's packages into .deps/ of the
# checkout, so that the tree can be built on a machine that has neither them nor a network (./run gpu-test there).
# .deps/ can be moved: header-only fmt and spdlog, static sqlite3, xxhash and GoogleTest, no path of this machine.
# The scripts take them from there where the machine lacks one of them, or always with GRAPHTAP_DEPS=1.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
readonly packages=(libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libsqlite3-dev libxxhash-dev libgtest-dev)
prepare test

work=$root/.deps.new
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# take FILE [NAME]: to the place it has below /usr, links followed.
take() {
  local to=$work/${2:-${1#/usr/}}
  mkdir -p "$(dirname "$to")"
  cp -L --preserve=mode,timestamps "$1" "$to"
}
for package in "${packages[@]}"; do
  while IFS= read -r file; do
    case $file in
      *.so|*/doc/*|*/man/*|*/GTest/GMock*) ;;
      *) [[ -d $file ]] || take "$file" ;;
    esac
  done < <(dpkg -L "$package" | grep -E '^/usr/(include|lib|share)/')
done

# Shared libraries become header-only targets: no library of this machine has to fit another one's C++ runtime.
lib=lib/$(gcc -print-multiarch)
cmake=$work/$lib/cmake
sed -i -e 's/(fmt::fmt SHARED IMPORTED)/(fmt::fmt INTERFACE IMPORTED)/' -e 's/"FMT_SHARED"/"FMT_HEADER_ONLY=1"/' \
  "$cmake/fmt/fmt-targets.cmake"
sed -i -e 's/(spdlog::spdlog SHARED IMPORTED)/(spdlog::spdlog INTERFACE IMPORTED)/' \
  -e 's/SPDLOG_SHARED_LIB;SPDLOG_COMPILED_LIB;//' "$cmake/spdlog/spdlogConfigTargets.cmake"
rm "$cmake/fmt/fmt-targets-none.cmake" "$cmake/spdlog/spdlogConfigTargets-none.cmake"
rm -f "$work/$lib/"libgmock*.a "$work/$lib/pkgconfig/"gmock*.pc
rm -rf "$work/include/gmock"
sed -i -e 's|/usr\>|${pcfiledir}/../../..|' "$work/$lib"/pkgconfig/*.pc
sed -i -e 's|/usr\>|${pcfiledir}/../..|' "$work"/share/pkgconfig/*.pc
sed -i -e 's/-DSPDLOG_SHARED_LIB//; s/-DSPDLOG_COMPILED_LIB//; /^Libs:/d' \
  "$work/$lib"/pkgconfig/{fmt,spdlog}.pc
sed -i -e 's/^Cflags:.*/& -DFMT_HEADER_ONLY/' "$work/$lib/pkgconfig/fmt.pc"

# For a machine without pkg-config; its own is preferred (lib.sh).
take "$(readlink -f /usr/bin/pkg-config)" bin/pkgconf.bin
pkgconf_lib=$(ldd /usr/bin/pkg-config | awk '/libpkgconf/ { print $3 }')
take "$pkgconf_lib" "bin/lib/$(basename "$pkgconf_lib")"
cat >"$work/bin/pkg-config" <<'TEXT'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$here/lib exec "$here/pkgconf.bin" "$@"
TEXT
chmod +x "$work/bin/pkg-config"
dpkg-query -W -f '${Package} ${Version}\n' "${packages[@]}" >"$work/packages"

leftover=$(grep -rIl 'lib/[a-z0-9_-]*/lib\(fmt\|spdlog\)\.so' "$work/lib" || true)
[[ -z $leftover ]] || die "still names a shared library that is not packed: $leftover"
rm -rf "$root/.deps"
mv "$work" "$root/.deps"
size=$(du -sm "$root/.deps" | cut -f1)
((size < 20)) || die ".deps is $size MiB: more than the 20 that it may be"
say ".deps: $size MiB of $(wc -l <"$root/.deps/packages") packages"
