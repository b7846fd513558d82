#!/usr/bin/env bash
# Installs into an empty prefix, moves it, and builds and runs a small program against what lies there:
# once through find_package, once through pkg-config. Every public header must compile on its own.
set -euo pipefail
build=${GRAPHTAP_BUILD_DIR:?the build folder to install from}
cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(cat "$work/install.log")"
mv "$work/first" "$work/moved"
prefix=$work/moved
pkgconfig=$(dirname "$(find "$prefix" -name graphtap.pc)")
[[ -f $pkgconfig/graphtap.pc ]] || fail "no graphtap.pc"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")

cat >"$work/main.cpp" <<'CPP'
#include <cstdio>

#include "graphtap/graphtap.hpp"

int main() {
  const auto sink = graphtap::make_null_sink();
  const graphtap::Status status = sink->write(graphtap::DeliveredStep{});
  std::printf("%s %s\n", sink->name().c_str(), graphtap::to_string(status.code()));
  return status.ok() ? 0 : 1;
}
CPP
if [[ ! -f $prefix/include/graphtap/graphtap.hpp ]]; then  # no header for everything: name them
  sed -i 's,"graphtap/graphtap.hpp","graphtap/monitor.hpp",' "$work/main.cpp"
fi
check_run() { [[ $("$1") == "null ok" ]] || fail "$1 printed: $("$1")"; }

echo "install: every public header on its own"
export cxx prefix work
check_header() {  # twice: it must also bear being included again
  local source; source=$(mktemp "$work/header.XXXXXX.cpp")
  printf '#include "%s"\n#include "%s"\n' "$1" "$1" >"$source"
  "$cxx" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$source" ||
    { echo "install: $1 does not compile on its own" >&2; return 1; }
}
export -f check_header
(cd "$prefix/include" && find graphtap -name '*.hpp') |
  xargs -P "$(nproc)" -I{} bash -c 'check_header {}' || fail "a public header is not complete"
(cd "$prefix/include" && find graphtap -name '*.h') | while read -r header; do
  printf '#include "%s"\n' "$header" >"$work/header.c"
  "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" "$work/header.c" ||
    fail "$header does not compile as C"
done

echo "install: find_package(graphtap $version)"
mkdir "$work/consumer"
cp "$work/main.cpp" "$work/consumer/"
cat >"$work/consumer/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(graphtap $version REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE graphtap::graphtap)
CMAKE
cmake -G Ninja -S "$work/consumer" -B "$work/out" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  >"$work/configure.log" 2>&1 || fail "configure: $(tail -n 20 "$work/configure.log")"
cmake --build "$work/out" >"$work/build.log" 2>&1 || fail "build: $(tail -n 20 "$work/build.log")"
check_run "$work/out/consumer"

echo "install: a version that is not there is refused"
sed -i "s/graphtap $version/graphtap 99.0/" "$work/consumer/CMakeLists.txt"
if cmake -G Ninja -S "$work/consumer" -B "$work/refused" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx" >/dev/null 2>&1; then
  fail "find_package(graphtap 99.0) succeeded"
fi

echo "install: pkg-config"
export PKG_CONFIG_PATH=$pkgconfig
[[ $(pkg-config --modversion graphtap) == "$version" ]] || fail "pkg-config has another version"
# shellcheck disable=SC2046  # flags are words
"$cxx" -std=c++20 $(pkg-config --cflags graphtap) "$work/main.cpp" -o "$work/by_pkg_config" \
  $(pkg-config --libs graphtap) || fail "pkg-config: the program does not build"
check_run "$work/by_pkg_config"

if grep -q '^GRAPHTAP_LLAMA:BOOL=ON' "$build/CMakeCache.txt"; then
  echo "install: the command"
  [[ -x $prefix/bin/graphtap ]] || fail "bin/graphtap is missing"
  "$prefix/bin/graphtap" --help >/dev/null || fail "graphtap --help failed"
fi
echo "install: ok"
