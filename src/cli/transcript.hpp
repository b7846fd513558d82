#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graphtap/status.hpp"

namespace graphtap::cli {

/// What a request's tokens say, which a store of tensors does not know.
struct RequestText {
  std::string id;
  std::uint64_t prompt_tokens = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::string> pieces;  ///< the text of each token; may be parts of characters
  std::string finish;
};

/// The text beside a run: DIR/transcripts/<run id>.json. Not part of the store's format: readers of
/// the store pass it over, the report labels its columns with it.
struct Transcript {
  std::string model;
  std::map<std::uint64_t, RequestText> requests;  ///< by serial
};

/// Errors: io_error, unavailable.
Status write_transcript(const std::filesystem::path& store, const std::string& run_id,
                        const Transcript& transcript);
/// Empty if there is none. Errors: corrupt, io_error.
[[nodiscard]] Result<Transcript> read_transcript(const std::filesystem::path& store,
                                                 const std::string& run_id);

}  // namespace graphtap::cli
