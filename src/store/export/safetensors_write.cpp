#include <fcntl.h>

#include <cerrno>

#include "store/export/safetensors.hpp"
#include "store/export/stream.hpp"

namespace graphtap::store {

Status write_safetensors(FileOps& ops, const StoreReader& reader, const std::filesystem::path& path,
                         const FileContent& content, std::vector<std::uint64_t>& checksums) {
  const Result<std::string> head = safetensors_head(content.entries, content.document);
  if (!head.ok()) return head.status();
  const int fd = ops.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) return system_error(errno, "creating", path);
  const File file(ops, fd);
  off_t at = 0;
  const auto write = [&](std::span<const std::byte> bytes) -> Status {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    if (write_fully(file, std::span(&part, 1), at) != 0)
      return system_error(errno, "writing", path);
    at += static_cast<off_t>(bytes.size());
    return {};
  };
  if (Status s = write(std::as_bytes(std::span(head.value()))); !s.ok()) return s;
  for (const FiledTensor& tensor : content.tensors) {
    TensorStream stream(reader, tensor, content.buffer_bytes);
    for (;;) {
      const auto bytes = stream.next();
      if (!bytes.ok()) return bytes.status();
      if (bytes.value().empty()) break;
      if (Status s = write(bytes.value()); !s.ok()) return s;
      if (!content.progress(stream.rows(), bytes.value().size())) {
        return {Code::timeout, "stopped"};
      }
    }
    checksums.push_back(stream.checksum());
  }
  if (ops.sync_data(fd) != 0) return system_error(errno, "syncing", path);
  return {};
}

}  // namespace graphtap::store
