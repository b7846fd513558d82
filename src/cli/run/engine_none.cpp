#include "cli/run/engine.hpp"
#include "graphtap/status.hpp"

namespace graphtap::cli {

Exit run_engine(const RunOptions&, Console&) {
  throw Error(Code::unsupported,
              "run: this graphtap was built without an engine. Run scripts/fetch_engine.sh, then "
              "configure with -DGRAPHTAP_LLAMA=ON; graphtap graph works without");
}

}  // namespace graphtap::cli
