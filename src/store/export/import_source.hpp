#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "graphtap/store_import.hpp"
#include "store/export/document.hpp"
#include "store/export/tensor_file.hpp"

namespace graphtap::store {

/// A tensor that is to become records.
struct ImportTensor {
  TensorFile* file = nullptr;
  std::size_t index = 0;  // in the file
  DocumentTensor what;
  std::uint64_t row_bytes = 0;
};
struct ImportRequest {
  DocumentRequest what;
  std::vector<ImportTensor> tensors;
};
struct ImportRun {
  std::string store_id;
  RunInfo info;
  std::shared_ptr<const HookTable> table;
  std::map<std::uint64_t, ImportRequest> requests;  // by serial
};

/// The files of an import, opened and checked against what they say of themselves.
struct ImportSource {
  std::vector<std::unique_ptr<TensorFile>> files;
  std::vector<ImportRun> runs;

  /// Errors: those of import_files() that are about files.
  [[nodiscard]] static Result<ImportSource> open(const std::vector<std::filesystem::path>& paths,
                                                 const std::optional<ForeignTensor>& foreign);
};

}  // namespace graphtap::store
