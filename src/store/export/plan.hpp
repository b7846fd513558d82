#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/store_reader.hpp"
#include "store/store_core.hpp"

namespace graphtap::store {

/// One tensor of an export: a hook's rows of one request.
struct PlannedTensor {
  std::string name;
  const RunState* run = nullptr;
  std::uint64_t serial = 0;
  const Hook* hook = nullptr;
  std::uint16_t ordinal = 0;
  TokenRange tokens;
  std::uint64_t row_bytes = 0;  // as stored
  std::int64_t columns = 0;
  std::vector<MissingTokens> missing;
  std::uint64_t duplicates = 0;
  std::uint64_t rejected = 0;
  RankFilter ranks;  // of the query

  [[nodiscard]] std::uint64_t rows() const {
    return static_cast<std::uint64_t>(tokens.end - tokens.begin);
  }
  /// {rows, row shape…}
  [[nodiscard]] std::vector<std::int64_t> shape() const;
};

/// What a query selects of a store, known before the first byte is written.
struct ExportPlan {
  std::vector<PlannedTensor> tensors;  // by run, request, hook, ordinal
  std::uint64_t unattributed_rows = 0;
  std::uint64_t digest = 0;  // of where every row comes from: another store, another digest
};

/// Goes once through the heads of the steps that the query selects. Errors: as StoreReader::read();
/// unsupported (rows of a hook differ in width), exhausted (a tensor of 2^63 bytes).
[[nodiscard]] Result<ExportPlan> plan_export(const StoreCore& core, const Query& query);

}  // namespace graphtap::store
