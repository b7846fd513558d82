#include "store/export/importer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "graphtap/store_reader.hpp"
#include "store/layout.hpp"
#include "store/open_sink.hpp"

namespace graphtap {

Result<ImportReport> import_files(const std::vector<std::filesystem::path>& files,
                                  const std::filesystem::path& store,
                                  const ImportOptions& options) {
  Result<store::ImportSource> source = store::ImportSource::open(files, options.foreign);
  if (!source.ok()) return source.status();
  return store::Importer(store::FileOps::posix(), source.value(), options).run(store);
}

}  // namespace graphtap

namespace graphtap::store {
namespace {

using Kind = RequestEvent::Kind;
using Why = MissingTokens::Why;

constexpr std::uint64_t kMostRows = 1 << 20;  // of one step

std::uint64_t rows_of(const TokenRange& range) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, range.end - range.begin));
}

TokenRange overlap(const TokenRange& a, const TokenRange& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

struct Importer::Rows {
  HookId hook = 0;
  std::uint16_t ordinal = 0;
  std::int64_t columns = 0;
  std::uint64_t row_bytes = 0;
  std::uint32_t count = 0;
  std::vector<std::byte> bytes;  // of the rows that are there
  std::vector<Slice> slices;
};

Importer::Importer(FileOps& ops, ImportSource& source, const ImportOptions& options)
    : ops_(ops), source_(source), options_(options) {
  for (const ImportRun& run : source_.runs) {
    for (const auto& [serial, request] : run.requests) {
      for (const ImportTensor& tensor : request.tensors) {
        const std::uint64_t rows = rows_of(tensor.what.tokens);
        progress_.all_rows += rows;
        progress_.all_bytes += rows * tensor.row_bytes;
      }
    }
  }
}

Result<ImportReport> Importer::run(const std::filesystem::path& store) {
  std::size_t written = 0;
  const auto numbers_of_new_runs = [&] {
    const auto reader = StoreReader::open(store);
    if (!reader.ok()) return;
    const auto runs = reader.value()->runs();
    for (std::size_t i = runs.size() - std::min(written, runs.size()); i < runs.size(); ++i) {
      report_.runs.push_back(runs[i]->number);
    }
  };
  for (ImportRun& run : source_.runs) {
    StoreOptions options;
    options.run_name = options_.run_name.empty() ? run.info.name : options_.run_name;
    options.ranks = run.info.ranks;
    options.world = run.info.world;
    auto sink = open_sink(ops_, store, *run.table, options);
    if (!sink.ok()) return sink.status();
    ++written;
    Status status = write(*sink.value(), run);
    const Status closed = sink.value()->close();
    if (status.ok()) status = closed;
    if (report_.stopped) break;
    if (!status.ok()) {
      return Status(status.code(),
                    fmt::format("{} (the store's newest run holds what was imported until then)",
                                status.message()));
    }
  }
  numbers_of_new_runs();
  return std::move(report_);
}

Status Importer::write(Sink& sink, ImportRun& run) {
  ticket_ = 0;
  for (auto& [serial, request] : run.requests) {
    if (Status s = write(sink, run, request); !s.ok()) return s;
  }
  return {};
}

Status Importer::write(Sink& sink, const ImportRun& run, ImportRequest& request) {
  const DocumentRequest& what = request.what;
  const Request who =
      std::make_shared<const RequestInfo>(RequestInfo{what.serial, what.id, what.prompt_tokens});
  records_ = gaps_ = 0;
  if (Status s = sink.event({Kind::begun, who}); !s.ok()) return s;
  for (const TokenRange& range : what.not_computed) {
    if (Status s = sink.event({Kind::not_computed, who, range.begin, range.end}); !s.ok()) return s;
  }
  // It means what was stored before it, which is nothing: the drafts' rows were left out, and what
  // comes now was accepted.
  for (const TokenRange& range : what.rejected) {
    if (Status s = sink.event({Kind::rejected, who, range.begin, range.end}); !s.ok()) return s;
  }
  TokenRange all{std::numeric_limits<std::int64_t>::max(), 0};
  std::uint64_t token_bytes = 1;
  for (const ImportTensor& tensor : request.tensors) {
    all.begin = std::min(all.begin, tensor.what.tokens.begin);
    all.end = std::max(all.end, tensor.what.tokens.end);
    token_bytes += tensor.row_bytes;
  }
  const auto at_once = static_cast<std::int64_t>(
      std::clamp<std::uint64_t>(options_.buffer_bytes / token_bytes, 1, kMostRows));
  for (std::int64_t at = all.begin; at < all.end;) {
    // Tokens that no tensor has are passed over in one go.
    std::int64_t next = all.end;
    const TokenRange window{at, std::min(all.end - at, at_once) + at};
    std::vector<Rows> rows;
    std::uint64_t bytes = 0;
    for (ImportTensor& tensor : request.tensors) {
      const TokenRange tokens = overlap(tensor.what.tokens, window);
      if (tensor.what.tokens.end > window.end) {
        next = std::min(next, std::max(window.end, tensor.what.tokens.begin));
      }
      if (rows_of(tokens) == 0) continue;
      rows.emplace_back();
      if (Status s = read_rows(tensor, tokens, who, rows.back()); !s.ok()) return s;
      report_.rows += rows.back().count;
      report_.missing_rows += rows_of(tokens) - rows.back().count;
      report_.bytes += rows.back().bytes.size();
      progress_.rows += rows_of(tokens);
      bytes += rows_of(tokens) * tensor.row_bytes;
    }
    if (Status s = write_rows(sink, run, who, rows); !s.ok()) return s;
    progress_.bytes += bytes;
    if (options_.progress && !options_.progress(progress_)) {
      report_.stopped = true;
      return {Code::timeout, "stopped"};
    }
    at = next;
  }
#ifndef GRAPHTAP_BUG_import_forgets_gaps
  if (Status s = write_gaps(sink, run, who, request.tensors); !s.ok()) return s;
#endif
  if (what.finished) {
    const bool valid = what.valid && gaps_ == 0;
    if (Status s = sink.event({Kind::finished, who, 0, 0, valid, records_, gaps_}); !s.ok()) {
      return s;
    }
  }
  ++report_.requests;
  report_.tensors += request.tensors.size();
  return {};
}

/// The rows of `tokens` that are there, closed up; the tensor is read from front to back.
Status Importer::read_rows(ImportTensor& tensor, TokenRange tokens, const Request& request,
                           Rows& out) {
  out.hook = tensor.what.hook;
  out.ordinal = tensor.what.ordinal;
  out.columns = tensor.what.columns;
  out.row_bytes = tensor.row_bytes;
  out.bytes.resize(rows_of(tokens) * tensor.row_bytes);
  if (Status s = tensor.file->read(tensor.index, out.bytes); !s.ok()) return s;
  const auto keep = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    const auto rows = static_cast<std::uint32_t>(end - begin);
    const auto from = static_cast<std::uint64_t>(begin - tokens.begin) * tensor.row_bytes;
    std::memmove(out.bytes.data() + out.count * tensor.row_bytes, out.bytes.data() + from,
                 rows * tensor.row_bytes);
    out.slices.push_back({request, begin, out.count, rows, RowFlags::none});
    out.count += rows;
  };
  std::int64_t at = tokens.begin;
  for (const MissingTokens& missing : tensor.what.missing) {
    const TokenRange range = overlap(missing.tokens, tokens);
    if (range.begin >= range.end) continue;
    keep(at, range.begin);
    at = range.end;
  }
  keep(at, tokens.end);
  out.bytes.resize(out.count * tensor.row_bytes);
  return {};
}

Status Importer::write_rows(Sink& sink, const ImportRun& run, const Request&,
                            const std::vector<Rows>& rows) {
  DeliveredStep step;
  for (const Rows& each : rows) {
    if (each.count == 0) continue;
    step.records.push_back({&(*run.table)[each.hook], each.ordinal, each.count, each.row_bytes,
                            each.columns, each.bytes, each.slices});
  }
  records_ += step.records.size();
  return write_step(sink, run, std::move(step));
}

/// A step says one thing of a hook and ordinal, so that the second gap of each goes into another
/// step than the first, and so on.
Status Importer::write_gaps(Sink& sink, const ImportRun& run, const Request& request,
                            const std::vector<ImportTensor>& tensors) {
  std::vector<std::vector<std::pair<const ImportTensor*, const MissingTokens*>>> steps;
  for (const ImportTensor& tensor : tensors) {
    std::size_t nth = 0;
    for (const MissingTokens& missing : tensor.what.missing) {
      if (missing.why != Why::gap) continue;
      if (nth == steps.size()) steps.emplace_back();
      steps[nth++].emplace_back(&tensor, &missing);
    }
  }
  for (const auto& gaps : steps) {
    DeliveredStep step;
    std::vector<std::vector<Slice>> slices;
    slices.reserve(gaps.size());
    for (const auto& [tensor, missing] : gaps) {
      std::vector<Slice>& list = slices.emplace_back();
      std::uint32_t row = 0;
      for (std::int64_t at = missing->tokens.begin; at < missing->tokens.end;) {
        const auto rows =
            static_cast<std::uint32_t>(std::min<std::int64_t>(missing->tokens.end - at, kMostRows));
        list.push_back({request, at, row, rows, RowFlags::none});
        row += rows;
        at += rows;
      }
      step.gaps.push_back(
          {&(*run.table)[tensor->what.hook], tensor->what.ordinal, missing->reason, list});
    }
    gaps_ += step.gaps.size();
    if (Status s = write_step(sink, run, std::move(step)); !s.ok()) return s;
  }
  return {};
}

Status Importer::write_step(Sink& sink, const ImportRun& run, DeliveredStep step) {
  if (step.records.empty() && step.gaps.empty()) return {};
  std::vector<HookId> hooks;
  for (const Record& record : step.records) hooks.push_back(record.hook->id);
  for (const Gap& gap : step.gaps) hooks.push_back(gap.hook->id);
  step.table = run.table.get();
  step.step = ticket_;
  step.ticket = ++ticket_;
  step.kind = StepKind::eager;
  step.ranks = run.info.ranks;
  step.end_unix_ns = unix_now_ns();
  step.wanted = HookSet::of(run.table->size(), hooks);
  return sink.write(step);
}

}  // namespace graphtap::store
