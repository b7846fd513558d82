// D6, E: exports as processes: interrupted by a signal and gone on with, a full disk, a folder that
// may not be written to, and little memory.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "integration/cli_process.hpp"
#include "store/export/tensor_file.hpp"
#include "support/sanitized.hpp"

namespace graphtap::testing {
namespace {

namespace fs = std::filesystem;

/// Names of one file of each format that this build has.
std::vector<std::string> file_names() {
  std::vector<std::string> names{"rows.safetensors"};
  if (store::has_npz()) names.emplace_back("rows.npz");
  return names;
}
using namespace std::chrono_literals;

/// About 280 MB of two hooks in 16 layers.
const std::string& large_store() {
  static const Scratch scratch;
  static const std::string path = [] {
    const Ended ended =
        run({"graph", "--layers", "16", "--hidden", "2048", "--steps", "200", "--tier", "soft",
             "--hooks", "resid_pre,attn_out", "--store", scratch / "store", "--quiet"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    return scratch / "store";
  }();
  return path;
}

std::vector<std::string> export_to(const std::string& to) {
  return {"export", large_store(), "--to", to, "--max-file-bytes", "16MiB", "--buffer", "64KiB"};
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::ifstream one(a, std::ios::binary), other(b, std::ios::binary);
  return fs::file_size(a) == fs::file_size(b) &&
         std::equal(std::istreambuf_iterator<char>(one), {}, std::istreambuf_iterator<char>(other));
}

TEST(CliExport, D6_InterruptedAndKilledItGoesOnWhereItStopped) {
  const Scratch scratch;
  const std::string whole = scratch / "whole", out = scratch / "out";
  ASSERT_EQ(run(export_to(whole)).exit, 0);
  const std::vector<fs::path> wanted = files_in(whole, ".safetensors");
  ASSERT_GT(wanted.size(), 10u);
  std::size_t interrupted = 0;
  std::size_t before = 0;
  for (int round = 0; round < 40; ++round) {
    Process process(export_to(out));
    // It runs until some more files are whole.
    const auto until = std::chrono::steady_clock::now() + 20s;
    const auto whole_files = [&] {
      return fs::exists(out) ? files_in(out, ".safetensors").size() : 0;
    };
    while (whole_files() < before + 2 && whole_files() < wanted.size() &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(1ms);
    }
    process.signal(round % 2 == 0 ? SIGINT : SIGKILL);
    const Ended ended = process.wait();
    if (ended.exit == 0) break;
    ++interrupted;
    EXPECT_EQ(ended.exit, round % 2 == 0 ? 130 : 128 + SIGKILL) << ended.err;
    if (round % 2 == 0) {
      EXPECT_NE(ended.err.find("goes on from there"), std::string::npos) << ended.err;
      EXPECT_TRUE(files_in(out, ".part").empty());
    }
    const std::size_t now = whole_files();
    EXPECT_GE(now, before);
    before = now;
    if (now == wanted.size()) break;
  }
  EXPECT_GE(interrupted, 2u);
  const Ended last = run(export_to(out));
  if (last.exit != 0) {  // the run before it had ended: then there is nothing left to go on with
    EXPECT_NE(last.err.find("there already"), std::string::npos) << last.err;
  } else {
    EXPECT_NE(last.out.find("were kept"), std::string::npos) << last.out;
  }
  const std::vector<fs::path> got = files_in(out, ".safetensors");
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_file(got[i], wanted[i])) << got[i];
  EXPECT_TRUE(files_in(out, ".part").empty());
  EXPECT_TRUE(files_in(out, ".graphtap-export.json").empty());
}

Ended run_with_memory(const std::vector<std::string>& arguments, rlim_t bytes) {
  return Process(arguments, "/dev/null", bytes).wait();
}

TEST(CliExport, D6_FarMoreThanTheMemoryThereIs) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is in the way";
  constexpr rlim_t kMemory = 64 << 20;
  const Scratch scratch;
  // A limit that nothing reaches would prove nothing: this one is reached.
  const Ended greedy =
      run_with_memory({"export", large_store(), "--to", scratch / "no.safetensors"}, 4 << 20);
  EXPECT_NE(greedy.exit, 0);
  for (const std::string& name : file_names()) {
    const Ended there = run_with_memory(
        {"export", large_store(), "--to", scratch / name, "--buffer", "8MiB"}, kMemory);
    EXPECT_EQ(there.exit, 0) << name << ": " << there.err;
    EXPECT_GT(fs::file_size(scratch / name), 4 * kMemory);
    const Ended back = run_with_memory(
        {"import", scratch / name, "--store", scratch / "copy", "--buffer", "8MiB"}, kMemory);
    EXPECT_EQ(back.exit, 0) << name << ": " << back.err;
    EXPECT_EQ(run({"verify", scratch / "copy", "--deep"}).exit, 0);
  }
}

TEST(CliExport, E_AFullDiskAndAReadOnlyFolderLeaveNothingUnderAFinalName) {
  const Scratch scratch;
  const std::string disk = scratch / "disk";
  fs::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=20m") != 0) {
    GTEST_SKIP() << "no file systems can be mounted here";
  }
  for (const std::string& file : file_names()) {
    const Ended full = run({"export", large_store(), "--to", disk + "/" + file});
    EXPECT_EQ(full.exit, 7) << full.err;
    EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;
    EXPECT_FALSE(fs::exists(disk + "/" + file));
    EXPECT_TRUE(files_in(disk, ".part").empty());
    fs::remove(disk + "/rows.graphtap-export.json");
  }
  ASSERT_EQ(mount("none", disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const Ended refused = run({"export", large_store(), "--to", disk + "/rows.safetensors"});
  EXPECT_EQ(refused.exit, 4) << refused.err;
  EXPECT_NE(refused.err.find("Read-only"), std::string::npos) << refused.err;
  umount2(disk.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace graphtap::testing
