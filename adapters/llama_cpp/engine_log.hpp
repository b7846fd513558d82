#pragma once
#include <string>

namespace graphtap::llama {

/// Takes llama.cpp's log (one for the process) away from stderr and keeps its last warnings and
/// errors, so that a failure can be told in the engine's own words. Idempotent, thread-safe.
void capture_engine_log();

/// What was said since the last call, as one line; empty if nothing was.
[[nodiscard]] std::string engine_words();

}  // namespace graphtap::llama
