#include "store/sections.hpp"

#include <limits>

namespace graphtap::store {

std::optional<Sections> Sections::parse(std::span<const std::byte> meta) {
  SectionTableHead head{};
  if (meta.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, meta.data(), sizeof(head));
  if (head.count > (meta.size() - sizeof(head)) / sizeof(SectionEntry)) return std::nullopt;
  const Table<SectionEntry> table(meta.data() + sizeof(head), head.count, sizeof(SectionEntry));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const SectionEntry entry = table[i];
    // 32-bit fields: neither the product nor the sum can wrap around in 64 bits.
    const std::uint64_t bytes = std::uint64_t{entry.count} * entry.entry_bytes;
    if (entry.entry_bytes == 0 || entry.offset % 8 != 0 || entry.offset + bytes > meta.size()) {
      return std::nullopt;
    }
  }
  return Sections(meta, table);
}

std::optional<SectionEntry> Sections::find(Section id) const noexcept {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const SectionEntry entry = table_[i];
    if (entry.id == static_cast<std::uint16_t>(id)) return entry;
  }
  return std::nullopt;
}

std::span<const std::byte> Sections::bytes(Section id) const noexcept {
  const std::optional<SectionEntry> entry = find(id);
  if (!entry || entry->entry_bytes != 1) return {};
  return meta_.subspan(entry->offset, entry->count);
}

void SectionWriter::add(Section id, std::size_t entry_bytes, std::size_t count,
                        std::span<const std::byte> bytes) {
  pending_.push_back({id, entry_bytes, count, bytes});
}

std::optional<std::span<const std::byte>> SectionWriter::finish() {
  std::uint64_t total = sizeof(SectionTableHead) + pending_.size() * sizeof(SectionEntry);
  for (const Pending& section : pending_) total += align_up(section.bytes.size());
  total = align_up(total);
  if (total > std::numeric_limits<std::uint32_t>::max() - kAlign) {
    pending_.clear();
    return std::nullopt;
  }
  buffer_.assign(total, std::byte{0});
  const SectionTableHead head{static_cast<std::uint32_t>(pending_.size()), 0, 0};
  std::memcpy(buffer_.data(), &head, sizeof(head));
  std::byte* table = buffer_.data() + sizeof(head);
  std::size_t offset = sizeof(head) + pending_.size() * sizeof(SectionEntry);
  for (const Pending& section : pending_) {
    const SectionEntry entry{
        static_cast<std::uint16_t>(section.id), static_cast<std::uint16_t>(section.entry_bytes),
        static_cast<std::uint32_t>(section.count), static_cast<std::uint32_t>(offset), 0};
    std::memcpy(table, &entry, sizeof(entry));
    table += sizeof(entry);
    std::memcpy(buffer_.data() + offset, section.bytes.data(), section.bytes.size());
    offset += align_up(section.bytes.size());
  }
  pending_.clear();
  return std::span<const std::byte>(buffer_);
}

}  // namespace graphtap::store
