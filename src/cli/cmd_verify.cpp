#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/store_words.hpp"
#include "cli/subcommands.hpp"
#include "cli/values.hpp"
#include "graphtap/store_verify.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string store;
  bool deep = false, explain = false, complete = false, json = false;
};

constexpr const char* kExamples =
    R"(Exit code 1: something stored is damaged (error findings), or, with --complete, something that was
wanted is missing. Warnings alone do not fail: nothing stored is lost by them.

Examples:
  graphtap verify store                  heads, footers, order, slices, the index
  graphtap verify store --deep           also every payload's checksum
  graphtap verify store --explain        what each finding and gap means; drafts, recomputed and
                                         unattributed rows, parts of a tensor-parallel model
  graphtap verify store --complete       fail on gaps, unfinished requests and interrupted runs too)";

/// What is missing, as far as the store itself says so.
struct Incomplete {
  std::map<GapReason, std::uint64_t> gaps;
  std::uint64_t unfinished_requests = 0;
  std::uint64_t interrupted_runs = 0;

  [[nodiscard]] bool any() const {
    return !gaps.empty() || unfinished_requests > 0 || interrupted_runs > 0;
  }
};

Incomplete look_for_gaps(const StoreReader& reader) {
  Incomplete incomplete;
  for (const RunSummary& run : reader.summary().runs) {
    incomplete.interrupted_runs += run.state == RunSummary::State::interrupted ? 1 : 0;
    const std::vector<HookTotals> totals = reader.totals(run.run->number).value_or_throw();
    for (const HookTotals& hook : totals) {
      for (std::size_t i = 0; i < hook.gaps.size(); ++i) {
        if (hook.gaps[i] > 0) incomplete.gaps[static_cast<GapReason>(i)] += hook.gaps[i];
      }
    }
  }
  for (const RequestSummary& request : reader.requests()) {
    incomplete.unfinished_requests += request.finished ? 0 : 1;
  }
  return incomplete;
}

std::string_view explain(Severity severity) noexcept {
  switch (severity) {
    case Severity::note:
      return "nothing is wrong; a store that is being written looks like that";
    case Severity::warning:
      return "nothing stored is lost: readers pass it over, graphtap index rebuilds what is "
             "derived";
    case Severity::error:
      return "what was stored there cannot be read; readers leave it out and say so, the rest is "
             "intact";
  }
  return "";
}

constexpr std::size_t kMostRequests = 20;  // of a run, explained one by one

std::string ranks_text(const std::vector<std::int32_t>& ranks) {
  return ranges(std::vector<int>(ranks.begin(), ranks.end()));
}

/// What is not plain about a request's rows, as clauses.
std::string explain(const RequestAccount& request) {
  std::vector<std::string> clauses;
  const auto clause = [&](std::uint64_t count, std::string_view noun, std::string_view what) {
    if (count > 0) clauses.push_back(fmt::format("{} {}", counted(count, noun), what));
  };
  clause(request.recomputed_rows, "row", "computed again (reading a range takes the later ones)");
  clause(request.speculative_rows, "draft row", "of which");
  if (request.speculative_rows > 0)
    clauses.back() += fmt::format(" {} not accepted", with_commas(request.rejected_rows));
  else
    clause(request.rejected_rows, "row", "that were not accepted");
  clause(request.not_computed_tokens, "token", "from a prefix cache (no rows exist)");
  for (std::size_t i = 0; i < request.gaps.size(); ++i)
    clause(request.gaps[i], "record",
           fmt::format("missing ({})", to_string(static_cast<GapReason>(i))));
  return fmt::format("{}", fmt::join(clauses, ", "));
}

std::string explain(const RunAccount& run) {
  std::string out;
  const auto line = [&](const std::string& what) {
    out += fmt::format("run {}: {}\n", run.run->number, what);
  };
  if (run.unattributed_rows > 0) {
    line(fmt::format(
        "{} in {} belong to no request: counts alone could not place them; show lists "
        "them as unattributed",
        counted(run.unattributed_rows, "row"), counted(run.unattributed_records, "record")));
  }
  if (run.short_records > 0) {
    line(fmt::format("{} fewer rows than planned: the engine's counts said so (chunked)",
                     run.short_records == 1 ? "1 record has"
                                            : with_commas(run.short_records) + " records have"));
  }
  if (run.gaps_of_no_request > 0) {
    line(fmt::format("{} missing whose rows no request had claimed",
                     counted(run.gaps_of_no_request, "record")));
  }
  if (const auto absent = run.absent_tensor_ranks(); !absent.empty()) {
    line(
        fmt::format("of {} tensor-parallel ranks, {} {} not in this store: sharded hooks are parts "
                    "of rows here; join them with those of the other ranks' stores",
                    run.run->world.tensor, ranks_text(absent), absent.size() == 1 ? "is" : "are"));
  }
  std::size_t said = 0, more = 0;
  for (const RequestAccount& request : run.requests) {
    if (request.plain()) continue;
    if (++said > kMostRequests) {
      ++more;
      continue;
    }
    line(fmt::format("request {} (serial {}): {}", one_line(request.id, 40), request.serial,
                     explain(request)));
  }
  if (more > 0) line(fmt::format("{} more; --json has them all", counted(more, "request")));
  return out;
}

std::string text(const Options& options, const VerifyReport& report, const Incomplete& incomplete,
                 const std::vector<RunAccount>& accounts) {
  std::string out = fmt::format(
      "{}: {}, {}, {}, {}, {}, {}, {} of payload\n", options.store,
      counted(report.segments, "segment"), counted(report.runs, "run"),
      counted(report.steps, "step"), counted(report.records, "record"), counted(report.gaps, "gap"),
      counted(report.events, "request event"), human_bytes(report.payload_bytes));
  out += fmt::format("checked: {}, {}; {}\n", counted(report.frames, "frame"),
                     counted(report.index_rows, "index row"),
                     options.deep
                         ? fmt::format("{} of payload against their checksums",
                                       human_bytes(report.payload_bytes_checked))
                         : std::string("payload checksums were left out (--deep computes them)"));
  for (const Finding& finding : report.findings) {
    out += fmt::format("{}: {} at byte {}: {}\n", to_string(finding.severity), finding.file,
                       finding.offset, finding.what);
    if (options.explain) out += fmt::format("    {}\n", explain(finding.severity));
  }
  for (const auto& [reason, count] : incomplete.gaps) {
    out += fmt::format("gap: {} {}\n", with_commas(count), to_string(reason));
    if (options.explain) out += fmt::format("    {}\n", cli::explain(reason));
  }
  if (incomplete.unfinished_requests > 0) {
    out += fmt::format("incomplete: {} without completion\n",
                       counted(incomplete.unfinished_requests, "request"));
    if (options.explain) {
      out +=
          "    they were still running when the run ended, or it ended without closing the store\n";
    }
  }
  if (incomplete.interrupted_runs > 0) {
    out += fmt::format("incomplete: {} ended without closing the store\n",
                       counted(incomplete.interrupted_runs, "run"));
    if (options.explain)
      out += "    what was written until then reads back; nothing else is claimed\n";
  }
  for (const RunAccount& account : accounts) out += explain(account);
  const std::uint64_t errors = report.count(Severity::error);
  const std::uint64_t warnings = report.count(Severity::warning);
  out += errors > 0 ? fmt::format("DAMAGED: {}", counted(errors, "error")) : std::string("intact");
  if (warnings > 0) out += ", " + counted(warnings, "warning");
  return out + (incomplete.any() ? "; something wanted is missing (see above)\n" : ", complete\n");
}

Json to_json(const RunAccount& run) {
  Json requests = Json::array();
  for (const RequestAccount& request : run.requests) {
    if (request.plain()) continue;
    Json gaps = Json::object();
    for (std::size_t i = 0; i < request.gaps.size(); ++i) {
      if (request.gaps[i] > 0) gaps[to_string(static_cast<GapReason>(i))] = request.gaps[i];
    }
    requests.push_back({{"serial", request.serial},
                        {"id", one_line(request.id)},
                        {"rows", request.rows},
                        {"recomputed_rows", request.recomputed_rows},
                        {"speculative_rows", request.speculative_rows},
                        {"rejected_rows", request.rejected_rows},
                        {"not_computed_tokens", request.not_computed_tokens},
                        {"gaps", std::move(gaps)}});
  }
  return {{"run", run.run->number},
          {"unattributed_rows", run.unattributed_rows},
          {"unattributed_records", run.unattributed_records},
          {"short_records", run.short_records},
          {"gaps_of_no_request", run.gaps_of_no_request},
          {"absent_tensor_ranks", run.absent_tensor_ranks()},
          {"requests", std::move(requests)}};
}

Json to_json(const VerifyReport& report, const Incomplete& incomplete,
             const std::vector<RunAccount>& accounts) {
  Json runs = Json::array();
  for (const RunAccount& account : accounts) runs.push_back(to_json(account));
  Json findings = Json::array(), gaps = Json::object();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"severity", to_string(finding.severity)},
                        {"file", finding.file},
                        {"offset", finding.offset},
                        {"what", one_line(finding.what)}});
  }
  for (const auto& [reason, count] : incomplete.gaps) gaps[to_string(reason)] = count;
  return {{"ok", report.ok()},
          {"segments", report.segments},
          {"runs", report.runs},
          {"frames", report.frames},
          {"steps", report.steps},
          {"records", report.records},
          {"gaps", report.gaps},
          {"events", report.events},
          {"payload_bytes", report.payload_bytes},
          {"payload_bytes_checked", report.payload_bytes_checked},
          {"index_rows", report.index_rows},
          {"findings", std::move(findings)},
          {"gaps_by_reason", std::move(gaps)},
          {"unfinished_requests", incomplete.unfinished_requests},
          {"interrupted_runs", incomplete.interrupted_runs},
          {"complete", !incomplete.any()},
          {"explained", std::move(runs)}};
}

Exit verify(const Options& options, Console& console) {
  const VerifyReport report = verify_store(options.store, options.deep).value_or_throw();
  // Only the descriptions of steps are read here: what is damaged was found above.
  const auto reader =
      StoreReader::open(options.store, {ReadOptions::Check::never}).value_or_throw();
  const Incomplete incomplete = look_for_gaps(*reader);
  const std::vector<RunAccount> accounts =
      options.explain ? reader->accounts() : std::vector<RunAccount>{};
  if (options.json) {
    console.out << to_json(report, incomplete, accounts).dump(2) << '\n';
  } else {
    console.out << text(options, report, incomplete, accounts);
  }
  const bool failed = !report.ok() || (options.complete && incomplete.any());
  return failed ? Exit::damaged : Exit::ok;
}

}  // namespace

Action setup_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_flag(app, "--deep", options->deep, "also compute every payload's checksum");
  add_flag(app, "--explain", options->explain, "say what each finding and gap means");
  add_flag(app, "--complete", options->complete, "fail too if anything wanted is missing");
  add_flag(app, "--json", options->json, "print one JSON document");
  add_examples(app, kExamples);
  return [options](Console& console) { return verify(*options, console); };
}

}  // namespace graphtap::cli
