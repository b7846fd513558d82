#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/subcommands.hpp"
#include "cli/values.hpp"
#include "graphtap/store_verify.hpp"

namespace graphtap::cli {
namespace {

struct Options {
  std::string store;
  bool json = false;
};

constexpr const char* kExamples =
    R"(The index is derived: everything in it comes from the segments, and graphtap itself reads the
segments. It is there for SQL. Rebuild it when verify says that it is behind.

Examples:
  graphtap index store
  sqlite3 store/index.sqlite .schema)";

Exit index(const Options& options, Console& console) {
  const IndexReport report = rebuild_index(options.store).value_or_throw();
  if (options.json) {
    console.out << nlohmann::json{{"segments", report.segments},
                                  {"steps", report.steps},
                                  {"requests", report.requests}}
                       .dump(2)
                << '\n';
  } else {
    console.out << fmt::format("{}/index.sqlite rebuilt from {}: {}, {}\n", options.store,
                               counted(report.segments, "segment"), counted(report.steps, "step"),
                               counted(report.requests, "request"));
  }
  return Exit::ok;
}

}  // namespace

Action setup_index(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_flag(app, "--json", options->json, "print one JSON document");
  add_examples(app, kExamples);
  return [options](Console& console) { return index(*options, console); };
}

}  // namespace graphtap::cli
