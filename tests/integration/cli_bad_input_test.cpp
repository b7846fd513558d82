// Requirement E: what is wrong, where, and what would be right, on stderr, with a documented exit
// code, and nothing that is already stored is lost. A table; every case runs the real command.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>

#include "graphtap/store_sink.hpp"
#include "integration/cli_process.hpp"

namespace graphtap {
namespace {

namespace fs = std::filesystem;
using testing::Ended;
using testing::Engine;
using testing::Scratch;

/// A case's own directory: what its files are made in. "@" in its arguments stands for it.
struct Setting {
  Scratch scratch;
  std::shared_ptr<Sink> writer;  // holds a store's lock
  std::string mounted;

  Setting() = default;
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    writer.reset();
    if (!mounted.empty()) umount2(mounted.c_str(), MNT_DETACH);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch / name, std::ios::binary) << text;
  }
};
using Prepare = std::function<bool(Setting&)>;  // false: cannot be made here, the case is skipped

enum class Needs { nothing, engine };
enum class Writes { no, may };  // no: the directory must be the same before and after

struct Case {
  const char* name;
  std::vector<std::string> arguments;
  int exit;
  std::vector<std::string> words;  // all on stderr
  Prepare prepare = {};
  Needs needs = Needs::nothing;
  Writes writes = Writes::no;
};

// ---- what cases are made of

const fs::path& sample() {  // a store with three runs
  static const Scratch scratch;
  static const fs::path path = [] {
    const Ended ended = testing::run({"graph", "--layers", "4", "--hidden", "16", "--steps", "30",
                                      "--store", scratch / "store", "--quiet"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    return fs::path(scratch / "store");
  }();
  return path;
}

bool store(Setting& setting) {
  fs::copy(sample(), setting.scratch / "s", fs::copy_options::recursive);
  return true;
}
std::string segment(const Setting& setting) { return setting.scratch / "s/segments/000001.gts"; }

void overwrite(const std::string& file, std::streamoff at, const std::string& bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at);
  stream << bytes;
  ASSERT_TRUE(stream.good()) << file;
}
std::string content(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool locked_store(Setting& setting) {
  store(setting);
  HookTable table("other");
  HookSpec spec;
  spec.type = "resid_final";
  spec.row_shape = {4};
  (void)table.add(spec).value_or_throw();
  setting.writer = open_store_sink(setting.scratch / "s", table).value_or_throw();
  return true;
}
bool read_only_store(Setting& setting) {
  store(setting);
  const std::string place = setting.scratch / "s";
  // Permission bits do not bind root, a read-only mount binds everybody.
  if (mount(place.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) != 0) return false;
  setting.mounted = place;
  return mount(nullptr, place.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}
bool small_disk(Setting& setting) {
  const std::string place = setting.scratch / "disk";
  fs::create_directory(place);
  if (mount("none", place.c_str(), "tmpfs", 0, "size=256k") != 0) return false;
  setting.mounted = place;
  return true;
}
bool not_ours(Setting& setting) {
  fs::create_directory(setting.scratch / "s");
  setting.write("s/thesis.txt", "all my work");
  return true;
}
Prepare file(const std::string& name, const std::string& text) {
  return [=](Setting& setting) {
    setting.write(name, text);
    return true;
  };
}
Prepare file_and_store(const std::string& name, const std::string& text) {
  return [=](Setting& setting) { return store(setting) && file(name, text)(setting); };
}
bool locked_store_and_rows(Setting& setting) {
  const Ended ended =
      testing::run({"export", sample(), "--to", setting.scratch / "rows.safetensors"});
  EXPECT_EQ(ended.exit, 0) << ended.err;
  return locked_store(setting);
}
Prepare manifest(const std::string& text) {
  return [=](Setting& setting) {
    store(setting);
    setting.write("s/graphtap-store.json", text);
    return true;
  };
}
bool newer_manifest(Setting& setting) {
  store(setting);
  std::string text = content(setting.scratch / "s/graphtap-store.json");
  const std::size_t at = text.find_first_of("0123456789", text.find("\"version\""));
  setting.write("s/graphtap-store.json", text.replace(at, 1, "7"));
  return true;
}
bool damaged_payload(Setting& setting) {
  store(setting);
  const auto middle = static_cast<std::streamoff>(fs::file_size(segment(setting)) / 2);
  overwrite(segment(setting), middle,
            "this was overwritten by something else entirely, 64 bytes.......");
  return true;
}
bool garbage_segment(Setting& setting) {
  store(setting);
  std::ofstream(segment(setting), std::ios::binary | std::ios::trunc) << std::string(4096, 'x');
  return true;
}
bool long_prompt(Setting& setting) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "one more word and ";
  setting.write("prompts", text + "\n");
  return true;
}
bool broken_model(Setting& setting) {
  setting.write("m.gguf", std::string("GGUF\x03\0\0\0", 8) + std::string(500, '\xff'));
  return true;
}

std::vector<std::string> run_with(std::vector<std::string> more) {
  std::vector<std::string> all{"run", "--prompt", "Hello", "--max-tokens",
                               "2",   "--store",  "@/s",   "--quiet"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// ---- the table

std::vector<Case> command_line() {
  return {
      {"no subcommand", {}, 2, {"A tour"}},
      {"unknown subcommand",
       {"sow", "@"},
       2,
       {"\"sow\" is no subcommand", "did you mean \"show\""}},
      {"unknown option", {"graph", "--hook", "q"}, 2, {"no option \"--hook\"", "\"--hooks\""}},
      {"option without value", {"graph", "--hooks"}, 2, {"--hooks", "graphtap graph --help"}},
      {"option for a value", {"graph", "--store", "--json"}, 2, {"--store lacks its value"}},
      {"option twice", {"graph", "--ring", "1MiB", "--ring", "2MiB"}, 2, {"--ring is given twice"}},
      {"surplus word", {"graph", "resid_pre"}, 2, {"resid_pre", "graphtap graph --help"}},
      {"store missing", {"ls"}, 2, {"STORE is required"}},
      {"unknown policy",
       {"graph", "--policy", "lossles"},
       2,
       {"--policy is \"lossles\"", "\"lossless\""}},
      {"unknown tier", {"graph", "--tier", "hard"}, 2, {"--tier", "soft, node, specialised"}},
      {"unknown eager policy", {"graph", "--eager", "some"}, 2, {"--eager", "same, all, none"}},
      {"unknown apply", {"graph", "--apply", "later"}, 2, {"--apply", "next-launch, now"}},
      {"no requests", {"graph", "--requests", "0"}, 2, {"--requests is \"0\"", "from 1 to 1000"}},
      {"half a step", {"graph", "--steps", "1.5"}, 2, {"--steps is \"1.5\""}},
      {"negative layers", {"graph", "--layers", "-3"}, 2, {"--layers is \"-3\"", "from 1"}},
      {"empty seed", {"graph", "--seed="}, 2, {"--seed is \"\""}},
      {"ring without unit", {"graph", "--ring", "64MB!"}, 2, {"--ring is \"64MB!\"", "64MiB"}},
      {"negative ring", {"graph", "--ring", "-64MiB"}, 2, {"--ring is \"-64MiB\""}},
      {"empty ring", {"graph", "--ring", "0"}, 2, {"--ring is \"0\"", "from 1KiB"}},
      {"unknown durability",
       {"graph", "--durability", "powr"},
       2,
       {"--durability is \"powr\"", "\"power\""}},
      {"time without unit", {"graph", "--retain-age", "7"}, 2, {"--retain-age is \"7\"", "7d"}},
      {"no time at all", {"graph", "--sync-interval", "0ms"}, 2, {"--sync-interval", "from 1ms"}},
      {"unknown way when full",
       {"graph", "--when-full", "stop"},
       2,
       {"--when-full", "refuse, remove-oldest"}},
      {"a store of nothing", {"graph", "--retain", "10"}, 2, {"--retain is \"10\"", "1MiB"}},
      {"ring smaller than a step",
       {"graph", "--ring", "8KiB"},
       2,
       {"--ring is 8192 bytes", "largest step", "give it at least", "--policy shed"}},
  };
}

std::vector<Case> selections() {
  return {
      {"unknown hook",
       {"graph", "--hooks", "resid_prr"},
       2,
       {"--hooks:", "\"resid_prr\"", "resid_pre"}},
      {"hook the model lacks",
       {"graph", "--hooks", "pattern"},
       2,
       {"pattern", "decoder", "resid_pre"}},
      {"layer out of range", {"graph", "--hooks", "resid_pre:30"}, 2, {"no layer 30", "0-29"}},
      {"layer range reversed", {"graph", "--hooks", "resid_pre:9-3"}, 2, {"reversed", "3-9"}},
      {"layer range cut off", {"graph", "--hooks", "resid_pre:3-"}, 2, {"lacks its end"}},
      {"negative layer", {"graph", "--hooks", "resid_pre:-3"}, 2, {"negative layer"}},
      {"layers of a global hook", {"graph", "--hooks", "final_logits:3"}, 2, {"global hook"}},
      {"layers missing", {"graph", "--hooks", "resid_pre:"}, 2, {"--hooks:", "expected a layer"}},
      {"nothing left",
       {"graph", "--hooks", "resid_pre,-resid_pre"},
       2,
       {"--hooks:", "matches no hook"}},
      {"none and more", {"graph", "--hooks", "none,embed"}, 2, {"\"none\" must stand alone"}},
      {"a stored name", {"graph", "--hooks", "blocks.3.resid_pre"}, 2, {"resid_pre:3"}},
      {"unknown number", {"graph", "--hooks", "99:0"}, 2, {"no hook type has the number"}},
      {"unknown sampling",
       {"graph", "--hooks", "embed @decod"},
       2,
       {"@decod", "did you mean \"decode\""}},
      {"every zeroth step", {"graph", "--hooks", "embed @every=0"}, 2, {"@every=0"}},
      {"schedule without step", {"graph", "--at", "none"}, 2, {"--at none:"}},
      {"schedule with a word", {"graph", "--at", "soon:none"}, 2, {"--at soon:none:", "soon"}},
      {"schedule before the start", {"graph", "--at", "-4:none"}, 2, {"--at -4:none:"}},
      {"schedule beyond numbers", {"graph", "--at", "99999999999999999999:none"}, 2, {"--at"}},
      {"schedule with a bad layer",
       {"graph", "--at", "4:resid_pre:31"},
       2,
       {"--at 4:", "no layer 31"}},
      {"one step twice",
       {"graph", "--at", "4:none", "--at", "4:embed"},
       2,
       {"step 4 is given twice"}},
  };
}

std::vector<Case> stores() {
  return {
      {"no such store", {"ls", "@/nowhere"}, 3, {"@/nowhere", "no such directory"}},
      {"a file for a store", {"ls", "@/f"}, 2, {"@/f", "not a directory"}, file("f", "x")},
      {"not ours, read", {"verify", "@/s"}, 2, {"@/s is not a graphtap store"}, not_ours},
      {"not ours, write",
       {"graph", "--store", "@/s"},
       2,
       {"thesis.txt", "empty directory"},
       not_ours},
      {"a file on the way", {"graph", "--store", "@/f/s"}, 9, {"@/f/s"}, file("f", "x")},
      {"locked, write", {"graph", "--store", "@/s"}, 4, {"@/s", "pid"}, locked_store},
      {"locked, index", {"index", "@/s"}, 4, {"@/s"}, locked_store},
      {"read-only, write",
       {"graph", "--store", "@/s"},
       4,
       {"cannot be written", "Read-only"},
       read_only_store},
      {"read-only, index",
       {"index", "@/s"},
       4,
       {"cannot be written", "Read-only"},
       read_only_store},
      {"full disk",
       {"graph", "--store", "@/disk/s", "--tier", "soft", "--quiet"},
       7,
       {"space"},
       small_disk,
       Needs::nothing,
       Writes::may},
      {"space that must stay free",
       {"graph", "--store", "@/s", "--tier", "soft", "--quiet", "--keep-free", "900TiB"},
       7,
       {"stay free"},
       {},
       Needs::nothing,
       Writes::may},
      {"manifest is garbage",
       {"ls", "@/s"},
       6,
       {"graphtap-store.json", "JSON"},
       manifest("{oh no")},
      {"manifest of others", {"ls", "@/s"}, 2, {"\"format\""}, manifest("{\"format\": \"zip\"}")},
      {"manifest is empty", {"ls", "@/s"}, 6, {"graphtap-store.json"}, manifest("")},
      {"newer version",
       {"report", "@/s", "--out", "@/o"},
       5,
       {"newer than this graphtap"},
       newer_manifest},
      {"newer version, write",
       {"graph", "--store", "@/s"},
       5,
       {"newer than this graphtap"},
       newer_manifest},
      {"damaged payload", {"verify", "@/s", "--deep"}, 1, {}, damaged_payload},
      {"segment is garbage", {"verify", "@/s"}, 1, {}, garbage_segment},
      {"segment is garbage, ls",
       {"ls", "@/s"},
       0,
       {"warning: segments/000001.gts"},
       garbage_segment},
      {"unknown run", {"ls", "@/s", "--run", "9"}, 3, {"--run 9", "there are 1-3"}, store},
      {"run is a word", {"ls", "@/s", "--run", "last"}, 2, {"--run is \"last\""}, store},
      {"unknown request", {"ls", "@/s", "--request", "me"}, 3, {"--request me"}, store},
      {"unknown request, show",
       {"show", "@/s", "--request", "reqest-1"},
       3,
       {"reqest-1", "request-1"},
       store},
      {"unknown hook, show",
       {"show", "@/s", "--hooks", "resid_prr"},
       2,
       {"resid_prr", "resid_pre"},
       store},
      {"layer out of range, show",
       {"show", "@/s", "--hooks", "resid_pre:4"},
       2,
       {"resid_pre"},
       store},
      {"tokens reversed",
       {"show", "@/s", "--tokens", "20-10"},
       2,
       {"--tokens is \"20-10\"", "10-20"},
       store},
      {"serial is a word", {"show", "@/s", "--serial", "x"}, 2, {"--serial is \"x\""}, store},
      {"negative values", {"show", "@/s", "--values", "-1"}, 2, {"--values is \"-1\""}, store},
      {"no limit", {"show", "@/s", "--limit", "0"}, 2, {"--limit is \"0\""}, store},
      {"page into nowhere",
       {"report", "@/s", "--out", "@/no/page.html"},
       9,
       {"--out @/no/page.html"},
       store},
      {"page over a directory", {"report", "@/s", "--out", "@/s"}, 2, {"is a directory"}, store},
      {"unknown hook, report",
       {"report", "@/s", "--hooks", "resid_prr"},
       3,
       {"\"resid_prr\"", "resid_pre"},
       store},
      {"layers, report", {"report", "@/s", "--hooks", "resid_pre:1"}, 2, {"without layers"}, store},
      {"unknown run, report", {"report", "@/s", "--run", "9"}, 3, {"--run 9"}, store},
      {"export over a file",
       {"export", "@/s", "--to", "@/there.npz"},
       2,
       {"there.npz is there already", "--overwrite"},
       file_and_store("there.npz", "x")},
      {"export into a store that may only be read",
       {"export", "@/s", "--to", "@/s/rows.safetensors"},
       4,
       {"Read-only file system"},
       read_only_store},
      {"export to a place that is not there",
       {"export", "@/s", "--to", "@/no/rows.safetensors"},
       3,
       {"@/no"},
       store},
      {"import of a text",
       {"import", "@/a.safetensors", "--store", "@/t"},
       6,
       {"a.safetensors is no safetensors file"},
       file("a.safetensors", "once upon a time, there were no tensors")},
      {"import into a locked store",
       {"import", "@/rows.safetensors", "--store", "@/s"},
       4,
       {"writ"},
       locked_store_and_rows,
       Needs::nothing,
       Writes::may},
      {"SQL that is off",
       {"query", "@/s", "SELECT FROM"},
       2,
       {"syntax error", "character 8"},
       store},
      {"SQL that writes", {"query", "@/s", "DELETE FROM runs"}, 2, {"only reads"}, store},
  };
}

std::vector<Case> prompts() {
  return {
      {"nothing to run", {"run"}, 2, {"--prompt TEXT", "--prompt-file FILE"}},
      {"empty prompt", {"run", "--prompt", ""}, 2, {"--prompt is empty"}},
      {"no prompt file", {"run", "--prompt-file", "@/p"}, 3, {"--prompt-file @/p: no such file"}},
      {"prompt file is a directory", {"run", "--prompt-file", "@"}, 2, {"is a directory"}},
      {"prompt file is empty",
       {"run", "--prompt-file", "@/p"},
       2,
       {"holds no prompt"},
       file("p", "\n \n")},
      {"unreadable prompt file", {"run", "--prompt-file", "/proc/self/mem"}, 9, {"cannot be read"}},
      {"no new tokens", run_with({"--max-tokens=0"}), 2, {"--max-tokens"}},
      {"negative context", run_with({"--context", "-1"}), 2, {"--context is \"-1\""}},
      {"batch too small", run_with({"--batch", "2"}), 2, {"--batch is \"2\"", "from 5"}},
      {"no threads", run_with({"--threads", "0"}), 2, {"--threads is \"0\""}},
      {"no sequences", run_with({"--sequences", "0"}), 2, {"--sequences is \"0\""}},
      {"no name for the store", {"run", "--prompt", "x", "--store="}, 2, {"--store is empty"}},
      {"half a ring", run_with({"--ring", "half"}), 2, {"--ring is \"half\""}},
  };
}

std::vector<Case> models() {
  std::vector<Case> cases{
      {"no such model", run_with({"--model", "@/m.gguf"}), 3, {"@/m.gguf"}},
      {"not a GGUF", run_with({"--model", "@/m.gguf"}), 6, {"@/m.gguf"}, file("m.gguf", "hello")},
      {"model is empty", run_with({"--model", "@/m.gguf"}), 6, {"@/m.gguf"}, file("m.gguf", "")},
      {"damaged GGUF", run_with({"--model", "@/m.gguf"}), 6, {"@/m.gguf"}, broken_model},
      {"hook the model lacks", run_with({"--hooks", "router_logits"}), 2, {"router_logits"}},
      {"hook hidden by sequences",
       run_with({"--hooks", "pattern", "--sequences", "2"}),
       2,
       {"pattern", "one sequence at a time"}},
      {"layer of the model", run_with({"--hooks", "resid_pre:30"}), 2, {"no layer 30", "0-29"}},
      {"schedule of the model",
       run_with({"--at", "2:resid_pre:99"}),
       2,
       {"--at 2:", "no layer 99"}},
      {"prompt too long",
       {"run", "--prompt-file", "@/prompts", "--context", "512", "--store", "@/s"},
       2,
       {"prompt-1", "context of 512"},
       long_prompt},
      {"ring smaller than a row",
       run_with({"--ring", "64KiB"}),
       2,
       {"final_logits", "give it at least"}},
      {"batch over the context", run_with({"--context", "64", "--batch", "128"}), 2, {"64", "128"}},
      {"no such map", run_with({"--map", "@/map.json"}), 3, {"@/map.json"}},
      {"map is garbage",
       run_with({"--map", "@/map.json"}),
       2,
       {"@/map.json"},
       file("map.json", "{")},
      {"not ours", run_with({}), 2, {"thesis.txt"}, not_ours},
      {"locked", run_with({}), 4, {"pid"}, locked_store},
      {"read-only", run_with({}), 4, {"cannot be written", "Read-only"}, read_only_store},
      {"full disk",
       {"run", "--prompt", "Hello", "--max-tokens", "4", "--store", "@/disk/s"},
       7,
       {"space"},
       small_disk,
       Needs::engine,
       Writes::may},
  };
  for (Case& one : cases) one.needs = Needs::engine;
  return cases;
}

// ---- running it

// While a writer holds the lock, the index is its own to write, behind the segments.
std::map<std::string, std::string> snapshot(const Setting& setting) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(setting.scratch.path())) {
    const std::string name = entry.path().filename().string();
    if (setting.writer && name.starts_with("index.sqlite")) continue;
    files[entry.path().string()] = entry.is_regular_file() ? content(entry.path()) : "";
  }
  return files;
}

// "@" and "@/…" stand for the case's directory; "@decode" is part of a selection.
std::string fill_in(std::string text, const std::string& place) {
  for (std::size_t at = text.find('@'); at != std::string::npos;) {
    const bool path = at + 1 == text.size() || text[at + 1] == '/';
    if (path) text.replace(at, 1, place);
    at = text.find('@', at + (path ? place.size() : 1));
  }
  return text;
}

struct Tally {
  int ran = 0, skipped = 0;
};

void run_case(const Case& one, Tally& tally) {
  SCOPED_TRACE(one.name);
  if (one.needs == Needs::engine && testing::engine() != Engine::ready) {
    ++tally.skipped;
    return;
  }
  Setting setting;
  if (one.prepare && !one.prepare(setting)) {
    ++tally.skipped;
    return;
  }
  const std::string place = setting.scratch.path().string();
  std::vector<std::string> arguments;
  for (const std::string& argument : one.arguments) arguments.push_back(fill_in(argument, place));
  const auto before = snapshot(setting);
  const Ended ended = testing::run(arguments);
  ++tally.ran;
  EXPECT_EQ(ended.exit, one.exit) << ended.err << ended.out;
  for (const std::string& word : one.words) {
    EXPECT_NE(ended.err.find(fill_in(word, place)), std::string::npos)
        << "stderr lacks \"" << word << "\":\n"
        << ended.err;
  }
  if (one.exit > 1 && !one.arguments.empty()) {
    EXPECT_NE(ended.err.find("graphtap: "), std::string::npos) << ended.err;
    if (one.writes == Writes::no) {
      EXPECT_EQ(ended.out, "") << "an error is no result";
    }
  }
  if (one.writes == Writes::no) {
    const auto after = snapshot(setting);
    for (const auto& [name, text] : after) {
      const auto was = before.find(name);
      EXPECT_TRUE(was != before.end() && was->second == text) << name << " was made or changed";
    }
    EXPECT_EQ(after.size(), before.size()) << "something was removed";
  }
}

void run_table(const std::vector<Case>& cases, int least) {
  Tally tally;
  for (const Case& one : cases) run_case(one, tally);
  std::printf("%d cases ran, %d could not be made here\n", tally.ran, tally.skipped);
  EXPECT_GE(tally.ran + tally.skipped, least);
}

TEST(BadInput, E_CommandLine) { run_table(command_line(), 20); }
TEST(BadInput, E_Selections) { run_table(selections(), 20); }
TEST(BadInput, E_Stores) { run_table(stores(), 30); }
TEST(BadInput, E_Prompts) { run_table(prompts(), 12); }
TEST(BadInput, E_Models) {
  if (testing::engine() == Engine::none) GTEST_SKIP() << "built without the engine";
  if (testing::engine() == Engine::no_model)
    GTEST_SKIP() << "no model; scripts/fetch_engine.sh fetches it";
  run_table(models(), 16);
}

TEST(BadInput, E_WithoutTheEngineRunSaysHowToGetIt) {
  if (testing::engine() != Engine::none) GTEST_SKIP() << "built with the engine";
  const Ended ended = testing::run({"run", "--prompt", "Hello"});
  EXPECT_EQ(ended.exit, 5);
  EXPECT_NE(ended.err.find("scripts/fetch_engine.sh"), std::string::npos) << ended.err;
}

// A disk that fills up while records come in: what was written before reads back, and the rest is
// counted.
TEST(BadInput, D2_AStoreOnAFullDiskKeepsWhatItTook) {
  Setting setting;
  if (!small_disk(setting)) GTEST_SKIP() << "no tmpfs can be mounted here";
  const std::string store = setting.scratch / "disk/s";
  const Ended ended =
      testing::run({"graph", "--store", store, "--tier", "soft", "--requests", "6"});
  EXPECT_EQ(ended.exit, 7) << ended.err << ended.out;
  const Ended verify = testing::run({"verify", store, "--deep"});
  EXPECT_EQ(verify.exit, 0) << verify.out << verify.err;
  EXPECT_EQ(verify.out.find(" 0 records"), std::string::npos) << verify.out;
}

}  // namespace
}  // namespace graphtap
