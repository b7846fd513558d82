#!/usr/bin/env bash
# usage: ./run format            clang-format every source file in place
#        ./run format --check    say which files it would change; exit 1 if there are any
#        ./run format --tidy     run clang-tidy over the sources (minutes)
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare format
cd "$root"
mapfile -t files < <(find include src adapters tests bench examples -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort)
case ${1:-} in
  '') clang-format -i "${files[@]}" ;;
  --check)
    status=0
    for file in "${files[@]}"; do
      clang-format "$file" | cmp -s - "$file" || { echo "$file"; status=1; }
    done
    exit $status ;;
  --tidy)
    # The build that clang compiles: clang-tidy does not know all of g++'s options.
    prepare test
    prepare_engine
    configure asan-ubsan -DGRAPHTAP_LLAMA=ON
    build asan-ubsan graphtap_cli
    dir=$(build_dir asan-ubsan)
    find src adapters -name '*.cpp' | sort |
      xargs -P "$jobs" -n 4 clang-tidy -p "$dir" --quiet ;;
  *) die "unknown option: $1 (--check or --tidy)" ;;
esac
