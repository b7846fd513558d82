// D6, E: export, import and query as a person calls them.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/transfer_progress.hpp"
#include "graphtap/store_reader.hpp"
#include "graphtap/store_sql.hpp"
#include "graphtap/store_verify.hpp"
#include "store/export/tensor_file.hpp"
#include "unit/cli/sample_store.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

TEST(ExportCommand, D6_ThereAndBackAgain) {
  SampleStore store;
  store.close();
  const std::string file = store.dir / "rows.safetensors", copy = store.dir / "copy";
  const CommandResult exported = call({"export", store.path, "--to", file});
  EXPECT_EQ(exported.exit, Exit::ok) << exported.err;
  expect_words(exported.out, {"rows.safetensors", "12 tensors", "verified", "missing and zero"});
  EXPECT_EQ(exported.err, "");
  const CommandResult imported = call({"import", file, "--store", copy, "--name", "again"});
  EXPECT_EQ(imported.exit, Exit::ok) << imported.err;
  expect_words(imported.out, {"run 1", "2 requests", "12 tensors"});
  // What is shown of one is shown of the other, but for the step that a row came from.
  const auto rows = [](const std::string& path) {
    const CommandResult shown = call({"show", path, "--request", "beta", "--json"});
    Json json = Json::parse(shown.out);
    std::map<std::string, Json> by_place;
    for (Json& row : json["rows"]) {
      row.erase("step");
      row.erase("kind");
      by_place[row["hook"].get<std::string>() + row["token"].dump()] = row;
    }
    return by_place;
  };
  EXPECT_EQ(rows(copy), rows(store.path));
  EXPECT_EQ(call({"verify", copy, "--deep"}).exit, Exit::ok);
}

TEST(ExportCommand, D6_TheQueryAndTheFormatAreTheOptions) {
  SampleStore store;
  store.close();
  if (!store::has_npz()) GTEST_SKIP() << "built without libzip";
  const std::string to = store.dir / "some.npz";
  const CommandResult result =
      call({"export", store.path, "--to", to, "--request", "alpha", "--hooks", "resid_pre",
            "--layer", "1", "--tokens", "0-2", "--compress", "--json"});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["tensors"], 1);
  EXPECT_EQ(json["rows"], 3);
  EXPECT_EQ(json["files"], Json::array({to}));
  EXPECT_EQ(json["verified"], true);
}

TEST(ExportCommand, D6_AFolderGetsSeveralFilesAndTheirIndex) {
  SampleStore store;
  store.close();
  const std::string out = store.dir / "out/", copy = store.dir / "copy";
  const CommandResult result = call({"export", store.path, "--to", out, "--max-file-bytes", "100"});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  ASSERT_TRUE(fs::exists(out + "export.safetensors.index.json")) << result.out;
  const CommandResult imported =
      call({"import", out + "export.safetensors.index.json", "--store", copy});
  EXPECT_EQ(imported.exit, Exit::ok) << imported.err;
  expect_words(imported.out, {"12 tensors"});
}

TEST(ExportCommand, D6_ProgressIsOnlyShownWhereItIsAskedFor) {
  SampleStore store;
  store.close();
  const CommandResult result = call(
      {"export", store.path, "--to", store.dir / "a.safetensors", "--buffer", "1", "--progress"});
  expect_words(result.err, {"export: ", " rows", "100%"});
  EXPECT_LT(std::count(result.err.begin(), result.err.end(), '\n'), 4) << result.err;
  TransferProgress::State state{10, 40, 1 << 20, 4 << 20, 0};
  EXPECT_EQ(transfer_text(state, 2.0),
            "1.0 MiB of 4.0 MiB (25%), 10 of 40 rows, 512.0 KiB/s, 6 s left");
  state.bytes_before = state.bytes;
  EXPECT_EQ(transfer_text(state, 2.0), "1.0 MiB of 4.0 MiB (25%), 10 of 40 rows");
}

struct Refused {
  std::vector<std::string> arguments;  // "@" stands for the folder, "$" for the store
  Exit exit;
  std::vector<const char*> words;
};

TEST(ExportCommand, E_EveryRefusalNamesWhatWouldBeRight) {
  SampleStore store;
  store.close();
  std::ofstream(store.dir / "there.safetensors") << "x";
  std::ofstream(store.dir / "short.npz") << "PK\x03\x04";
  std::ofstream(store.dir / "far.safetensors") << std::string(8, '\xff');
  const std::string header = R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  std::ofstream(store.dir / "foreign.safetensors", std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header << std::string(8, 'a');
  const std::vector<Refused> cases{
      {{"export", "$"}, Exit::usage, {"--to"}},
      {{"export", "$", "--to", "@there.safetensors"},
       Exit::usage,
       {"there already", "--overwrite"}},
      {{"export", "$", "--to", "@a.txt"}, Exit::usage, {".safetensors"}},
      {{"export", "$", "--to", "@a.npz", "--format", "safetensors"}, Exit::usage, {"ending"}},
      {{"export", "$", "--to", "@a", "--format", "parquet"}, Exit::usage, {"parquet", "npz"}},
      {{"export", "$", "--to", "@a.safetensors", "--compress"}, Exit::usage, {"npz"}},
      {{"export", "$", "--to", "@a.safetensors", "--hooks", "resid_prx"},
       Exit::usage,
       {"resid_pre"}},
      {{"export", "$", "--to", "@a.safetensors", "--request", "alpho"}, Exit::not_found, {"alpha"}},
      {{"export", "$", "--to", "@a.safetensors", "--tokens", "900-"}, Exit::not_found, {"nothing"}},
      {{"export", "$", "--to", "@a.safetensors", "--layer", "x"}, Exit::usage, {"--layer"}},
      {{"export", "@none", "--to", "@a.safetensors"}, Exit::not_found, {"none"}},
      {{"import", "@foreign.safetensors"}, Exit::usage, {"--store"}},
      {{"import", "@nothing.npz", "--store", "@s"}, Exit::not_found, {"nothing.npz"}},
      {{"import", "@short.npz", "--store", "@s"},
       store::has_npz() ? Exit::corrupt : Exit::unsupported,
       {"short.npz"}},
      {{"import", "@far.safetensors", "--store", "@s"}, Exit::corrupt, {"100000000"}},
      {{"import", "@foreign.safetensors", "--store", "@s"}, Exit::usage, {"\"x\"", "--hook NAME"}},
      {{"import", "@foreign.safetensors", "--store", "@s", "--hook", "blocks.0.resid_pre"},
       Exit::usage,
       {"--request ID"}},
      {{"import", "@foreign.safetensors", "--store", "@s", "--request", "a"},
       Exit::usage,
       {"--hook"}},
      {{"import", "@foreign.safetensors", "--store", "@s", "--hook", "resid_pre", "--request", "a"},
       Exit::usage,
       {"--hook", "layer"}},
      {{"import", "@foreign.safetensors", "--store", "@s", "--hook", "blocks.0.resid_pre",
        "--request", "a", "--tensor", "y"},
       Exit::not_found,
       {"\"y\""}},
  };
  for (const Refused& refused : cases) {
    std::vector<std::string> arguments;
    for (std::string argument : refused.arguments) {
      if (argument == "$") argument = store.path;
      if (argument.starts_with("@")) argument = store.dir / argument.substr(1);
      arguments.push_back(argument);
    }
    const CommandResult result = call(arguments);
    const std::string what = refused.arguments.back();
    EXPECT_EQ(result.exit, refused.exit) << what << ": " << result.err;
    EXPECT_TRUE(result.err.starts_with("graphtap: ")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const char* word : refused.words) {
      EXPECT_NE(result.err.find(word), std::string::npos) << what << ": " << result.err;
    }
    EXPECT_FALSE(fs::exists(store.dir / "s")) << what;
  }
}

TEST(ImportCommand, D6_AForeignTensorIsStoredUnderItsHookAndRequest) {
  TempDir dir;
  const std::string header = R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  std::ofstream(dir / "f.safetensors", std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header << std::string(8, '\0');
  const CommandResult result =
      call({"import", dir / "f.safetensors", "--store", dir / "s", "--hook", "blocks.3.resid_pre",
            "--request", "r", "--first-token", "5", "--model", "m"});
  EXPECT_EQ(result.exit, Exit::ok) << result.err;
  const CommandResult shown = call({"show", dir / "s", "--request", "r", "--json"});
  const Json row = Json::parse(shown.out)["rows"][0];
  EXPECT_EQ(row["hook"], "blocks.3.resid_pre");
  EXPECT_EQ(row["token"], 5);
}

TEST(QueryCommand, D6_SqlOverTheIndexInThreeForms) {
  SampleStore store;
  store.close();
  const std::string sql = "SELECT id, prompt_tokens AS p, NULL AS n FROM requests ORDER BY serial";
  const CommandResult table = call({"query", store.path, sql});
  EXPECT_EQ(table.exit, Exit::ok) << table.err;
  EXPECT_EQ(table.err, "");
  expect_words(table.out, {"id", "alpha", "beta", "-"});
  EXPECT_EQ(call({"query", store.path, sql, "--csv"}).out, "id,p,n\nalpha,2,\nbeta,2,\n");
  EXPECT_EQ(Json::parse(call({"query", store.path, sql, "--json"}).out),
            Json::parse(R"([{"id":"alpha","p":2,"n":null},{"id":"beta","p":2,"n":null}])"));
  EXPECT_EQ(call({"query", store.path, "-", "--csv"}, "SELECT 'a,\"b' AS \"x\"").out,
            "x\n\"a,\"\"b\"\n");
  EXPECT_EQ(call({"query", store.path, "SELECT 1 WHERE 0", "--json"}).out, "[]\n");
  EXPECT_EQ(call({"query", store.path, "SELECT 1 AS a WHERE 0", "--csv"}).out, "a\n");
  EXPECT_EQ(Json::parse(call({"query", store.path, "SELECT 1 a, 2 a", "--json"}).out),
            Json::parse(R"([{"a":1,"a:2":2}])"));
  const CommandResult limited = call({"query", store.path, sql, "--limit", "1", "--csv"});
  EXPECT_EQ(limited.out, "id,p,n\nalpha,2,\n");
  expect_words(limited.err, {"--limit 1"});
}

TEST(QueryCommand, E_NothingButReadingIsPossible) {
  SampleStore store;
  store.close();
  const auto before = fs::last_write_time(store.path + "/index.sqlite");
  for (const char* sql :
       {"DELETE FROM runs", "UPDATE runs SET name = ''", "CREATE TABLE x (a)", "DROP TABLE runs",
        "CREATE TEMP TABLE x (a)", "ATTACH '/tmp/x' AS y", "PRAGMA journal_mode = DELETE",
        "PRAGMA query_only = 0", "VACUUM INTO '/tmp/x'", "BEGIN", "REINDEX",
        "SELECT load_extension('x')", "INSERT INTO runs SELECT * FROM runs"}) {
    const CommandResult result = call({"query", store.path, sql});
    EXPECT_EQ(result.exit, Exit::usage) << sql << ": " << result.out << result.err;
    EXPECT_EQ(result.out, "") << sql;
  }
  EXPECT_EQ(fs::last_write_time(store.path + "/index.sqlite"), before);
  EXPECT_EQ(call({"verify", store.path}).exit, Exit::ok);
  EXPECT_EQ(call({"query", store.path, "PRAGMA table_info(runs)"}).exit, Exit::ok);
}

TEST(QueryCommand, E_AnSqlErrorSaysWhereAndSeveralStatementsAreNone) {
  SampleStore store;
  store.close();
  const CommandResult typo = call({"query", store.path, "SELECT * FRM runs"});
  EXPECT_EQ(typo.exit, Exit::usage);
  expect_words(typo.err, {"syntax error", "character 10", "FRM runs"});
  expect_words(call({"query", store.path, "SELECT nme FROM runs"}).err,
               {"no such column: nme", "character 8"});
  expect_words(call({"query", store.path, "SELECT 1; SELECT 2"}).err, {"one statement"});
  expect_words(call({"query", store.path, "  "}).err, {"no statement"});
  expect_words(call({"query", store.path}).err, {"--schema"});
  EXPECT_EQ(call({"query", store.path, "SELECT 1; -- done"}).exit, Exit::ok);
}

TEST(QueryCommand, E_AMissingOrStaleIndexIsTold) {
  SampleStore store;
  // While its writer is at work; the index follows within a second.
  const auto begin = std::chrono::steady_clock::now();
  CommandResult live;
  do {
    live = call({"query", store.path, "SELECT count(*) n FROM runs", "--csv"});
    if (live.exit != Exit::ok) {
      EXPECT_EQ(live.exit, Exit::unavailable) << live.err;
    }
  } while (live.out != "n\n1\n" &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  EXPECT_EQ(live.out, "n\n1\n") << live.err;
  store.close();
  fs::copy_file(store.path + "/index.sqlite", store.dir / "old");
  {
    const auto sink = open_store_sink(store.path, store.table).value_or_throw();
    EXPECT_TRUE(sink->close().ok());
  }
  fs::copy_file(store.dir / "old", store.path + "/index.sqlite",
                fs::copy_options::overwrite_existing);
  const CommandResult stale = call({"query", store.path, "SELECT count(*) n FROM runs", "--csv"});
  EXPECT_EQ(stale.exit, Exit::ok) << stale.err;
  EXPECT_EQ(stale.out, "n\n1\n");
  expect_words(stale.err, {"warning", "lacks", "graphtap index"});
  fs::remove(store.path + "/index.sqlite");
  const CommandResult missing = call({"query", store.path, "SELECT 1"});
  EXPECT_EQ(missing.exit, Exit::not_found);
  expect_words(missing.err, {"index.sqlite", "graphtap index"});
  std::ofstream(store.path + "/index.sqlite") << std::string(5000, 'x');
  const CommandResult broken = call({"query", store.path, "SELECT 1 FROM runs"});
  EXPECT_EQ(broken.exit, Exit::corrupt);
  expect_words(broken.err, {"graphtap index"});
}

TEST(QueryCommand, D6_TheSchemaIsWhatTheIndexHas) {
  SampleStore store;
  store.close();
  std::vector<std::pair<std::string, std::string>> there, told;
  const auto asked =
      query_index(store.path,
                  "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c "
                  "WHERE m.type = 'table' ORDER BY m.rowid, c.cid",
                  [&](const SqlRow& row) {
                    there.emplace_back(std::get<std::string>(row.values[0]),
                                       std::get<std::string>(row.values[1]));
                    return true;
                  });
  ASSERT_TRUE(asked.ok()) << asked.status().message();
  for (const IndexColumn& column : index_columns()) {
    told.emplace_back(column.table, column.name);
    EXPECT_FALSE(column.meaning.empty());
  }
  EXPECT_EQ(told, there);
  expect_words(call({"query", store.path, "--schema"}).out, {"hook_totals", "prompt_tokens"});
}

}  // namespace
}  // namespace graphtap::cli
