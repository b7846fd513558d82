#include "store/export/exporter.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/near_match.hpp"
#include "store/export/npy.hpp"
#include "store/export/safetensors.hpp"
#include "store/export/tensor_file.hpp"

namespace graphtap {

const char* to_string(ExportFormat format) noexcept {
  return format == ExportFormat::npz ? "npz" : "safetensors";
}

Result<ExportReport> export_store(const StoreReader& reader, const Query& query,
                                  const std::filesystem::path& to, const ExportOptions& options) {
  return store::Exporter(store::FileOps::posix(), reader, query, options).run(to);
}

}  // namespace graphtap

namespace graphtap::store {
namespace {

namespace fs = std::filesystem;

// What a tensor takes in a header besides its name: bounds the header of a file, not exactly.
constexpr std::uint64_t kHeaderBytes = 600, kHeaderBytesOfRange = 120;
constexpr std::uint64_t kFullHeader = kMostHeader / 2;
constexpr std::size_t kReadAtOnce = 8 << 20;

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

TensorEntry entry_of(const FiledTensor& tensor) {
  TensorEntry entry;
  entry.name = tensor.planned->name;
  entry.dtype = tensor.stored_as;
  entry.shape = tensor.planned->shape();
  static_cast<void>(tensor_bytes(entry.dtype, entry.shape, entry.bytes));
  return entry;
}

Status does_not_read_back(const fs::path& path, std::string_view why) {
  return {Code::io_error,
          fmt::format("{} does not read back as it was written: {}", path.string(), why)};
}

}  // namespace

Exporter::Exporter(FileOps& ops, const StoreReader& reader, const Query& query,
                   const ExportOptions& options)
    : ops_(ops),
      reader_(reader),
      query_(query),
      options_(options),
      store_id_(to_hex(reader.core_->manifest().store_id)) {}

Result<ExportReport> Exporter::run(const fs::path& to) {
  Result<ExportTarget> target = ExportTarget::of(to, options_.format);
  if (!target.ok()) return target.status();
  target_ = std::move(target).value();
  if (options_.format == ExportFormat::npz && !has_npz()) {
    return Status(Code::unsupported, "this build has no npz (it lacks libzip); use safetensors");
  }
  Result<ExportPlan> plan = plan_export(*reader_.core_, query_);
  if (!plan.ok()) return plan.status();
  plan_ = std::move(plan).value();
  if (plan_.tensors.empty()) {
    return Status(
        Code::not_found,
        plan_.unattributed_rows > 0
            ? fmt::format("nothing to export: the {} rows that match belong to no request",
                          plan_.unattributed_rows)
            : std::string("nothing to export: no such token was captured while that hook "
                          "was enabled"));
  }
  split();
  add_up();
  if (Status s = begin(to); !s.ok()) return s;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const Status status = write_file(i);
    if (report_.stopped) return std::move(report_);
    if (!status.ok()) return status;
  }
  if (Status s = finish(); !s.ok()) return s;
  return std::move(report_);
}

/// Fills files in the plan's order; inside a file wide types come first, so that every tensor is
/// aligned to its type.
void Exporter::split() {
  std::uint64_t header = 0;
  for (const PlannedTensor& planned : plan_.tensors) {
    const DType dtype = planned.hook->dtype;
    FiledTensor tensor{&planned, dtype};
    if (options_.float32 && can_widen(dtype)) {
      tensor.stored_as = DType::f32;
    } else if (options_.format == ExportFormat::npz) {
      tensor.stored_as = numpy_dtype(dtype);
    }
    const std::uint64_t bytes = entry_of(tensor).bytes;
    const std::uint64_t words =
        2 * planned.name.size() + kHeaderBytes + kHeaderBytesOfRange * planned.missing.size();
    const bool full = !files_.empty() && (files_.back().bytes + bytes > options_.max_file_bytes ||
                                          header + words > kFullHeader);
    if (files_.empty() || full) {
      files_.emplace_back();
      header = 0;
    }
    header += words;
    files_.back().tensors.push_back(tensor);
    files_.back().bytes += bytes;
    files_.back().rows += planned.rows();
  }
  for (PlannedFile& file : files_) {
    std::stable_sort(file.tensors.begin(), file.tensors.end(),
                     [](const FiledTensor& a, const FiledTensor& b) {
                       return size_of(a.stored_as) > size_of(b.stored_as);
                     });
  }
}

void Exporter::add_up() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    report_.files.push_back(target_.file(i, files_.size()));
    report_.tensors += files_[i].tensors.size();
    report_.rows += files_[i].rows;
    report_.bytes += files_[i].bytes;
  }
  if (files_.size() > 1) report_.index = target_.index();
  for (const PlannedTensor& tensor : plan_.tensors) {
    for (const MissingTokens& range : tensor.missing) {
      report_.missing_rows += static_cast<std::uint64_t>(range.tokens.end - range.tokens.begin);
    }
  }
  report_.unattributed_rows = plan_.unattributed_rows;
  progress_.all_rows = report_.rows;
  progress_.all_bytes = report_.bytes;
  progress_.files = files_.size();
}

/// Makes sure that the place may be written to, and takes over what is there already.
Status Exporter::begin(const fs::path& to) {
  state_.store = store_id_;
  state_.query = query_text(query_);
  state_.options = fmt::format("{}{}{}, {} bytes a file", to_string(options_.format),
                               options_.compress ? ", compressed" : "",
                               options_.float32 ? ", float32" : "", options_.max_file_bytes);
  state_.digest = hex(plan_.digest);
  std::error_code ignored;
  if (!fs::is_directory(target_.directory, ignored)) {
    if (!target_.folder) {
      return {Code::not_found, fmt::format("--to {}: there is no directory {}", to.string(),
                                           target_.directory.string())};
    }
    if (ops_.make_directory(target_.directory) != 0 && errno != EEXIST) {
      return system_error(errno, "making", target_.directory);
    }
  }
  const Result<std::optional<ExportState>> there = ExportState::read(target_.state());
  if (!there.ok() && !options_.overwrite) return there.status();
  if (there.ok() && there.value()) {
    const std::string difference = there.value()->difference(state_);
    if (difference.empty()) {
      state_.finished = there.value()->finished;
      return {};
    }
    if (!options_.overwrite) {
      return {Code::invalid_argument,
              fmt::format("{} is of an export that did not end, and {}; --overwrite begins anew",
                          target_.state().string(), difference)};
    }
  } else if (!options_.overwrite) {
    const auto existing = target_.existing();
    if (!existing.ok()) return existing.status();
    if (!existing.value().empty()) {
      return {Code::invalid_argument, fmt::format("{} is there already (--to {}); --overwrite "
                                                  "replaces it",
                                                  existing.value().front().string(), to.string())};
    }
  }
  return state_.write(ops_, target_.state());
}

bool Exporter::tell() {
  if (!options_.progress || options_.progress(progress_)) return true;
  report_.stopped = true;
  return false;
}

Status Exporter::write_file(std::size_t index) {
  const PlannedFile& file = files_[index];
  const fs::path& path = report_.files[index];
  const std::string name = path.filename().string();
  progress_.file = index + 1;
  progress_.verifying = false;
  for (const ExportState::Finished& finished : state_.finished) {
    std::error_code error;
    if (finished.name != name || fs::file_size(path, error) != finished.bytes || error) continue;
    progress_.rows += file.rows;
    progress_.bytes += file.bytes;
    progress_.resumed_bytes += file.bytes;
    ++report_.kept_files;
    return {};
  }
  FileContent content;
  content.tensors = file.tensors;
  for (const FiledTensor& tensor : file.tensors) content.entries.push_back(entry_of(tensor));
  content.compress = options_.compress;
  content.buffer_bytes = options_.buffer_bytes;
  content.progress = [this](std::uint64_t rows, std::uint64_t bytes) {
    progress_.rows += rows;
    progress_.bytes += bytes;
    return tell();
  };
  Result<std::string> document = document_text(store_id_, query_, file.tensors);
  if (!document.ok()) return document.status();
  content.document = std::move(document).value();

  fs::path part = path;
  part += ".part";
  if (Status s = write_content(part, content); !s.ok()) {
    ops_.unlink(part);
    return s;
  }
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(part, error);
  if (ops_.rename(part, path) != 0) {
    const int number = errno;
    ops_.unlink(part);
    return system_error(number, "renaming", part);
  }
  if (Status s = sync_directory(ops_, target_.directory); !s.ok()) return s;
  std::erase_if(state_.finished, [&](const auto& finished) { return finished.name == name; });
  state_.finished.push_back({name, bytes});
  ++report_.written_files;
  return state_.write(ops_, target_.state());
}

Status Exporter::write_content(const fs::path& path, FileContent& content) {
  std::vector<std::uint64_t> checksums;
  const auto write = options_.format == ExportFormat::npz ? write_npz : write_safetensors;
  if (Status s = write(ops_, reader_, path, content, checksums); !s.ok()) return s;
  return options_.verify ? verify(path, content, checksums) : Status{};
}

Status Exporter::verify(const fs::path& path, const FileContent& content,
                        const std::vector<std::uint64_t>& checksums) {
  if (const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC); fd >= 0) {
    // It was synced: without the cached pages it is the disk that answers.
    static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    ::close(fd);
  }
  auto file = open_tensor_file(path);
  if (!file.ok()) return does_not_read_back(path, file.status().message());
  const std::vector<TensorEntry>& tensors = file.value()->tensors();
  if (file.value()->document() != content.document || tensors.size() != content.entries.size()) {
    return does_not_read_back(path, "its description differs");
  }
  progress_.verifying = true;
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorEntry& wanted = content.entries[i];
    if (tensors[i].name != wanted.name || tensors[i].dtype != wanted.dtype ||
        tensors[i].shape != wanted.shape) {
      return does_not_read_back(path, "the description of " + in_quotes(wanted.name) + " differs");
    }
    RunningChecksum checksum;
    for (std::uint64_t at = 0; at < wanted.bytes; at += buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(kReadAtOnce, wanted.bytes - at));
      if (Status s = file.value()->read(i, buffer); !s.ok()) {
        return does_not_read_back(path, s.message());
      }
      checksum.add(buffer);
      if (!tell()) return {Code::timeout, "stopped"};
    }
#ifdef GRAPHTAP_BUG_export_never_compares
    static_cast<void>(checksums);
    const bool differs = false;
#else
    const bool differs = checksum.value() != checksums[i];
#endif
    if (differs) {
      return does_not_read_back(path, "the bytes of " + in_quotes(wanted.name) + " differ");
    }
  }
  progress_.verifying = false;
  return {};
}

/// The index, and nothing left of exports before this one.
Status Exporter::finish() {
  if (files_.size() > 1) {
    nlohmann::json map = nlohmann::json::object();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      for (const FiledTensor& tensor : files_[i].tensors) {
        map[tensor.planned->name] = report_.files[i].filename().string();
      }
    }
    const nlohmann::json index{{"metadata", {{"total_size", report_.bytes}}}, {"weight_map", map}};
    if (Status s = replace_file(ops_, target_.index(), index.dump(2) + "\n"); !s.ok()) return s;
  } else {
    ops_.unlink(target_.index());
  }
  const auto existing = target_.existing();
  if (!existing.ok()) return existing.status();
  for (const fs::path& path : existing.value()) {
    if (std::find(report_.files.begin(), report_.files.end(), path) == report_.files.end()) {
      ops_.unlink(path);
    }
  }
  if (Status s = sync_directory(ops_, target_.directory); !s.ok()) return s;
  // Left behind it would do no harm: the same call finds everything finished.
  ops_.unlink(target_.state());
  return {};
}

}  // namespace graphtap::store
