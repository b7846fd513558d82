#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/row_query.hpp"
#include "cli/store_words.hpp"
#include "cli/subcommands.hpp"
#include "cli/transfer_progress.hpp"
#include "cli/values.hpp"
#include "graphtap/store_export.hpp"

namespace graphtap::cli {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string store, to;
  RowQueryOptions query;
  std::optional<std::string> format;
  std::string max_file_bytes = "4GiB", buffer = "64MiB";
  bool compress = false, float32 = false, no_verify = false, overwrite = false;
  bool progress = false, json = false;
};

constexpr const char* kExamples =
    R"(One tensor for each run, request, hook and firing: tokens × row. Its name is REQUEST/HOOK; rows that
are missing are zero, and the file says which and why (docs/export.md). Interrupted, the same command
goes on with the files that are lacking.

Examples:
  graphtap export store --to rows.safetensors
  graphtap export store --request chat-7 --hooks resid_pre:20-29 --tokens 10- --to chat-7.npz
  graphtap export store --to out/ --max-file-bytes 1GiB         several files and their index
  graphtap export store --to rows.npz --float32 --compress)";

ExportFormat format_of(const Options& options) {
  constexpr ExportFormat kFormats[] = {ExportFormat::safetensors, ExportFormat::npz};
  if (options.format) {
    return kFormats[parse_word("--format", *options.format, {"safetensors", "npz"})];
  }
  return options.to.ends_with(".npz") ? ExportFormat::npz : ExportFormat::safetensors;
}

ExportOptions read(const Options& options) {
  ExportOptions out;
  out.format = format_of(options);
  out.max_file_bytes =
      parse_size("--max-file-bytes", options.max_file_bytes, 1, std::uint64_t{1} << 50);
  out.buffer_bytes = parse_size("--buffer", options.buffer, 1, std::uint64_t{1} << 40);
  out.compress = options.compress;
  out.float32 = options.float32;
  out.verify = !options.no_verify;
  out.overwrite = options.overwrite;
  if (options.to.empty()) throw Error(Code::invalid_argument, "--to needs a file or a directory");
  if (options.compress && out.format != ExportFormat::npz) {
    throw Error(Code::invalid_argument,
                "--compress is for npz: a safetensors file holds raw bytes");
  }
  return out;
}

Json to_json(const ExportReport& report, const ExportOptions& options) {
  Json files = Json::array();
  for (const auto& file : report.files) files.push_back(one_line(file.string(), 4096));
  return {{"files", files},
          {"index", one_line(report.index.string(), 4096)},
          {"tensors", report.tensors},
          {"rows", report.rows},
          {"missing_rows", report.missing_rows},
          {"bytes", report.bytes},
          {"unattributed_rows", report.unattributed_rows},
          {"kept_files", report.kept_files},
          {"written_files", report.written_files},
          {"verified", options.verify},
          {"interrupted", report.stopped}};
}

std::string text(const ExportReport& report, const ExportOptions& options) {
  const std::string where =
      report.files.size() == 1
          ? report.files.front().string()
          : fmt::format("{} ({})", report.index.string(), counted(report.files.size(), "file"));
  std::string out = fmt::format("{}: {}, {}, {}{}\n", where, counted(report.tensors, "tensor"),
                                counted(report.rows, "row"), human_bytes(report.bytes),
                                options.verify ? ", read back and verified" : "");
  if (report.kept_files > 0) {
    out += fmt::format("{} from before were kept\n", counted(report.kept_files, "finished file"));
  }
  if (report.missing_rows > 0) {
    out += fmt::format("{} missing and zero; the file says which, and why\n",
                       report.missing_rows == 1 ? std::string("1 row is")
                                                : with_commas(report.missing_rows) + " rows are");
  }
  return out;
}

Exit run_export(const Options& options, Console& console) {
  ExportOptions what = read(options);
  const Query query = make_query(options.query);
  const auto reader = open_store(options.store);
  const InterruptGuard guard;
  TransferProgress line(console, options.progress);
  what.progress = [&](const ExportProgress& now) {
    std::string doing = now.verifying ? "verifying" : "export";
    if (now.files > 1) doing += fmt::format(" (file {} of {})", now.file, now.files);
    line.show({now.rows, now.all_rows, now.bytes, now.all_bytes, now.resumed_bytes}, doing);
    return !InterruptGuard::asked();
  };
  const ExportReport report = export_store(*reader, query, options.to, what).value_or_throw();
  line.clear();
  if (options.json) {
    console.out << to_json(report, what).dump(2) << '\n';
  } else if (!report.stopped) {
    console.out << text(report, what);
  }
  warn_of(console, reader->findings());
  if (report.unattributed_rows > 0) {
    warn(console, fmt::format("{} that no request could be found for are left out",
                              counted(report.unattributed_rows, "row")));
  }
  if (!report.stopped) return Exit::ok;
  console.err << fmt::format(
      "graphtap: interrupted; {} of {} are whole: the same command goes on from there\n",
      report.kept_files + report.written_files, counted(report.files.size(), "file"));
  return Exit::interrupted;
}

}  // namespace

Action setup_export(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_word(app, "STORE", options->store, "the store's directory");
  add_text(app, "--to", options->to, "PATH",
           "a file that ends in .safetensors or .npz, or a directory");
  add_text(app, "--format", options->format, "NAME",
           "safetensors or npz (default: as --to ends, else safetensors)");
  add_row_query(app, options->query);
  add_flag(app, "--float32", options->float32,
           "widen f16, bf16 and fp8 values to float32, exactly");
  add_flag(app, "--compress", options->compress, "deflate an npz file");
  add_text(app, "--max-file-bytes", options->max_file_bytes, "SIZE",
           "begin another file after that");
  add_text(app, "--buffer", options->buffer, "SIZE", "rows held in memory at a time");
  add_flag(app, "--no-verify", options->no_verify, "do not read back what was written");
  add_flag(app, "--overwrite", options->overwrite, "replace what is there");
  add_flag(app, "--progress", options->progress, "show progress also where stderr is no terminal");
  add_flag(app, "--json", options->json, "print one JSON document");
  add_examples(app, kExamples);
  return [options](Console& console) { return run_export(*options, console); };
}

}  // namespace graphtap::cli
