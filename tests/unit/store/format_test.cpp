#include <gtest/gtest.h>

#include <cstring>

#include "store/layout.hpp"
#include "store/sections.hpp"
#include "store/segment.hpp"
#include "store/segment_writer.hpp"
#include "unit/store/support/places.hpp"
#include "unit/store/support/steps.hpp"

namespace graphtap::store_test {
namespace {

using store::Section;
using store::Sections;
using store::SectionWriter;

TEST(StoreFormat, E_SectionsComeBackAndThoseThatDoNotFitAreRefused) {
  const std::vector<std::uint64_t> words{1, 2, 3};
  const std::vector<std::byte> text(5, std::byte{'x'});
  SectionWriter writer;
  writer.add(Section::wanted, std::span(words));
  writer.add(Section::strings, std::span<const std::byte>(text));
  const auto meta = writer.finish();
  ASSERT_TRUE(meta);
  EXPECT_EQ(meta->size() % 16, 0u);
  const auto sections = Sections::parse(*meta);
  ASSERT_TRUE(sections);
  const auto back = sections->get<std::uint64_t>(Section::wanted);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back[2], 3u);
  EXPECT_EQ(sections->bytes(Section::strings).size(), 5u);
  EXPECT_TRUE(sections->get<store::SliceEntry>(Section::slices).empty());
  for (std::size_t at = 0; at < 16 + 2 * sizeof(store::SectionEntry); ++at) {
    std::vector<std::byte> bad(meta->begin(), meta->end());
    bad[at] = std::byte{0xff};
    const auto parsed = Sections::parse(bad);
    // Some bytes are reserved or shrink an entry; what was taken must lie inside.
    if (parsed) {
      EXPECT_LE(parsed->bytes(Section::strings).size(), bad.size());
    }
  }
  for (std::size_t size = 0; size < meta->size(); ++size) {
    const auto parsed = Sections::parse(meta->first(size));
    if (size < 16 + 2 * sizeof(store::SectionEntry)) {
      EXPECT_FALSE(parsed) << size;
    }
  }
}

TEST(StoreFormat, E_EntriesOfANewerMinorVersionMayBeLonger) {
  struct Longer {
    store::SliceEntry slice;
    std::uint64_t more;
  };
  const std::vector<Longer> entries{{{1, 10, 0, 2, 1, {}}, 77}, {{2, 20, 2, 3, 0, {}}, 88}};
  SectionWriter writer;
  writer.add(Section::slices, std::span(entries));
  const auto meta = writer.finish();
  const auto table = Sections::parse(*meta)->get<store::SliceEntry>(Section::slices);
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[1].request, 2u);
  EXPECT_EQ(table[1].rows, 3u);
  // And those of an older one shorter: what it did not have reads as zero.
  const std::vector<std::uint64_t> old{5, 6};
  writer.add(Section::slices, std::span(old));
  const auto shorter = Sections::parse(*writer.finish())->get<store::SliceEntry>(Section::slices);
  EXPECT_EQ(shorter[1].request, 6u);
  EXPECT_EQ(shorter[1].rows, 0u);
}

TEST(StoreFormat, E_FramesOfAKindNobodyKnowsArePassedOver) {
  const HookTable table = small_table();
  const TempDir dir;
  {
    const auto sink = open_store(dir.store(), table);
    ASSERT_OK(sink->write(make_step(table, 1, make_request(1, "a"), 0, 1, {0}).delivered(table)));
  }
  // A segment of a run of its own, in which a frame from the future stands between two steps.
  const auto source = store::Segment::open({dir.store()}, 1).value_or_throw();
  store::SegmentIdentity identity;
  std::memcpy(identity.run_id.data(), source->head().run_id, sizeof(identity.run_id));
  identity.run_number = 1;
  auto writer =
      store::SegmentWriter::create(store::FileOps::posix(), {dir.store()}, identity, 2, 1 << 20)
          .value_or_throw();
  for (std::size_t i = 0; i < source->directory().frames(); ++i) {
    store::Frame frame;
    ASSERT_EQ(source->frame(source->directory().frame(i), frame), store::FrameState::whole);
    const std::vector<std::byte> unknown(48, std::byte{0xee});
    ASSERT_OK(writer->append(static_cast<store::FrameKind>(77), unknown));
    std::vector<std::span<const std::byte>> payloads;
    if (frame.head.checksums > 0) payloads.push_back(frame.payload.first(16));
    ASSERT_OK(writer->append(static_cast<store::FrameKind>(frame.head.kind), frame.meta, payloads));
  }
  const auto reader = read_store(dir.store());
  EXPECT_EQ(tickets(*reader), (std::vector<std::uint64_t>{1, 1}));
  EXPECT_TRUE(reader->findings().empty()) << describe(reader->findings());
}

TEST(StoreFormat, D6_SpansAreSharedByTheRecordsOfAStep) {
  // 64 requests in 36 hooks: the rows of requests are described once, not 36 times.
  HookTable table("wide");
  std::vector<HookId> hooks;
  for (int layer = 0; layer < 36; ++layer) {
    hooks.push_back(table.add({"resid_pre", layer, DType::u8, {16}, 1, 1}).value_or_throw());
  }
  std::vector<Slice> slices;
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 64; ++i) {
    requests.push_back(make_request(i + 1, "request " + std::to_string(i)));
    slices.push_back({requests.back(), 100, i, 1, RowFlags::none});
  }
  OwnedStep step;
  step.wanted = HookSet::of(table.size(), hooks);
  for (HookId hook : hooks) step.records.push_back(make_record(table, hook, slices, hook));
  const TempDir dir;
  const auto sink = open_store(dir.store(), table);
  std::uintmax_t before = 0;
  std::uintmax_t size = 0;
  for (std::uint64_t ticket = 1; ticket <= 100; ++ticket) {
    step.ticket = step.step = ticket;
    for (OwnedRecord& record : step.records) {
      for (Slice& slice : record.slices) ++slice.first_token;
    }
    ASSERT_OK(sink->write(step.delivered(table)));
    size = std::filesystem::file_size(segment_files(dir.store())[0]);
    if (ticket == 1) before = size;
  }
  const std::uintmax_t a_step = (size - before) / 99;
  EXPECT_LT(a_step, 36u * 64 * 16 + 64 * 40 + 36 * 64 + 512)
      << "payload, one list of slices, records";
  ASSERT_OK(sink->close());
  // And in the index a request's hundred steps are one row.
  const auto segment = store::Segment::open({dir.store()}, 1).value_or_throw();
  EXPECT_EQ(segment->directory().ranges(), 64u);
  EXPECT_EQ(segment->directory().range(0).frames, 100u);
}

TEST(StoreFormat, E_NamesOfSegmentsHaveOneSpelling) {
  const TempDir dir;
  const store::Layout layout{dir.path()};
  std::filesystem::create_directory(layout.segments());
  for (const char* name : {"000001.gts", "1.gts", "000000.gts", "0000002.gts", "1234567.gts",
                           "x.gts", "000003.gts.tmp", "000004", "-00001.gts"}) {
    write_bytes(layout.segments() / name, {});
  }
  EXPECT_EQ(store::list_segments(layout).value_or_throw(),
            (std::vector<std::uint64_t>{1, 1234567}));
  EXPECT_EQ(store::segment_name(1234567), "segments/1234567.gts");
}

TEST(StoreFormat, D6_IdsComeBackFromHex) {
  const store::Id id = store::random_id();
  EXPECT_EQ(store::id_from_hex(store::to_hex(id)), id);
  EXPECT_NE(store::random_id(), id);
  EXPECT_FALSE(store::id_from_hex("zz" + store::to_hex(id).substr(2)));
  EXPECT_FALSE(store::id_from_hex("+1" + store::to_hex(id).substr(2)));
  EXPECT_FALSE(store::id_from_hex(store::to_hex(id) + "00"));
}

}  // namespace
}  // namespace graphtap::store_test
