#pragma once
#include <filesystem>
#include <memory>

#include "graphtap/store_sink.hpp"
#include "store/file_ops.hpp"

namespace graphtap::store {

/// open_store_sink() with the system calls named; `ops` must outlive the sink.
[[nodiscard]] Result<std::shared_ptr<Sink>> open_sink(FileOps& ops,
                                                      const std::filesystem::path& directory,
                                                      const HookTable& table,
                                                      const StoreOptions& options);

}  // namespace graphtap::store
