#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "store/export/plan.hpp"
#include "store/run_header.hpp"

namespace graphtap::store {

/// What an export says beside its tensors, so that a reader knows whose rows they are and which of
/// them are real. JSON; docs/export.md describes it.
inline constexpr int kDocumentVersion = 1;

struct DocumentTensor {
  std::string name;
  std::uint32_t run = 0;
  std::uint64_t serial = 0;
  HookId hook = 0;  // of the run
  std::uint16_t ordinal = 0;
  DType dtype = DType::f32;      // of the hook
  DType stored_as = DType::f32;  // of the tensor in the file
  TokenRange tokens;
  std::int64_t columns = 0;
  std::vector<MissingTokens> missing;
};

struct DocumentRequest {
  std::uint32_t run = 0;
  std::uint64_t serial = 0;
  std::string id;
  std::int64_t prompt_tokens = 0;
  bool finished = false;
  bool valid = false;
  std::vector<TokenRange> not_computed;
  std::vector<TokenRange> rejected;
};

struct Document {
  std::string store_id;
  std::vector<RunHeader> runs;
  std::vector<DocumentRequest> requests;
  std::vector<DocumentTensor> tensors;
};

/// A tensor of the plan as it goes into a file.
struct FiledTensor {
  const PlannedTensor* planned = nullptr;
  DType stored_as = DType::f32;
};

/// The document of one file. Errors: invalid_argument (a run whose description is not readable).
[[nodiscard]] Result<std::string> document_text(std::string_view store_id, const Query& query,
                                                std::span<const FiledTensor> tensors);

/// Errors: corrupt, naming what is off; unsupported (a newer version).
[[nodiscard]] Result<Document> parse_document(std::string_view text, const std::string& file);

/// The query as it stands in documents and state files.
[[nodiscard]] std::string query_text(const Query& query);

}  // namespace graphtap::store
