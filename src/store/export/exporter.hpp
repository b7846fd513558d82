#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graphtap/store_export.hpp"
#include "store/export/plan.hpp"
#include "store/export/state.hpp"
#include "store/export/stream.hpp"
#include "store/export/target.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

/// One call of export_store(), with the system calls named. `ops` and `reader` must outlive it.
class Exporter {
 public:
  Exporter(FileOps& ops, const StoreReader& reader, const Query& query,
           const ExportOptions& options);
  Result<ExportReport> run(const std::filesystem::path& to);

 private:
  struct PlannedFile {
    std::vector<FiledTensor> tensors;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
  };
  void split();
  void add_up();
  Status begin(const std::filesystem::path& to);
  Status write_file(std::size_t index);
  Status write_content(const std::filesystem::path& path, FileContent& content);
  Status verify(const std::filesystem::path& path, const FileContent& content,
                const std::vector<std::uint64_t>& checksums);
  Status finish();
  bool tell();

  FileOps& ops_;
  const StoreReader& reader_;
  const Query query_;
  const ExportOptions options_;
  std::string store_id_;
  ExportPlan plan_;
  std::vector<PlannedFile> files_;
  ExportTarget target_;
  ExportState state_;
  ExportProgress progress_;
  ExportReport report_;
};

}  // namespace graphtap::store
