#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/store_words.hpp"
#include "cli/subcommands.hpp"
#include "cli/text_table.hpp"
#include "cli/totals.hpp"
#include "cli/values.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string store;
  std::optional<std::string> run, request;
  bool json = false;
};

constexpr const char* kExamples = R"(Examples:
  graphtap ls store                    runs, requests, and the hooks of the newest run
  graphtap ls store --run 2            another run
  graphtap ls store --request chat-7   one request (several may share an id)
  graphtap ls store --json | jq '.runs[].requests[].id')";

/// What is listed of one run.
struct RunListing {
  const RunSummary* run = nullptr;
  std::vector<RequestSummary> requests;
  std::vector<TotalsRow> totals;
};

RunListing list(const StoreReader& reader, const RunSummary& run, const std::string& request) {
  RunListing listing;
  listing.run = &run;
  RequestFilter filter;
  filter.run = run.run->number;
  filter.id = request;
  listing.requests = reader.requests(filter);
  listing.totals = group_totals(reader.totals(run.run->number).value_or_throw());
  return listing;
}

std::string head_text(const StoreSummary& store) {
  return fmt::format(
      "{}: {}, {} in {}; {}\n", store.path, counted(store.runs.size(), "run"),
      human_bytes(store.file_bytes), counted(store.segments, "segment"),
      store.writer.empty() ? "nobody is writing" : "being written by " + store.writer);
}

/// "tensor 1 of 4, pipeline 0 of 2"; empty for a run of one process.
std::string ranks_text(const RunInfo& run) {
  std::string text;
  const auto group = [&](std::string_view name, std::int32_t rank, std::int32_t size) {
    if (rank == 0 && size <= 1) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, rank);
    if (size > 0) text += fmt::format(" of {}", size);
  };
  group("tensor", run.ranks.tensor, run.world.tensor);
  group("pipeline", run.ranks.pipeline, run.world.pipeline);
  group("data", run.ranks.data, run.world.data);
  group("expert", run.ranks.expert, run.world.expert);
  return text;
}

std::string runs_text(const StoreSummary& store) {
  const bool ranked = std::any_of(store.runs.begin(), store.runs.end(), [](const RunSummary& run) {
    return !ranks_text(*run.run).empty();
  });
  TextTable table({{"run", true},
                   {"name"},
                   {"model"},
                   {"started (UTC)"},
                   {"state"},
                   {"steps", true},
                   {"requests", true},
                   {"records", true},
                   {"bytes", true},
                   {"missing", true},
                   {"shed", true},
                   {ranked ? "rank" : ""}});
  for (const RunSummary& run : store.runs) {
    table.add({std::to_string(run.run->number), one_line(run.run->name, 40),
               one_line(run.run->model, 30), utc_time(run.run->started_unix_ns),
               to_string(run.state), with_commas(run.steps), with_commas(run.requests),
               with_commas(run.records), human_bytes(run.payload_bytes), with_commas(run.missing),
               with_commas(run.shed), ranks_text(*run.run)});
  }
  return table.text();
}

std::string run_text(const RunListing& listing) {
  std::string text = fmt::format("\nrequests of run {}\n", listing.run->run->number);
  TextTable table({{"serial", true},
                   {"id"},
                   {"prompt", true},
                   {"tokens stored"},
                   {"steps", true},
                   {"not computed", true},
                   {"rejected", true},
                   {"completeness"}});
  const auto sum = [](const std::vector<TokenRange>& all) {
    std::int64_t tokens = 0;
    for (const TokenRange& range : all) tokens += range.end - range.begin;
    return with_commas(static_cast<std::uint64_t>(tokens));
  };
  for (const RequestSummary& request : listing.requests) {
    table.add({std::to_string(request.serial), one_line(request.id, 40),
               with_commas(static_cast<std::uint64_t>(request.prompt_tokens)),
               tokens_text(request.tokens), with_commas(request.steps), sum(request.not_computed),
               sum(request.rejected), completeness(request)});
  }
  text += table.text(2);
  text += fmt::format("\nhooks of run {}\n", listing.run->run->number);
  return text + totals_text(listing.totals, 2);
}

Json ranks_json(const Ranks& ranks) {
  return {{"tensor", ranks.tensor},
          {"pipeline", ranks.pipeline},
          {"data", ranks.data},
          {"expert", ranks.expert}};
}

Json to_json(const StoreSummary& store, const std::vector<RunListing>& listings) {
  Json runs = Json::array();
  const auto pairs = [](const std::vector<TokenRange>& all) {
    Json list = Json::array();
    for (const TokenRange& range : all) list.push_back({range.begin, range.end});
    return list;
  };
  for (const RunListing& listing : listings) {
    const RunSummary& run = *listing.run;
    Json requests = Json::array();
    for (const RequestSummary& request : listing.requests) {
      requests.push_back({{"serial", request.serial},
                          {"id", one_line(request.id)},
                          {"prompt_tokens", request.prompt_tokens},
                          {"tokens", {request.tokens.begin, request.tokens.end}},
                          {"steps", request.steps},
                          {"finished", request.finished},
                          {"valid", request.valid},
                          {"gaps", request.gaps},
                          {"not_computed", pairs(request.not_computed)},
                          {"rejected", pairs(request.rejected)}});
    }
    runs.push_back({{"number", run.run->number},
                    {"id", run.run->id},
                    {"name", one_line(run.run->name)},
                    {"model", one_line(run.run->model)},
                    {"ranks", ranks_json(run.run->ranks)},
                    {"world", ranks_json(run.run->world)},
                    {"started_unix_ns", run.run->started_unix_ns},
                    {"state", to_string(run.state)},
                    {"steps", run.steps},
                    {"records", run.records},
                    {"payload_bytes", run.payload_bytes},
                    {"missing", run.missing},
                    {"shed", run.shed},
                    {"requests", std::move(requests)},
                    {"hooks", totals_json(listing.totals)}});
  }
  return {{"path", store.path},
          {"segments", store.segments},
          {"file_bytes", store.file_bytes},
          {"writer", store.writer},
          {"runs", std::move(runs)}};
}

Exit ls(const Options& options, Console& console) {
  const auto reader = open_store(options.store);
  const StoreSummary store = reader->summary();
  std::vector<RunListing> listings;
  if (options.json && !options.run) {
    for (const RunSummary& run : store.runs) {
      listings.push_back(list(*reader, run, options.request.value_or("")));
    }
  } else if (!store.runs.empty() || options.run) {
    listings.push_back(
        list(*reader, *choose_run(store, options.run), options.request.value_or("")));
  }
  if (options.request) {
    bool found = false;
    for (const RunListing& listing : listings) found = found || !listing.requests.empty();
    if (!found) {
      throw Error(Code::not_found,
                  fmt::format("--request {}: no such request in {}; graphtap ls {} "
                              "lists them",
                              one_line(*options.request),
                              options.run ? "that run" : "the newest run", options.store));
    }
  }
  if (options.json) {
    console.out << to_json(store, listings).dump(2) << '\n';
  } else {
    console.out << head_text(store) << runs_text(store);
    for (const RunListing& listing : listings) console.out << run_text(listing);
  }
  warn_of(console, store.findings);
  return Exit::ok;
}

}  // namespace

Action setup_ls(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_text(app, "--run", options->run, "N", "requests and hooks of this run (default: the newest)");
  add_text(app, "--request", options->request, "ID", "only requests with this id");
  add_flag(app, "--json", options->json, "print one JSON document, with every run");
  add_examples(app, kExamples);
  return [options](Console& console) { return ls(*options, console); };
}

}  // namespace graphtap::cli
