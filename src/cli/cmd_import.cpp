#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/subcommands.hpp"
#include "cli/transfer_progress.hpp"
#include "cli/values.hpp"
#include "graphtap/store_import.hpp"

namespace graphtap::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string store, name;
  std::optional<std::string> hook, request, tensor, model, first_token;
  std::string buffer = "32MiB";
  bool progress = false, json = false;
};

constexpr const char* kExamples =
    R"(Files that graphtap exported become a new run: same hooks, request ids, serials and tokens, bit for
bit. A file from elsewhere needs to be told whose rows its tensor (tokens × row) holds.

Examples:
  graphtap import rows.safetensors --store store
  graphtap import out/export.safetensors.index.json --store store
  graphtap import probe.npz --store store --hook blocks.24.resid_pre --request chat-7 --first-token 10)";

ImportOptions read(const Options& options) {
  ImportOptions out;
  out.run_name = options.name;
  out.buffer_bytes = parse_size("--buffer", options.buffer, 1, std::uint64_t{1} << 40);
  if (options.store.empty()) {
    throw Error(Code::invalid_argument, "--store needs a directory: where to import to");
  }
  const bool more = options.request || options.tensor || options.model || options.first_token;
  if (options.hook) {
    ForeignTensor foreign;
    foreign.hook = *options.hook;
    foreign.request = options.request.value_or("");
    foreign.tensor = options.tensor.value_or("");
    if (options.model) foreign.model = *options.model;
    if (options.first_token) {
      foreign.first_token = static_cast<std::int64_t>(
          parse_count("--first-token", *options.first_token, 0, INT64_MAX));
    }
    out.foreign = std::move(foreign);
  } else if (more) {
    throw Error(Code::invalid_argument,
                "--request, --tensor, --model and --first-token describe a tensor from elsewhere: "
                "they need --hook NAME");
  }
  return out;
}

Exit run_import(const Options& options, Console& console) {
  ImportOptions what = read(options);
  const InterruptGuard guard;
  TransferProgress line(console, options.progress);
  what.progress = [&](const ImportProgress& now) {
    line.show({now.rows, now.all_rows, now.bytes, now.all_bytes, 0}, "import");
    return !InterruptGuard::asked();
  };
  const ImportReport report =
      import_files({options.files.begin(), options.files.end()}, options.store, what)
          .value_or_throw();
  line.clear();
  if (options.json) {
    console.out << nlohmann::json{{"runs", report.runs},
                                  {"requests", report.requests},
                                  {"tensors", report.tensors},
                                  {"rows", report.rows},
                                  {"missing_rows", report.missing_rows},
                                  {"bytes", report.bytes},
                                  {"interrupted", report.stopped}}
                       .dump(2)
                << '\n';
  } else {
    std::string runs;
    for (const std::uint32_t run : report.runs) {
      runs += fmt::format("{}{}", runs.empty() ? "" : ", ", run);
    }
    console.out << fmt::format(
        "{}: run {}: {}, {}, {}, {}\n", options.store, runs, counted(report.requests, "request"),
        counted(report.tensors, "tensor"), counted(report.rows, "row"), human_bytes(report.bytes));
    if (report.missing_rows > 0) {
      console.out << fmt::format("{} missing, as before\n",
                                 report.missing_rows == 1
                                     ? std::string("1 row is")
                                     : with_commas(report.missing_rows) + " rows are");
    }
  }
  if (!report.stopped) return Exit::ok;
  console.err << "graphtap: interrupted; the newest run holds what was imported until then\n";
  return Exit::interrupted;
}

}  // namespace

Action setup_import(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_words(app, "FILE", options->files, "safetensors or npz files, or the index of several");
  add_text(app, "--store", options->store, "DIR", "the store to add to; made if there is none");
  add_text(app, "--name", options->name, "TEXT", "of the new run (default: as it was)");
  add_text(app, "--hook", options->hook, "NAME",
           "the tensor is of this hook: blocks.24.resid_pre, final_logits");
  add_text(app, "--request", options->request, "ID", "with --hook: and of this request");
  add_text(app, "--tensor", options->tensor, "NAME", "with --hook: which tensor of the file");
  add_text(app, "--first-token", options->first_token, "N",
           "with --hook: the token of the first row (default 0)");
  add_text(app, "--model", options->model, "NAME", "with --hook: the model of the new run");
  add_text(app, "--buffer", options->buffer, "SIZE", "rows held in memory at a time");
  add_flag(app, "--progress", options->progress, "show progress also where stderr is no terminal");
  add_flag(app, "--json", options->json, "print one JSON document");
  add_examples(app, kExamples);
  return [options](Console& console) { return run_import(*options, console); };
}

}  // namespace graphtap::cli
