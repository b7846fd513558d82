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
  graphtap verify store --explain        what each finding and each gap means
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

std::string text(const Options& options, const VerifyReport& report, const Incomplete& incomplete) {
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
  const std::uint64_t errors = report.count(Severity::error);
  const std::uint64_t warnings = report.count(Severity::warning);
  out += errors > 0 ? fmt::format("DAMAGED: {}", counted(errors, "error")) : std::string("intact");
  if (warnings > 0) out += ", " + counted(warnings, "warning");
  return out + (incomplete.any() ? "; something wanted is missing (see above)\n" : ", complete\n");
}

Json to_json(const VerifyReport& report, const Incomplete& incomplete) {
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
          {"complete", !incomplete.any()}};
}

Exit verify(const Options& options, Console& console) {
  const VerifyReport report = verify_store(options.store, options.deep).value_or_throw();
  const Incomplete incomplete = look_for_gaps(*open_store(options.store));
  if (options.json) {
    console.out << to_json(report, incomplete).dump(2) << '\n';
  } else {
    console.out << text(options, report, incomplete);
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
