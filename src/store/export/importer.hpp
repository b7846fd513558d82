#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "graphtap/store_import.hpp"
#include "graphtap/store_sink.hpp"
#include "store/export/import_source.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

/// Writes what an ImportSource holds into a store. `ops` and the source must outlive it.
class Importer {
 public:
  Importer(FileOps& ops, ImportSource& source, const ImportOptions& options);
  Result<ImportReport> run(const std::filesystem::path& store);

 private:
  struct Rows;  // of one tensor, in one buffer
  Status write(Sink& sink, ImportRun& run);
  Status write(Sink& sink, const ImportRun& run, ImportRequest& request);
  Status write_rows(Sink& sink, const ImportRun& run, const Request& request,
                    const std::vector<Rows>& rows);
  Status write_gaps(Sink& sink, const ImportRun& run, const Request& request,
                    const std::vector<ImportTensor>& tensors);
  Status write_step(Sink& sink, const ImportRun& run, DeliveredStep step);
  static Status read_rows(ImportTensor& tensor, TokenRange tokens, const Request& request,
                          Rows& out);

  FileOps& ops_;
  ImportSource& source_;
  const ImportOptions options_;
  std::uint64_t ticket_ = 0;
  std::uint64_t records_ = 0, gaps_ = 0;  // of the request being written
  ImportProgress progress_;
  ImportReport report_;
};

}  // namespace graphtap::store
