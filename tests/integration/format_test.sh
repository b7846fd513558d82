#!/usr/bin/env bash
# Every source file is as clang-format leaves it (./run format). Other versions format otherwise: only 14 is asked.
set -euo pipefail
source_dir=${GRAPHTAP_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)}
clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "no clang-format 14: skipped"; exit 77; }
cd "$source_dir"
mapfile -t files < <(find include src adapters tests bench examples -type f \
  \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort)
((${#files[@]} > 100)) || { echo "only ${#files[@]} sources were found"; exit 1; }
status=0
for file in "${files[@]}"; do
  clang-format "$file" | cmp -s - "$file" || { echo "not formatted: $file"; status=1; }
done
# It must see a file that is not.
printf 'int  main( ){return 0 ;}\n' | clang-format | grep -q '^int main() { return 0; }$' || status=1
exit $status
