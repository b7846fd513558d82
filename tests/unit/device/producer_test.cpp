#include "device/host/producer.hpp"
#include "device/validate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/small_float.hpp"
#include "device/host/random.hpp"
#include "unit/device/support.hpp"

namespace graphtap {
namespace {

using test::address;
using test::head_at;
using test::HeaderImage;

constexpr std::byte kUntouched{0xEE};
constexpr std::uint64_t kMagic = wire::kMagic ^ 77;

// A frame between two guard zones, and a header with one planned slot.
class Bench {
 public:
  explicit Bench(std::uint32_t slots = 4, std::uint32_t list_entries = 16)
      : header(slots, list_entries), frame_(4096, kUntouched) {
    header.head().ticket = 9;
    header.head().frame = address(frame());
    header.head().magic = kMagic;
    std::fill_n(frame(), wire::census_bytes(header.head().slots), std::byte{0});
  }
  [[nodiscard]] std::byte* frame() { return frame_.data() + 1024; }
  [[nodiscard]] std::byte* payload(std::uint32_t offset16) {
    return frame() + offset16 * wire::kAlign + sizeof(wire::RecordHead);
  }
  [[nodiscard]] std::uint32_t census(std::uint32_t slot) {
    std::uint32_t count = 0;
    std::memcpy(&count, frame() + slot * sizeof(count), sizeof(count));
    return count;
  }
  // Whether nothing was written but [begin, begin + bytes) of the frame and the census before it.
  [[nodiscard]] bool only_touched(std::size_t begin, std::size_t bytes) {
    const std::size_t census_end = 1024 + wire::census_bytes(header.head().slots);
    for (std::size_t i = 0; i < frame_.size(); ++i) {
      const bool inside = i >= 1024 + begin && i < 1024 + begin + bytes;
      const bool counts = i >= 1024 && i < census_end;
      if (!inside && !counts && frame_[i] != kUntouched) return false;
    }
    return true;
  }
  [[nodiscard]] bool untouched() {
    for (std::uint32_t slot = 0; slot < header.head().slots; ++slot) {
      if (census(slot) != 0) return false;
    }
    return only_touched(0, 0);
  }

  ProducerCall call(std::uint32_t slot, const Source& source, DType dtype = DType::u8) {
    ProducerCall result;
    result.id = {3, 1, slot};
    result.source = source;
    result.dtype = dtype;
    result.header = &header.head();
    return result;
  }

  HeaderImage header;

 private:
  std::vector<std::byte> frame_;
};

std::vector<std::uint8_t> numbered(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + 1);
  return bytes;
}
Source rows_of(const std::vector<std::uint8_t>& data, std::uint32_t rows, std::uint64_t row_bytes) {
  Source source;
  source.data = data.data();
  source.rows = rows;
  source.part_bytes = row_bytes;
  source.row_stride = static_cast<std::int64_t>(row_bytes);
  return source;
}

TEST(Producer, B3_WritesHeadAndRowsAndCounts) {
  Bench bench;
  const auto data = numbered(40);
  bench.header.slot(2) = {4, 3, wire::kAllRows, 2};
  run_producer(bench.call(2, rows_of(data, 5, 8)));

  const wire::RecordHead head = head_at(bench.frame() + 64);
  EXPECT_EQ(head.magic, kMagic);
  EXPECT_EQ(head.ticket, 9u);
  EXPECT_EQ(head.hook, 3u);
  EXPECT_EQ(head.ordinal, 1u);
  EXPECT_EQ(head.rows, 3u);
  EXPECT_EQ(head.bytes, 24u);
  EXPECT_EQ(std::memcmp(bench.payload(4), data.data(), 24), 0);
  EXPECT_TRUE(bench.only_touched(64, sizeof(wire::RecordHead) + 24));
  EXPECT_EQ(bench.census(2), 1u);
  run_producer(bench.call(2, rows_of(data, 5, 8)));
  EXPECT_EQ(bench.census(2), 2u);
  EXPECT_EQ(bench.census(1), 0u);
}

TEST(Producer, A5_OffMeansNothingIsWrittenNotEvenTheCensus) {
  const auto data = numbered(40);
  Bench bench;
  bench.header.slot(1) = {4, 3, wire::kAllRows, 2};
  bench.header.head().ticket = 0;
  run_producer(bench.call(1, rows_of(data, 5, 8)));
  EXPECT_TRUE(bench.untouched());
  EXPECT_EQ(bench.census(1), 0u);

  bench.header.head().ticket = 9;
  bench.header.slot(1).offset16 = 0;
  run_producer(bench.call(1, rows_of(data, 5, 8)));
  EXPECT_TRUE(bench.untouched());
  EXPECT_EQ(bench.census(1), 0u);
}

TEST(Producer, A5_ASlotThatTheHeaderDoesNotHaveWritesNothing) {
  Bench bench;
  const auto data = numbered(40);
  for (std::uint32_t i = 0; i < 4; ++i) bench.header.slot(i) = {4, 3, wire::kAllRows, 2};
  run_producer(bench.call(4, rows_of(data, 5, 8)));
  run_producer(bench.call(0xffffffffu, rows_of(data, 5, 8)));
  EXPECT_TRUE(bench.untouched());
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(bench.census(i), 0u);
}

TEST(Producer, A14_PrefixNeverPassesTheSource) {
  Bench bench;
  const auto data = numbered(24);
  bench.header.slot(0) = {2, 100, wire::kAllRows, 100};
  run_producer(bench.call(0, rows_of(data, 3, 8)));
  EXPECT_EQ(head_at(bench.frame() + 32).rows, 3u);
  EXPECT_TRUE(bench.only_touched(32, sizeof(wire::RecordHead) + 24));
}

TEST(Producer, I4_WholeRowsOnlyWithinThePlannedBytes) {
  Bench bench;
  const auto data = numbered(48);
  bench.header.slot(0) = {2, 4, wire::kAllRows, 2};  // 32 bytes planned, rows of 12
  run_producer(bench.call(0, rows_of(data, 4, 12)));
  EXPECT_EQ(head_at(bench.frame() + 32).rows, 2u);
  EXPECT_EQ(head_at(bench.frame() + 32).bytes, 24u);
  EXPECT_TRUE(bench.only_touched(32, sizeof(wire::RecordHead) + 24));
}

TEST(Producer, A14_GathersTheListedRows) {
  Bench bench;
  const auto data = numbered(64);
  bench.header.slot(0) = {2, 3, 5, 10};
  bench.header.list(5) = 1;
  bench.header.list(6) = 4;
  bench.header.list(7) = 7;
  run_producer(bench.call(0, rows_of(data, 8, 8)));
  EXPECT_EQ(head_at(bench.frame() + 32).rows, 3u);
  EXPECT_EQ(std::memcmp(bench.payload(2), &data[8], 8), 0);
  EXPECT_EQ(std::memcmp(bench.payload(2) + 8, &data[32], 8), 0);
  EXPECT_EQ(std::memcmp(bench.payload(2) + 16, &data[56], 8), 0);
}

TEST(Producer, I4_AListBeyondTheSourceOrTheHeaderCopiesNothing) {
  const auto data = numbered(64);
  for (const std::uint32_t first : {13u, 14u}) {  // 13: ends with row 8 of 8; 14: leaves the header
    Bench bench;
    bench.header.slot(0) = {2, 3, first, 10};
    bench.header.list(13) = 1;
    bench.header.list(14) = 2;
    bench.header.list(15) = 8;
    run_producer(bench.call(0, rows_of(data, 8, 8)));
    EXPECT_EQ(head_at(bench.frame() + 32).rows, 0u) << first;
    EXPECT_EQ(head_at(bench.frame() + 32).bytes, 0u) << first;
    EXPECT_TRUE(bench.only_touched(32, sizeof(wire::RecordHead))) << first;
    EXPECT_EQ(bench.census(0), 1u) << first;
  }
}

TEST(Producer, B3_PartsAndNegativeStrides) {
  Bench bench;
  const auto data = numbered(96);
  Source source;
  source.data = &data[80];
  source.rows = 3;
  source.parts = 2;
  source.part_bytes = 4;
  source.part_stride = -8;
  source.row_stride = -32;
  bench.header.slot(0) = {2, 3, wire::kAllRows, 10};
  run_producer(bench.call(0, source));
  ASSERT_EQ(head_at(bench.frame() + 32).bytes, 24u);
  for (int row = 0; row < 3; ++row) {
    for (int part = 0; part < 2; ++part) {
      EXPECT_EQ(std::memcmp(bench.payload(2) + row * 8 + part * 4,
                            &data[static_cast<std::size_t>(80 - 32 * row - 8 * part)], 4),
                0);
    }
  }
}

TEST(Producer, A14_ChunksAreClampedAndPacked) {
  Bench bench;
  const auto data = numbered(80);
  const std::int64_t counts[] = {8, -5, std::numeric_limits<std::int64_t>::max(), 0, 4};
  Source source = rows_of(data, 10, 4);
  source.chunk_bytes = counts;
  source.chunks = 5;
  source.chunk_stride = 16;
  bench.header.slot(0) = {2, 17, wire::kAllRows, 20};
  run_producer(bench.call(0, source));
  const wire::RecordHead head = head_at(bench.frame() + 32);
  EXPECT_EQ(head.rows, 17u);
  EXPECT_EQ(head.bytes, 8u + 16u + 4u);
  EXPECT_EQ(std::memcmp(bench.payload(2), &data[0], 8), 0);
  EXPECT_EQ(std::memcmp(bench.payload(2) + 8, &data[32], 16), 0);
  EXPECT_EQ(std::memcmp(bench.payload(2) + 24, &data[64], 4), 0);
  EXPECT_TRUE(bench.only_touched(32, sizeof(wire::RecordHead) + 28));
}

TEST(Producer, I4_ChunksStayInThePlannedBytesAndKeepWholeRows) {
  Bench bench;
  const auto data = numbered(80);
  const std::int64_t counts[] = {12, 12};
  Source source = rows_of(data, 10, 6);
  source.chunk_bytes = counts;
  source.chunks = 2;
  source.chunk_stride = 16;
  bench.header.slot(0) = {2, 4, wire::kAllRows, 1};  // 16 bytes: two rows of 6
  run_producer(bench.call(0, source));
  EXPECT_EQ(head_at(bench.frame() + 32).bytes, 12u);
  EXPECT_TRUE(bench.only_touched(32, sizeof(wire::RecordHead) + 12));
}

TEST(Producer, B3_EagerFormTakesThePlanByValueAndHasNoCensus) {
  Bench bench;
  const auto data = numbered(40);
  const std::uint32_t list[] = {0, 4};
  ProducerCall call = bench.call(0, rows_of(data, 5, 8));
  call.header = nullptr;
  call.ticket = 31;
  call.frame = bench.frame();
  call.magic = kMagic + 1;
  call.plan = {2, 2, 12345, 10};
  call.list = list;
  run_producer(call);
  const wire::RecordHead head = head_at(bench.frame() + 32);
  EXPECT_EQ(head.ticket, 31u);
  EXPECT_EQ(head.magic, kMagic + 1);
  EXPECT_EQ(head.rows, 2u);
  EXPECT_EQ(std::memcmp(bench.payload(2) + 8, &data[32], 8), 0);
  EXPECT_EQ(bench.census(0), 0u);

  Bench off;
  call.frame = off.frame();
  call.ticket = 0;
  run_producer(call);
  EXPECT_TRUE(off.untouched());
}

template <class T>
std::vector<T> summed(const std::vector<T>& a, const std::vector<T>& b, DType dtype) {
  Bench bench;
  ProducerCall call = bench.call(0, {}, dtype);
  call.source.data = a.data();
  call.source.addend = b.data();
  call.source.rows = 1;
  call.source.part_bytes = a.size() * sizeof(T);
  bench.header.slot(0) = {2, 1, wire::kAllRows, 60};
  EXPECT_TRUE(validate(call).ok());
  run_producer(call);
  std::vector<T> result(a.size());
  std::memcpy(result.data(), bench.payload(2), a.size() * sizeof(T));
  return result;
}

TEST(Producer, B3_SumsAreRoundedOnceToEven) {
  using u16s = std::vector<std::uint16_t>;
  using u8s = std::vector<std::uint8_t>;
  // bf16: 1 + 2^-8 is a tie (→ 1), 1 + 3·2^-9 rounds up, (1 + 2^-7) + 2^-8 is a tie (→ 1 + 2^-6).
  EXPECT_EQ(summed(u16s{0x3f80, 0x3f80, 0x3f81}, u16s{0x3b80, 0x3bc0, 0x3b80}, DType::bf16),
            (u16s{0x3f80, 0x3f81, 0x3f82}));
  // f16: 2048 + 1 is a tie (→ 2048), 2050 + 1 as well (→ 2052); the largest + 16 overflows.
  EXPECT_EQ(summed(u16s{0x6800, 0x6801, 0x7bff}, u16s{0x3c00, 0x3c00, 0x4c00}, DType::f16),
            (u16s{0x6800, 0x6802, 0x7c00}));
  // e4m3: 16 + 1 is a tie (→ 16), 18 + 1 (→ 20); 448 + 448 has no code. e5m2: 8 + 1 → 8, 10 + 1
  // → 12.
  EXPECT_EQ(summed(u8s{0x58, 0x59, 0x7e}, u8s{0x38, 0x38, 0x7e}, DType::f8_e4m3),
            (u8s{0x58, 0x5a, 0x7f}));
  EXPECT_EQ(summed(u8s{0x48, 0x49, 0x7b}, u8s{0x3c, 0x3c, 0x7b}, DType::f8_e5m2),
            (u8s{0x48, 0x4a, 0x7c}));
  EXPECT_EQ(summed(std::vector<float>{1.0f, 3.5f}, {0x1.0p-24f, -1.25f}, DType::f32),
            (std::vector<float>{1.0f, 2.25f}));
  // In double, not in fp32: the small term survives.
  EXPECT_EQ(summed(std::vector<double>{1.0}, {0x1.0p-40}, DType::f64),
            (std::vector<double>{1.0 + 0x1.0p-40}));
}

TEST(Producer, B3_ASumThatIsNoNumberHasOneRepresentation) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto f32 = summed(std::vector<float>{inf}, {-inf}, DType::f32);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f32[0]), 0x7fffffffu);
  const auto f64 = summed(std::vector<double>{double{inf}}, {-double{inf}}, DType::f64);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(f64[0]), 0x7fffffffffffffffu);
  EXPECT_EQ(summed(std::vector<std::uint16_t>{0x7c00}, {0xfc00}, DType::f16)[0], 0x7fff);
}

TEST(Producer, B3_TheSecondTensorHasItsOwnRowStride) {
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  const std::vector<float> b{10, 20, 0, 0, 30, 40, 0, 0, 50, 60};
  Bench bench;
  ProducerCall call = bench.call(0, {}, DType::f32);
  call.source.data = a.data();
  call.source.rows = 3;
  call.source.part_bytes = 8;
  call.source.row_stride = 8;
  call.source.addend = b.data();
  call.source.addend_row_stride = 16;
  bench.header.slot(0) = {2, 3, wire::kAllRows, 60};
  run_producer(call);
  const std::vector<float> expected{11, 22, 33, 44, 55, 66};
  EXPECT_EQ(std::memcmp(bench.payload(2), expected.data(), 24), 0);
}

TEST(Producer, E_RefusesCallsThatMakeNoSense) {
  const std::vector<float> a(8);
  ProducerCall good;
  good.id = {12, 3, 0};
  good.source.data = a.data();
  good.source.rows = 2;
  good.source.part_bytes = 16;
  good.dtype = DType::f32;
  ASSERT_TRUE(validate(good).ok());

  const auto refused = [&](auto change, const char* word) {
    ProducerCall call = good;
    change(call);
    const Status status = validate(call);
    EXPECT_EQ(status.code(), Code::invalid_argument) << word;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("hook 12, ordinal 3"), std::string::npos) << status.message();
  };
  refused([](ProducerCall& c) { c.source.parts = 0; }, "part");
  refused([](ProducerCall& c) { c.source.data = nullptr; }, "address");
  refused([](ProducerCall& c) { c.source.chunks = 2; }, "byte counts");
  refused([&](ProducerCall& c) { c.source.addend = a.data(), c.dtype = DType::i32; }, "floating");
  refused([&](ProducerCall& c) { c.source.addend = a.data(), c.source.part_bytes = 6; }, "broken");
  const std::int64_t counts[] = {4};
  refused(
      [&](ProducerCall& c) {
        c.source.addend = a.data();
        c.source.chunk_bytes = counts;
        c.source.chunks = 1;
      },
      "chunked");
}

TEST(Producer, I4_RandomPlansWriteWhatTheDefinitionSaysAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    Bench bench(8, 16);
    const auto data = numbered(2048);
    Source source;
    source.data = &data[1024];
    source.rows = static_cast<std::uint32_t>(random.below(9));
    source.parts = static_cast<std::uint32_t>(1 + random.below(3));
    source.part_bytes = 1 + random.below(9);
    source.part_stride = static_cast<std::int64_t>(random.below(40)) - 20;
    source.row_stride = static_cast<std::int64_t>(random.below(200)) - 100;
    const auto slot = static_cast<std::uint32_t>(random.below(10));
    const bool on = slot < 8 && random.below(8) != 0;
    wire::SlotPlan plan{static_cast<std::uint32_t>(1 + random.below(20)),
                        static_cast<std::uint32_t>(random.below(12)), wire::kAllRows,
                        static_cast<std::uint32_t>(random.below(14))};
    if (!on) plan.offset16 = 0;
    bool bad_list = false;
    std::vector<std::uint32_t> chosen;
    if (random.below(2) == 0) {
      plan.list = static_cast<std::uint32_t>(random.below(16));
      std::uint32_t row = 0;
      for (std::uint32_t i = 0; i < plan.rows;
           ++i, row += static_cast<std::uint32_t>(1 + random.below(2))) {
        chosen.push_back(row);
        if (plan.list + i < 16) bench.header.list(plan.list + i) = row;
      }
      bad_list = plan.list + plan.rows > 16 || (plan.rows > 0 && chosen.back() >= source.rows);
    } else {
      for (std::uint32_t i = 0; i < std::min(plan.rows, source.rows); ++i) chosen.push_back(i);
    }
    if (slot < 8) bench.header.slot(slot) = plan;

    run_producer(bench.call(slot, source));
    if (!on) {
      ASSERT_TRUE(bench.untouched()) << "seed " << seed;
      continue;
    }
    const std::size_t fits = std::size_t{plan.capacity16} * 16 / source.row_bytes();
    const std::size_t rows = bad_list ? 0 : std::min(chosen.size(), fits);
    const wire::RecordHead head = head_at(bench.frame() + plan.offset16 * 16);
    ASSERT_EQ(head.rows, rows) << "seed " << seed;
    ASSERT_EQ(head.bytes, rows * source.row_bytes()) << "seed " << seed;
    ASSERT_TRUE(bench.only_touched(plan.offset16 * 16, sizeof(head) + head.bytes))
        << "seed " << seed;
    std::size_t at = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::uint32_t part = 0; part < source.parts; ++part) {
        for (std::uint64_t byte = 0; byte < source.part_bytes; ++byte, ++at) {
          const std::int64_t from = 1024 + std::int64_t{chosen[i]} * source.row_stride +
                                    std::int64_t{part} * source.part_stride +
                                    static_cast<std::int64_t>(byte);
          ASSERT_EQ(std::to_integer<int>(bench.payload(plan.offset16)[at]),
                    data[static_cast<std::size_t>(from)])
              << "seed " << seed;
        }
      }
    }
  }
}

TEST(CloseStep, A5_SwitchesOffAndLeavesTheFrame) {
  Bench bench(3, 0);
  run_close_step(&bench.header.head());
  EXPECT_EQ(bench.header.head().ticket, 0u);
  EXPECT_TRUE(bench.untouched());
}

}  // namespace
}  // namespace graphtap
