#pragma once
// The bytes of a segment, as docs/store-format.md describes them. Plain structs that are stored as
// they lie in memory: little-endian, no padding the compiler could choose, multiples of 8 bytes.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace graphtap::store {

static_assert(std::endian::native == std::endian::little, "segments are stored little-endian");

inline constexpr std::uint16_t kMajor = 1;  // a reader refuses a higher one
inline constexpr std::uint16_t kMinor = 1;  // a reader takes a higher one: it only adds

inline constexpr std::uint64_t kAlign =
    16;  // of frames, of their parts, and of every record's payload
[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t bytes) noexcept {
  return (bytes + kAlign - 1) & ~(kAlign - 1);
}

inline constexpr unsigned char kSegmentMagic[8] = {'G', 'T', 'S', 'E', 'G', 0x1a, '\r', '\n'};
inline constexpr std::uint32_t kFrameMagic = 0x52465447;           // "GTFR"
inline constexpr std::uint64_t kCommitMagic = 0x54494d4d4f435447;  // "GTCOMMIT"

/// The first bytes of a segment file.
struct SegmentHead {
  unsigned char magic[8];
  std::uint16_t major, minor;
  std::uint32_t head_bytes;  // where the first frame begins
  std::uint64_t number;      // of the segment, as in its file name
  unsigned char run_id[16];
  std::uint32_t run_number;
  std::uint32_t reserved;
  std::uint64_t nonce;  // random; every frame of the segment repeats it
  std::int64_t created_unix_ns;
  unsigned char store_id[16];
  std::uint64_t reserved2;
  std::uint64_t checksum;  // xxh3 of the bytes before
};
static_assert(sizeof(SegmentHead) == 96);

enum class FrameKind : std::uint16_t { run = 1, step = 2, event = 3, footer = 4 };

/// Head of a frame. Behind it: meta, payload, tail, FrameCommit; each begins at a multiple of 16.
struct FrameHead {
  std::uint32_t magic;
  std::uint16_t kind;
  std::uint16_t flags;  // none yet
  std::uint64_t nonce;
  std::uint64_t offset;    // of this head in its file: a frame copied elsewhere is none
  std::uint32_t sequence;  // frames before it in the segment
  std::uint32_t meta_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t tail_bytes;
  std::uint32_t checksums;  // 64-bit payload checksums at the beginning of the tail, one a record
  std::uint64_t meta_checksum;  // xxh3 of the meta
  std::uint64_t checksum;       // xxh3 of the head's bytes before
};
static_assert(sizeof(FrameHead) == 64);

/// The end of a frame: written last, so that a frame with it is whole.
struct FrameCommit {
  std::uint64_t magic;
  std::uint64_t frame_bytes;    // head to commit, both included
  std::uint64_t tail_checksum;  // xxh3 of the tail
  std::uint64_t checksum;  // xxh3 of the commit's bytes before, seeded with the head's checksum
};
static_assert(sizeof(FrameCommit) == 32);

// A meta is a table of sections and the sections themselves.

enum class Section : std::uint16_t {
  step = 1,          // StepHead, one
  wanted = 2,        // u64 words of a bitset over hook ids
  requests = 3,      // RequestEntry: those the segment has not named before (footer: all)
  strings = 4,       // bytes that RequestEntry points into
  slice_lists = 5,   // SliceList: what records and gaps share
  slices = 6,        // SliceEntry
  records = 7,       // RecordEntry, in payload order
  gaps = 8,          // GapEntry
  events = 9,        // EventEntry (event frame: one; footer: all)
  run = 10,          // bytes: JSON
  frames = 11,       // FrameEntry (footer), by sequence
  ranges = 12,       // RangeEntry (footer), by request and first frame
  hook_totals = 13,  // HookTotalEntry (footer)
  gap_totals = 14,   // GapTotalEntry (footer)
};

struct SectionTableHead {
  std::uint32_t count;  // of SectionEntry behind it
  std::uint32_t reserved;
  std::uint64_t reserved2;
};
static_assert(sizeof(SectionTableHead) == 16);

struct SectionEntry {
  std::uint16_t id;
  std::uint16_t entry_bytes;  // a newer minor version may append fields to an entry
  std::uint32_t count;
  std::uint32_t offset;  // from the beginning of the meta; a multiple of 8
  std::uint32_t reserved;
};
static_assert(sizeof(SectionEntry) == 16);

struct StepHead {
  std::uint64_t ticket;
  std::uint64_t step;
  std::uint64_t set_version;
  std::int64_t end_unix_ns;
  std::uint32_t lane;
  std::uint32_t part;
  std::uint8_t kind;  // StepKind
  std::uint8_t reserved[3];
  std::uint32_t hooks;  // size of the set `wanted`
  std::int32_t ranks[4];
};
static_assert(sizeof(StepHead) == 64);

struct RequestEntry {
  std::uint64_t serial;
  std::int64_t prompt_tokens;
  std::uint32_t id_offset;  // into Section::strings
  std::uint32_t id_bytes;
};
static_assert(sizeof(RequestEntry) == 24);

inline constexpr std::uint32_t kNoSlices = 0xffffffff;

struct SliceList {
  std::uint32_t first;  // index into Section::slices
  std::uint32_t count;
};
static_assert(sizeof(SliceList) == 8);

struct SliceEntry {
  std::uint64_t request;  // serial; 0: unattributed
  std::int64_t first_token;
  std::uint32_t row;
  std::uint32_t rows;
  std::uint8_t flags;  // RowFlags
  std::uint8_t reserved[7];
};
static_assert(sizeof(SliceEntry) == 32);

struct RecordEntry {
  std::uint16_t hook;
  std::uint16_t ordinal;
  std::uint32_t rows;
  std::uint64_t row_bytes;
  std::int64_t columns;
  std::uint64_t offset;  // from the beginning of the frame's payload; a multiple of 16
  std::uint64_t bytes;
  std::uint32_t slices;  // index into Section::slice_lists, or kNoSlices
  std::uint32_t reserved;
};
static_assert(sizeof(RecordEntry) == 48);

struct GapEntry {
  std::uint16_t hook;
  std::uint16_t ordinal;
  std::uint8_t reason;  // GapReason
  std::uint8_t reserved[3];
  std::uint32_t slices;
  std::uint32_t reserved2;
};
static_assert(sizeof(GapEntry) == 16);

struct EventEntry {
  std::uint64_t request;
  std::int64_t begin, end;
  std::uint64_t records, gaps;
  std::uint32_t frame;  // sequence of its event frame
  std::uint8_t kind;    // RequestEvent::Kind
  std::uint8_t valid;
  std::uint8_t reserved[2];
};
static_assert(sizeof(EventEntry) == 48);

struct FrameEntry {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t ticket;  // this and what follows: step frames only
  std::uint64_t step;
  std::uint64_t set_version;
  std::int64_t end_unix_ns;
  std::uint64_t payload_bytes;  // of records, without padding
  std::uint32_t lane;
  std::uint32_t part;
  std::uint32_t records;
  std::uint32_t gaps;
  std::uint16_t kind;  // FrameKind
  std::uint8_t step_kind;
  std::uint8_t reserved[5];
};
static_assert(sizeof(FrameEntry) == 80);

/// Frames [first_frame, last_frame] hold rows or gaps of a request; a few between them may hold
/// none.
struct RangeEntry {
  std::uint64_t request;
  std::int64_t first_token, end_token;  // around all of them
  std::uint32_t first_frame, last_frame;
  std::uint32_t frames;  // that do hold some
  std::uint32_t reserved;
};
static_assert(sizeof(RangeEntry) == 40);

struct HookTotalEntry {
  std::uint64_t records, rows, tokens, bytes;
  std::uint16_t hook;
  std::uint16_t reserved[3];
};
static_assert(sizeof(HookTotalEntry) == 40);

struct GapTotalEntry {
  std::uint64_t count;
  std::uint16_t hook;
  std::uint8_t reason;
  std::uint8_t reserved[5];
};
static_assert(sizeof(GapTotalEntry) == 16);

template <class T>
inline constexpr bool kStorable = std::is_trivially_copyable_v<T>&& std::is_standard_layout_v<T>;

}  // namespace graphtap::store
