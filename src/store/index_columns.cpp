#include "graphtap/store_sql.hpp"

namespace graphtap {
namespace {

constexpr IndexColumn kColumns[] = {
    {"about", "key",
     "store (its id), version (of these tables), state (open, or closed: complete)"},
    {"about", "value", "of the key"},

    {"runs", "run", "number, from 1: one open of the store for writing"},
    {"runs", "id", "32 hexadecimal digits, unique everywhere"},
    {"runs", "name", "as the run was called, or model and time"},
    {"runs", "model", "as its adapter calls it"},
    {"runs", "started_unix_ns", "nanoseconds since 1970"},
    {"runs", "graphtap", "version that wrote it"},

    {"hooks", "run", "of the run"},
    {"hooks", "hook", "number of the hook in its run"},
    {"hooks", "name", "blocks.24.resid_pre, final_logits"},
    {"hooks", "type", "resid_pre"},
    {"hooks", "layer", "-1: it has none"},
    {"hooks", "dtype", "bf16, f32, f8_e4m3, ..."},
    {"hooks", "row_shape", "of one row, as JSON; -1: as wide as the step says"},
    {"hooks", "row_basis", "what a row is of: tokens, requests, experts, fixed"},
    {"hooks", "ordinals", "how often it may fire in one step"},

    {"segments", "segment", "number, as in segments/000001.gts"},
    {"segments", "run", "that wrote it"},
    {"segments", "bytes", "of its whole frames"},
    {"segments", "frames", "steps, events and the run's description"},
    {"segments", "closed", "1: nothing is added any more"},

    {"steps", "segment", "where the step lies"},
    {"steps", "frame", "its place in the segment, from 0"},
    {"steps", "run", "of the run"},
    {"steps", "offset", "bytes from the beginning of the segment"},
    {"steps", "bytes", "of its frame"},
    {"steps", "ticket", "unique in the run, rising"},
    {"steps", "part", "of a step that was delivered in several"},
    {"steps", "lane", "of the model: steps of one lane are in order"},
    {"steps", "step", "number in its lane, from 0"},
    {"steps", "kind", "1 graph, 2 eager"},
    {"steps", "set_version", "of the enabled set that it was planned from"},
    {"steps", "end_unix_ns", "when its end was seen"},
    {"steps", "records", "hooks that delivered"},
    {"steps", "gaps", "hooks that should have"},
    {"steps", "payload_bytes", "of all records"},

    {"requests", "run", "of the run"},
    {"requests", "serial", "number of the request in its run, from 1"},
    {"requests", "prompt_tokens", "where the response begins"},
    {"requests", "id", "the user's; several requests may have one"},

    {"spans", "segment", "where the frames lie"},
    {"spans", "run", "of the run"},
    {"spans", "request", "serial of the request"},
    {"spans", "first_frame", "the first that holds rows or gaps of it"},
    {"spans", "last_frame", "the last (a few between may hold nothing of it)"},
    {"spans", "frames", "that hold something of it"},
    {"spans", "first_token", "smallest token of those frames"},
    {"spans", "end_token", "one past the largest"},

    {"events", "segment", "where the event lies"},
    {"events", "place", "among the events of its segment, from 0"},
    {"events", "run", "of the run"},
    {"events", "request", "serial of the request"},
    {"events", "kind", "1 begun, 2 not computed (cached prefix), 3 rejected (drafts), 4 finished"},
    {"events", "begin_token", "of kinds 2 and 3"},
    {"events", "end_token", "one past the last"},
    {"events", "valid", "of kind 4: 1 if nothing of it is missing"},
    {"events", "records", "of kind 4: that held rows of it"},
    {"events", "gaps", "of kind 4: that should have"},

    {"hook_totals", "segment", "of the segment"},
    {"hook_totals", "run", "of the run"},
    {"hook_totals", "hook", "number of the hook, see hooks"},
    {"hook_totals", "records", "stored"},
    {"hook_totals", "rows", "of those records"},
    {"hook_totals", "tokens", "rows that belong to a request"},
    {"hook_totals", "bytes", "of payload"},

    {"gap_totals", "segment", "of the segment"},
    {"gap_totals", "run", "of the run"},
    {"gap_totals", "hook", "number of the hook, see hooks"},
    {"gap_totals", "reason",
     "1 not fired, 2 fired twice, 3 wrong head, 4 capture, 5 aborted, 6 device error, 7 device "
     "lost, 8 shutdown, 9 source too small, 10 mismatch; shed: 32 ring, 33 timeout, 34 too large, "
     "35 headers"},
    {"gap_totals", "count", "records that are missing for it"},
};

}  // namespace

std::span<const IndexColumn> index_columns() noexcept { return kColumns; }

}  // namespace graphtap
