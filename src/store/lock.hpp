#pragma once
#include <memory>
#include <optional>
#include <string>

#include "graphtap/status.hpp"
#include "store/file_ops.hpp"
#include "store/layout.hpp"

namespace graphtap::store {

/// The one writer's claim on a store: an open-file-description lock on LOCK, which ends with its
/// process however that dies. The text inside says who; it is only a message and may be stale.
class WriterLock {
 public:
  /// Errors: unavailable (someone else holds it: named; or no permission), exhausted, io_error.
  [[nodiscard]] static Result<WriterLock> take(FileOps& ops, const Layout& layout);
  /// Who writes to the store now, without disturbing a writer that is just starting; nothing if
  /// nobody does or it cannot be known.
  [[nodiscard]] static std::optional<std::string> holder(const Layout& layout);

  /// Lets the next writer in.
  void release() noexcept { file_.reset(); }

 private:
  explicit WriterLock(std::unique_ptr<File> file) noexcept : file_(std::move(file)) {}
  std::unique_ptr<File> file_;
};

}  // namespace graphtap::store
