// E: npz archives whose sizes, members or checksums are off are refused by name, before memory is
// taken for what they claim.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/store_import.hpp"
#include "store/export/npy.hpp"
#include "unit/store/support/exports.hpp"

namespace graphtap::store_test {
namespace {

namespace fs = std::filesystem;

/// A member as an archive tells it, true or not.
struct Member {
  std::string name;
  std::string data;  // as it lies in the archive
  std::uint16_t method = 0;
  std::uint32_t size = 0;         // claimed; 0: that of data
  std::uint32_t packed_size = 0;  // claimed; 0: that of data
  std::uint16_t flags = 0;
  std::uint32_t crc = 0;
};

template <class Number>
void put(std::string& out, Number number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  out.append(bytes, sizeof(number));
}

/// The fields that a member's local header and its entry in the directory share.
void put_fields(std::string& out, const Member& member) {
  const auto data = static_cast<std::uint32_t>(member.data.size());
  put<std::uint16_t>(out, 20);  // version needed
  put(out, member.flags);
  put(out, member.method);
  put<std::uint32_t>(out, (1u << 5 | 1u) << 16);  // 1980-01-01
  put(out, member.crc);
  put(out, member.packed_size ? member.packed_size : data);
  put(out, member.size ? member.size : data);
  put(out, static_cast<std::uint16_t>(member.name.size()));
  put<std::uint16_t>(out, 0);  // extra
}

std::vector<std::byte> zip(const std::vector<Member>& members) {
  std::string out, directory;
  for (const Member& member : members) {
    put<std::uint32_t>(directory, 0x02014b50);
    put<std::uint16_t>(directory, 20);  // made by
    put_fields(directory, member);
    put<std::uint16_t>(directory, 0);  // comment
    put<std::uint32_t>(directory, 0);  // disk, internal attributes
    put<std::uint32_t>(directory, 0);  // external attributes
    put(directory, static_cast<std::uint32_t>(out.size()));
    directory += member.name;
    put<std::uint32_t>(out, 0x04034b50);
    put_fields(out, member);
    out += member.name + member.data;
  }
  const auto at = static_cast<std::uint32_t>(out.size());
  out += directory;
  put<std::uint32_t>(out, 0x06054b50);
  put<std::uint32_t>(out, 0);  // disks
  put(out, static_cast<std::uint16_t>(members.size()));
  put(out, static_cast<std::uint16_t>(members.size()));
  put(out, static_cast<std::uint32_t>(directory.size()));
  put(out, at);
  put<std::uint16_t>(out, 0);  // comment
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

std::string npy(std::vector<std::int64_t> shape, std::size_t data) {
  return store::npy_head(DType::u8, shape) + std::string(data, 'x');
}

/// One stored block, which is deflate as well as any.
std::string deflated(const std::string& data) {
  std::string out("\x01", 1);
  put(out, static_cast<std::uint16_t>(data.size()));
  put(out, static_cast<std::uint16_t>(~data.size()));
  return out + data;
}

TEST(ImportNpz, E_AnArchiveThatIsOffIsRefusedByName) {
  if (!store::has_npz()) GTEST_SKIP() << "built without libzip";
  const std::string good = npy({4}, 4);
  const auto size = static_cast<std::uint32_t>(good.size());
  constexpr std::uint32_t kHuge = 3u << 30;
  const std::string huge = npy({1, kHuge}, 0);
  const auto claimed = static_cast<std::uint32_t>(huge.size()) + kHuge;
  struct Case {
    std::vector<Member> members;
    Code code;
    std::string says;
  };
  const std::vector<Case> cases{
      {{{"a.npy", good}}, Code::ok, ""},
      {{{"a.npy", deflated(good), 8, size}}, Code::ok, ""},
      {{{"readme.txt", "?", 12}, {"a.npy", good}}, Code::ok, ""},
      {{{"a.npy", good}, {"a.npy", good}}, Code::corrupt, "is there twice"},
      {{{"a.npy", "PK"}}, Code::corrupt, "too short"},
      {{{"a.npy", std::string(200, 'x')}}, Code::corrupt, "no .npy file"},
      {{{"a.npy", npy({5}, 4)}}, Code::corrupt, "its shape needs 5"},
      {{{"a.npy", good, 12, size}}, Code::unsupported, "method 12"},
      {{{"a.npy", good, 0, 0, 0, 1}}, Code::unsupported, "is encrypted"},
      // Gigabytes that a file of a few hundred bytes cannot hold: no memory is taken for them.
      {{{"a.npy", deflated(huge), 8, claimed}}, Code::corrupt, "deflated ones cannot be"},
      {{{"a.npy", huge, 0, claimed, claimed}}, Code::corrupt, "of an archive of"},
      {{{"a.npy", huge, 0, claimed}}, Code::corrupt, "stored ones cannot be"},
      {{{"graphtap.json", deflated("{}"), 8, claimed}, {"a.npy", good}},
       Code::corrupt,
       "deflated ones cannot be"},
  };
  const TempDir dir;
  const fs::path path = dir.path() / "x.npz";
  for (const Case& each : cases) {
    write_bytes(path, zip(each.members));
    const auto file = store::open_tensor_file(path);
    const Status status = file.status();
    SCOPED_TRACE(each.says + " | " + status.message());
    EXPECT_EQ(status.code(), each.code);
    EXPECT_NE(status.message().find(each.says), std::string::npos);
    EXPECT_EQ(status.message().find("x.npz") != std::string::npos, each.code != Code::ok);
  }
}

TEST(ImportNpz, E_AWrongChecksumIsToldAndNothingOfItIsStored) {
  if (!store::has_npz()) GTEST_SKIP() << "built without libzip";
  const TempDir dir;
  const fs::path path = dir.path() / "x.npz";
  ImportOptions options;
  options.foreign = ForeignTensor{"blocks.0.resid_pre", "a"};
  write_bytes(path, zip({{"a.npy", npy({2, 2}, 4)}}));  // its CRC is not 0
  const Status status = import_files({path}, dir.store(), options).status();
  EXPECT_EQ(status.code(), Code::corrupt) << status.message();
  EXPECT_NE(status.message().find("CRC"), std::string::npos) << status.message();
  EXPECT_TRUE(all_of(read_store(dir.store())->read({})).empty());
}

}  // namespace
}  // namespace graphtap::store_test
