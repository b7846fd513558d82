#include "cli/row_query.hpp"

#include "cli/values.hpp"
#include "graphtap/hook_table.hpp"

namespace graphtap::cli {

void add_row_query(CLI::App& app, RowQueryOptions& options) {
  add_text(app, "--request", options.request, "ID", "of this request (every one that has the id)");
  add_text(app, "--serial", options.serial, "N", "of the request with this serial (see ls)");
  add_text(app, "--run", options.run, "N", "of this run");
  add_text(app, "--hooks", options.hooks, "SELECTION", "of these hooks and layers (default: all)");
  add_text(app, "--layer", options.layer, "N", "of this layer");
  add_text(app, "--ordinal", options.ordinal, "N",
           "of hooks that fire several times in a step only this firing, from 0");
  add_text(app, "--tokens", options.tokens, "A-B",
           "tokens A to B, both included; A- for all from A on");
  add_text(app, "--ranks", options.ranks, "RANKS", "captured by these ranks, e.g. tensor=1");
}

Query make_query(const RowQueryOptions& options) {
  Query query;
  if (options.run) {
    query.run = static_cast<std::uint32_t>(parse_count("--run", *options.run, 1, UINT32_MAX));
  }
  if (options.serial) query.serial = parse_count("--serial", *options.serial, 1, UINT64_MAX);
  query.request = options.request.value_or("");
  query.hooks = options.hooks;
  if (options.layer) {
    query.layer = static_cast<int>(parse_count("--layer", *options.layer, 0, kMaxLayer));
  }
  if (options.ordinal) {
    query.ordinal =
        static_cast<std::uint16_t>(parse_count("--ordinal", *options.ordinal, 0, UINT16_MAX));
  }
  if (options.tokens) {
    const TokenSpan span = parse_tokens("--tokens", *options.tokens);
    query.begin = span.begin;
    query.end = span.end;
  }
  if (options.ranks) query.ranks = parse_ranks("--ranks", *options.ranks);
  return query;
}

}  // namespace graphtap::cli
