#!/usr/bin/env bash
# Shows that the suites have teeth: builds each deliberate bug (GRAPHTAP_BUG_<name> in the sources) and
# checks that the suite named for it in bugs.txt fails.
#   run_teeth.sh --build FOLDER [--jobs N] [--only NAME…] [--report FILE]
# FOLDER is a finished build with the tests. Exit code 1 if a bug gets through.
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/teeth.py" "$@"
