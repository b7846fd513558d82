#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "store/format.hpp"

namespace graphtap::store {

/// Entries of one section, read in place. An entry of another version may be longer (the rest is
/// skipped) or shorter (the rest reads as zero). Copies entries out, so that the bytes need no
/// alignment.
template <class T>
class Table {
  static_assert(kStorable<T>);

 public:
  Table() = default;
  Table(const std::byte* data, std::size_t count, std::size_t stride) noexcept
      : data_(data), count_(count), stride_(stride) {}
  explicit Table(std::span<const T> entries) noexcept
      : Table(std::as_bytes(entries).data(), entries.size(), sizeof(T)) {}

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Precondition: index < size().
  [[nodiscard]] T operator[](std::size_t index) const noexcept {
    T entry{};
    const std::byte* source = data_ + index * stride_;
    if (stride_ >= sizeof(T)) {
      std::memcpy(&entry, source, sizeof(T));
    } else {
      std::memcpy(&entry, source, stride_);
    }
    return entry;
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t count_ = 0;
  std::size_t stride_ = sizeof(T);
};

/// A meta that was parsed: every section lies inside it. Borrows the bytes.
class Sections {
 public:
  /// Nothing if the table contradicts the bytes.
  [[nodiscard]] static std::optional<Sections> parse(std::span<const std::byte> meta);

  /// Empty if there is no such section.
  template <class T>
  [[nodiscard]] Table<T> get(Section id) const noexcept {
    const std::optional<SectionEntry> entry = find(id);
    if (!entry) return {};
    return {meta_.data() + entry->offset, entry->count, entry->entry_bytes};
  }
  /// A section of single bytes.
  [[nodiscard]] std::span<const std::byte> bytes(Section id) const noexcept;

 private:
  Sections(std::span<const std::byte> meta, Table<SectionEntry> table)
      : meta_(meta), table_(table) {}
  [[nodiscard]] std::optional<SectionEntry> find(Section id) const noexcept;
  std::span<const std::byte> meta_;
  Table<SectionEntry> table_;
};

/// Builds a meta. Sections are borrowed until finish(); the buffer is kept between uses.
class SectionWriter {
 public:
  template <class T>
  void add(Section id, std::span<const T> entries) {
    static_assert(kStorable<T>);
    if (entries.empty()) return;
    add(id, sizeof(T), entries.size(), std::as_bytes(entries));
  }
  /// The meta, padded to 16 bytes; valid until the next finish(). Nothing if it exceeds 4 GiB.
  [[nodiscard]] std::optional<std::span<const std::byte>> finish();

 private:
  struct Pending {
    Section id;
    std::size_t entry_bytes;
    std::size_t count;
    std::span<const std::byte> bytes;
  };
  void add(Section id, std::size_t entry_bytes, std::size_t count,
           std::span<const std::byte> bytes);
  std::vector<Pending> pending_;
  std::vector<std::byte> buffer_;
};

}  // namespace graphtap::store
