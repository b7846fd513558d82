#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "store/format.hpp"
#include "store/sections.hpp"

namespace graphtap::store {

/// A frame in a mapped segment.
struct Frame {
  FrameHead head{};
  std::uint64_t bytes = 0;  // head to commit
  std::span<const std::byte> meta;
  std::span<const std::byte> payload;
  Table<std::uint64_t> checksums;  // of records
};

enum class FrameState : std::uint8_t {
  whole,          ///< committed, and its head, meta and tail match their checksums
  bad_head,       ///< no frame begins here
  past_end,       ///< a frame begins here and the file ends before it does
  not_committed,  ///< a frame begins here, but its end is not (yet) written, or damaged
  bad_meta,       ///< committed, but its meta does not match its checksum
};

/// What a state other than `whole` means where a frame should be.
[[nodiscard]] const char* describe(FrameState state) noexcept;

/// Looks for a frame at `offset` of a segment. Payload checksums are not computed. `out` is filled
/// as far as the state allows: all but `meta` for bad_meta, head and bytes for past_end and
/// not_committed.
[[nodiscard]] FrameState read_frame(std::span<const std::byte> file, std::uint64_t offset,
                                    std::uint64_t nonce, Frame& out);

/// The next offset ≥ `from` at which a frame begins; the file's size if there is none.
[[nodiscard]] std::uint64_t find_frame(std::span<const std::byte> file, std::uint64_t from,
                                       std::uint64_t nonce);

}  // namespace graphtap::store
