#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/report/page.hpp"
#include "cli/report/report_data.hpp"
#include "cli/report/report_json.hpp"
#include "cli/store_words.hpp"
#include "cli/subcommands.hpp"
#include "cli/transcript.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

struct Options {
  std::string store;
  std::optional<std::string> out, run, request, hooks, tokens;
  bool json = false;
  std::string most_requests = "12";
};

constexpr std::size_t kMostPage = 5'000'000;
constexpr std::size_t kFewestCells = 2000;

constexpr const char* kExamples =
    R"(One page that needs nothing else, of 5 MB at most: what was switched on and what was lost over time,
heat maps of norms, layer by token, the requests that lost most, bytes, time between steps. What had no
room is counted on the page. Hooks are types here, without layers.

Examples:
  graphtap report store
      the newest run: residual stream, attention and MLP outputs, as far as captured
  graphtap report store --hooks resid_pre,ln1 --request chat-7 --out chat-7.html
  graphtap report store --run 2 --request chat-7 --tokens 1000-1200
  graphtap report store --out - | less
  graphtap report store --json | jq .history.intervals
      the same data; no page unless --out is given)";

std::vector<std::string> hook_types(const std::string& text) {
  std::vector<std::string> types;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    std::string type = text.substr(begin, comma - begin);
    type.erase(0, type.find_first_not_of(' '));
    type.erase(type.find_last_not_of(' ') + 1);
    if (type.empty() || type.find(':') != std::string::npos) {
      throw Error(Code::invalid_argument,
                  fmt::format("--hooks is \"{}\"; write hook types without layers, such as "
                              "resid_pre,attn_out: a map shows every layer",
                              one_line(text)));
    }
    types.push_back(std::move(type));
    begin = comma + 1;
  }
  return types;
}

// Beside the old page and then in its place, so that there is never half a page.
void write_page(const std::string& path, const std::string& page) {
  const std::string fresh = path + ".new";
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw Error(Code::invalid_argument, fmt::format("--out {} is a directory; name a file", path));
  }
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << page;
  file.close();
  if (file) std::filesystem::rename(fresh, path, error);
  if (!file || error) {
    std::filesystem::remove(fresh, error);
    throw Error(
        Code::io_error,
        fmt::format("--out {} cannot be written; does its directory exist, is there room?", path));
  }
}

// A store decides how long the labels of its cells are, so what fits is found out by making it.
std::string page_of(const StoreReader& reader, const RunSummary& run, ReportOptions wanted,
                    const Transcript& transcript, ReportData& data) {
  data = collect_report(reader, run, wanted);
  std::string page = report_page(data, transcript);
  while (page.size() > kMostPage && wanted.most_cells > kFewestCells) {
    wanted.most_cells /= 2;
    data = collect_report(reader, run, wanted);
    page = report_page(data, transcript);
  }
  return page;
}

Exit report(const Options& options, Console& console) {
  ReportOptions wanted;
  if (options.hooks) wanted.hooks = hook_types(*options.hooks);
  wanted.request = options.request.value_or("");
  wanted.most_requests = parse_count("--most-requests", options.most_requests, 1, 1000);
  if (options.tokens) {
    const TokenSpan span = parse_tokens("--tokens", *options.tokens);
    wanted.begin = span.begin;
    wanted.end = span.end;
  }
  const auto reader = open_store(options.store);
  const StoreSummary store = reader->summary();
  const RunSummary* const run = choose_run(store, options.run);
  Result<Transcript> transcript = read_transcript(options.store, run->run->id);
  if (!transcript.ok()) {
    warn(console, transcript.status().message() + "; the report is made without token texts");
    transcript = Transcript{};
  }
  for (const auto& [serial, text] : transcript.value().requests) {
    // The last token was never fed back: it has no rows.
    const auto tokens = static_cast<std::int64_t>(text.tokens.size());
    wanted.lengths[serial] =
        tokens > static_cast<std::int64_t>(text.prompt_tokens) ? tokens - 1 : tokens;
  }
  ReportData data;
  if (options.json && !options.out) {
    data = collect_report(*reader, *run, wanted);
    console.out << report_json(data).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
    warn_of(console, data.findings);
    return Exit::ok;
  }
  const std::string out = options.out.value_or("report.html");
  if (options.json && out == "-") {
    throw Error(Code::invalid_argument,
                "--json and --out - both want standard output; name a file");
  }
  const std::string page = page_of(*reader, *run, wanted, transcript.value(), data);
  if (out == "-") {
    console.out << page;
  } else if (options.json) {
    write_page(out, page);
    console.out << report_json(data).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
  } else {
    write_page(out, page);
    console.out << fmt::format(
        "{}: {}, {} of {}\n", out, human_bytes(page.size()),
        counted(data.requests.size(), "request"),
        counted(data.requests.empty() ? 0 : data.requests.front().maps.size(), "map"));
  }
  warn_of(console, data.findings);
  return Exit::ok;
}

}  // namespace

Action setup_report(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_text(app, "--out", options->out, "FILE",
           "the page to write; - for standard output (default: report.html)");
  add_text(app, "--run", options->run, "N", "of this run (default: the newest)");
  add_text(app, "--request", options->request, "ID", "only requests with this id");
  add_text(app, "--hooks", options->hooks, "TYPES", "hook types to draw, e.g. resid_pre,attn_out");
  add_text(app, "--tokens", options->tokens, "A-B", "only these tokens of each request");
  add_flag(app, "--json", options->json, "print the data as one JSON document");
  add_text(app, "--most-requests", options->most_requests, "N", "draw at most N requests");
  add_examples(app, kExamples);
  return [options](Console& console) { return report(*options, console); };
}

}  // namespace graphtap::cli
