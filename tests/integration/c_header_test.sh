#!/usr/bin/env bash
# The C header is plain C99, and complete by itself.
set -euo pipefail
echo '#include "graphtap/c/graphtap.h"
int main(void) { return gt_version() == 0; }' |
  "${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only \
    -I"$GRAPHTAP_SOURCE_DIR/include" -x c -
echo "ok: graphtap/c/graphtap.h compiles as C99"
