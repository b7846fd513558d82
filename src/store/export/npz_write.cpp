#ifndef GRAPHTAP_NO_NPZ  // else npz_none.cpp
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "store/export/npy.hpp"
#include "store/export/stream.hpp"
#include "store/export/zip.hpp"

namespace graphtap::store {
namespace {

// libzip calls back for every byte it reads or writes, so that files are written by FileOps alone
// and tensors never lie in memory as a whole. Both sides keep the Status that libzip cannot carry.

zip_int64_t command_bitmap(std::initializer_list<zip_source_cmd_t> commands) {
  zip_int64_t bitmap = 0;
  for (const zip_source_cmd_t command : commands)
    bitmap |= ZIP_SOURCE_MAKE_COMMAND_BITMASK(command);
  return bitmap;
}

/// What the archive is written to.
class Destination {
 public:
  Destination(FileOps& ops, const std::filesystem::path& path) : ops_(ops), path_(path) {
    zip_error_init(&error_);
  }
  ~Destination() { zip_error_fini(&error_); }
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  static zip_int64_t call(void* self, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    return static_cast<Destination*>(self)->on(data, size, command);
  }
  [[nodiscard]] const Status& status() const noexcept { return status_; }

 private:
  zip_int64_t on(void* data, zip_uint64_t size, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return command_bitmap(
            {ZIP_SOURCE_SUPPORTS, ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
             ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
             ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE,
             ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_REMOVE});
      case ZIP_SOURCE_STAT:  // a new archive: there is nothing to read
        zip_error_set(&error_, ZIP_ER_READ, ENOENT);
        return -1;
      case ZIP_SOURCE_BEGIN_WRITE: {
        const int fd = ops_.open(path_, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0) return fail("creating");
        file_.emplace(ops_, fd);
        return 0;
      }
      case ZIP_SOURCE_WRITE: {
        iovec part{data, size};
        if (write_fully(*file_, std::span(&part, 1), static_cast<off_t>(at_)) != 0) {
          return fail("writing");
        }
        at_ += size;
        end_ = std::max(end_, at_);
        return static_cast<zip_int64_t>(size);
      }
      case ZIP_SOURCE_SEEK_WRITE: {
        const zip_int64_t to = zip_source_seek_compute_offset(at_, end_, data, size, &error_);
        if (to < 0) return -1;
        at_ = static_cast<zip_uint64_t>(to);
        return 0;
      }
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(at_);
      case ZIP_SOURCE_COMMIT_WRITE:
        if (ops_.sync_data(file_->fd()) != 0) return fail("syncing");
        file_.reset();
        return 0;
      case ZIP_SOURCE_ROLLBACK_WRITE:
        file_.reset();
        return 0;
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, size);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
      case ZIP_SOURCE_REMOVE:
        return 0;
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }
  zip_int64_t fail(std::string_view doing) {
    const int error = errno;
    status_ = system_error(error, doing, path_);
    zip_error_set(&error_, ZIP_ER_WRITE, error);
    return -1;
  }

  FileOps& ops_;
  const std::filesystem::path path_;
  std::optional<File> file_;
  zip_uint64_t at_ = 0, end_ = 0;
  Status status_;
  zip_error_t error_{};
};

/// One .npy member: its head, then the tensor's rows.
class Member {
 public:
  Member(const StoreReader& reader, const FileContent& content, std::size_t index)
      : reader_(reader),
        content_(content),
        index_(index),
        head_(npy_head(content.entries[index].dtype, content.entries[index].shape)) {
    zip_error_init(&error_);
  }
  ~Member() { zip_error_fini(&error_); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  static zip_int64_t call(void* self, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    return static_cast<Member*>(self)->on(data, size, command);
  }
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_; }

 private:
  zip_int64_t on(void* data, zip_uint64_t size, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return command_bitmap({ZIP_SOURCE_SUPPORTS, ZIP_SOURCE_OPEN, ZIP_SOURCE_READ,
                               ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
                               ZIP_SOURCE_FREE});
      case ZIP_SOURCE_STAT: {
        auto* stat = static_cast<zip_stat_t*>(data);
        zip_stat_init(stat);
        stat->size = head_.size() + content_.entries[index_].bytes;
        stat->valid = ZIP_STAT_SIZE;
        return sizeof(*stat);
      }
      case ZIP_SOURCE_OPEN:
        stream_.emplace(reader_, content_.tensors[index_], content_.buffer_bytes);
        rest_ = std::as_bytes(std::span(head_));
        return 0;
      case ZIP_SOURCE_READ:
        return read(static_cast<std::byte*>(data), size);
      case ZIP_SOURCE_CLOSE:
        if (stream_) checksum_ = stream_->checksum();
        stream_.reset();
        return 0;
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, size);
      case ZIP_SOURCE_FREE:
        return 0;
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }
  zip_int64_t read(std::byte* out, zip_uint64_t size) {
    if (rest_.empty()) {
      const auto next = stream_->next();
      if (!next.ok()) return fail(next.status());
      rest_ = next.value();
      if (!rest_.empty() && !content_.progress(stream_->rows(), rest_.size())) {
        return fail({Code::timeout, "stopped"});
      }
    }
    const std::size_t count = std::min<std::size_t>(size, rest_.size());
    if (count > 0) std::memcpy(out, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return static_cast<zip_int64_t>(count);
  }
  zip_int64_t fail(Status status) {
    status_ = std::move(status);
    zip_error_set(&error_, ZIP_ER_READ, EIO);
    return -1;
  }

  const StoreReader& reader_;
  const FileContent& content_;
  const std::size_t index_;
  const std::string head_;
  std::optional<TensorStream> stream_;
  std::span<const std::byte> rest_;
  std::uint64_t checksum_ = 0;
  Status status_;
  zip_error_t error_{};
};

// 1980-01-01, the first day that zip knows: the same export gives the same file.
constexpr zip_uint16_t kFirstDay = (1 << 5) | 1;

Status add(zip_t* archive, const std::string& name, zip_source_t* source, bool compress) {
  if (!source) return {Code::exhausted, zip_strerror(archive)};
  const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return {Code::io_error, fmt::format("adding {}: {}", name, zip_strerror(archive))};
  }
  const auto place = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(archive, place, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, place, 0, kFirstDay, 0) != 0) {
    return {Code::io_error, fmt::format("adding {}: {}", name, zip_strerror(archive))};
  }
  return {};
}

}  // namespace

Status write_npz(FileOps& ops, const StoreReader& reader, const std::filesystem::path& path,
                 const FileContent& content, std::vector<std::uint64_t>& checksums) {
  // The archive goes before what it calls back.
  Destination destination(ops, path);
  std::deque<Member> members;
  ZipError error;
  zip_source_t* target = zip_source_function_create(Destination::call, &destination, error.get());
  if (!target) return {Code::exhausted, fmt::format("{}: {}", path.string(), error.text())};
  ZipArchive archive(zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, error.get()));
  if (!archive) {
    zip_source_free(target);
    return {Code::io_error, fmt::format("{}: {}", path.string(), error.text())};
  }
  zip_t* zip = archive.get();
  if (Status s = add(zip, kDocumentMember,
                     zip_source_buffer(zip, content.document.data(), content.document.size(), 0),
                     content.compress);
      !s.ok()) {
    return s;
  }
  for (std::size_t i = 0; i < content.tensors.size(); ++i) {
    members.emplace_back(reader, content, i);
    if (Status s = add(zip, content.entries[i].name + kArraySuffix,
                       zip_source_function(zip, Member::call, &members.back()), content.compress);
        !s.ok()) {
      return s;
    }
  }
  if (zip_close(zip) != 0) {
    const std::string why = zip_strerror(zip);
    for (const Member& member : members) {
      if (!member.status().ok()) return member.status();
    }
    if (!destination.status().ok()) return destination.status();
    return {Code::io_error, fmt::format("writing {}: {}", path.string(), why)};
  }
  static_cast<void>(archive.release());  // closed is freed
  for (const Member& member : members) checksums.push_back(member.checksum());
  return {};
}

}  // namespace graphtap::store
#endif
