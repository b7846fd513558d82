#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graphtap/options.hpp"
#include "graphtap/store_sink.hpp"

namespace graphtap::cli {

struct RunPrompt {
  std::string id;
  std::string text;
};

/// What `graphtap run` was asked for, read and checked as far as that goes without the model.
struct RunOptions {
  std::optional<std::filesystem::path> model;  ///< default: what scripts/fetch_engine.sh fetched
  std::filesystem::path map;                   ///< further hooks; empty: the built-in map
  std::vector<RunPrompt> prompts;
  bool chat = false;
  bool ignore_end = false;
  std::uint32_t max_tokens = 32;
  std::optional<std::string> hooks;
  std::vector<std::string> at;
  std::optional<std::filesystem::path> store;  ///< none: what is captured is counted and dropped
  StoreOptions store_options;                  ///< how it is written
  std::string name;                            ///< of the run
  std::filesystem::path control;               ///< socket for `graphtap ctl`; empty: none
  bool transcript = true;
  Policy policy = Policy::lossless;
  EagerPolicy eager = EagerPolicy::same;
  std::uint64_t ring_bytes = 64ull << 20;
  std::uint32_t threads = 0;
  std::uint32_t context = 2048;
  std::uint32_t batch = 128;
  std::uint32_t sequences = 1;
  bool list_hooks = false;
  bool json = false;
  bool quiet = false;
};

}  // namespace graphtap::cli
