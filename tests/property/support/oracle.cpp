#include "property/support/oracle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace graphtap::property {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t marker_seed(Firing firing, std::uint64_t serial, std::int64_t token,
                          std::uint64_t step) {
  std::uint64_t seed = mix(firing.first * 131u + firing.second + 1);
  seed = mix(seed ^ (serial * 0x9e3779b97f4a7c15u));
  seed = mix(seed ^ (static_cast<std::uint64_t>(token) + 0x1234567u));
  return mix(seed ^ (step * 0xd1342543de82ef95u));
}

bool lets_through(const LeaseSpec& lease, const RowOwner& row,
                  const std::map<std::uint64_t, Request>& requests) {
  if (lease.unfiltered()) return true;
  const Request& request = requests.at(row.serial);
  if (!lease.requests.empty() &&
      std::count(lease.requests.begin(), lease.requests.end(), request->id) == 0) {
    return false;
  }
  if (row.serial % lease.sampling.every_request != 0) return false;
  const bool prefill = row.token < request->prompt_tokens;
  if (lease.sampling.phase == Sampling::Phase::prefill && !prefill) return false;
  if (lease.sampling.phase == Sampling::Phase::decode && prefill) return false;
  if (lease.windows.empty()) return true;
  return std::any_of(lease.windows.begin(), lease.windows.end(), [&](const TokenWindow& window) {
    const std::int64_t base =
        window.from == TokenWindow::From::response ? request->prompt_tokens : 0;
    return row.token >= base + window.begin && row.token < base + window.end;
  });
}

}  // namespace

void write_marker(std::byte* row, std::size_t bytes, Firing firing, std::uint64_t serial,
                  std::int64_t token, std::uint64_t world_step) {
  std::uint64_t word = marker_seed(firing, serial, token, world_step);
  for (std::size_t at = 0; at < bytes; at += 8) {
    std::memcpy(row + at, &word, std::min<std::size_t>(8, bytes - at));
    word = mix(word + 1);
  }
}

bool is_marker(const std::byte* row, std::size_t bytes, Firing firing, std::uint64_t serial,
               std::int64_t token, std::uint64_t world_step) {
  std::vector<std::byte> want(bytes);
  write_marker(want.data(), bytes, firing, serial, token, world_step);
  return std::memcmp(row, want.data(), bytes) == 0;
}

std::vector<std::uint32_t> wanted_rows_naively(const std::vector<LeaseSpec>& leases,
                                               const Hook& hook, const StepTruth& truth,
                                               std::uint64_t lane_step,
                                               const std::map<std::uint64_t, Request>& requests) {
  const bool owned = hook.rows == RowBasis::tokens || hook.rows == RowBasis::requests;
  const auto& owners = hook.rows == RowBasis::requests ? truth.requests : truth.tokens;
  const std::size_t rows = owned                          ? owners.size()
                           : hook.rows == RowBasis::fixed ? hook.fixed_rows
                                                          : truth.expert_rows;
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const bool any = std::any_of(leases.begin(), leases.end(), [&](const LeaseSpec& lease) {
      return lease.hooks.contains(hook.id) && lane_step % lease.sampling.every_step == 0 &&
             (!owned || lets_through(lease, owners[row], requests));
    });
    if (any) wanted.push_back(row);
  }
  return wanted;
}

void CheckingSink::error(const std::string& what) {
  if (errors.size() < 20) errors.push_back(what);
}

Status CheckingSink::write(const DeliveredStep& step) {
  if (fail_every != 0 && ++writes_ % fail_every == 0)
    return {Code::io_error, "refused by the test"};
  const auto found = truth.find({step.lane, step.step});
  if (found == truth.end()) {
    error(fmt::format("lane {} step {} was never begun", step.lane, step.step));
    return {};
  }
  // I5: a lane's steps come in order, and a step's parts.
  const std::pair<std::uint64_t, std::uint32_t> position{step.step, step.part};
  if (const auto last = last_.find(step.lane); last != last_.end() && position <= last->second) {
    error(fmt::format("I5: lane {} step {} part {} after step {} part {}", step.lane, step.step,
                      step.part, last->second.first, last->second.second));
  }
  last_[step.lane] = position;

  auto& seen = seen_[{step.lane, step.step}];
  for (const Record& record : step.records) {
    check_record(step, found->second, record);
    Seen& slot = seen[{record.hook->id, record.ordinal}];
    ++slot.records;
    ++records;
    if (record.ordinal > 0) ++ordinals;
    std::uint64_t owned = 0;
    for (const Slice& slice : record.slices) {
      owned += slice.rows;
      for (std::uint32_t i = 0; i < slice.rows; ++i) {
        slot.rows.push_back(
            {slice.request->serial, slice.first_token + i, has(slice.flags, RowFlags::recomputed)});
      }
    }
    slot.unowned_rows += record.rows - owned;
  }
  for (const Gap& gap : step.gaps) {
    ++gaps;
    Seen& slot = seen[{gap.hook->id, gap.ordinal}];
    ++slot.gaps;
    slot.reasons.insert(gap.reason);
    for (const Slice& slice : gap.slices) {
      for (std::uint32_t i = 0; i < slice.rows; ++i) {
        slot.gap_rows.push_back(
            {slice.request->serial, slice.first_token + i, has(slice.flags, RowFlags::recomputed)});
      }
    }
  }
  const auto tally = [](std::map<std::uint64_t, std::uint64_t>& into, const auto& slices) {
    std::set<std::uint64_t> serials;
    for (const Slice& slice : slices) serials.insert(slice.request->serial);
    for (const std::uint64_t serial : serials) ++into[serial];
  };
  for (const Record& record : step.records) tally(records_of_request_, record.slices);
  for (const Gap& gap : step.gaps) tally(gaps_of_request_, gap.slices);
  for (const Record& record : step.records) {
    for (const Slice& slice : record.slices) {
      if (finished_.count(slice.request->serial) != 0) {
        error(
            fmt::format("a record of request {} came after its completion", slice.request->serial));
      }
    }
  }
  return {};
}

// Whose row it really is, for the message.
std::string CheckingSink::identify(const std::byte* row, std::size_t bytes) const {
  for (const auto& [where, step] : truth) {
    for (const Hook& hook : table_.hooks()) {
      const auto& owners = hook.rows == RowBasis::requests ? step.requests : step.tokens;
      for (std::uint16_t k = 0; k < hook.ordinals; ++k) {
        for (const RowOwner& owner : owners) {
          if (is_marker(row, bytes, {hook.id, k}, owner.serial, owner.token, step.world_step)) {
            return fmt::format("{} ordinal {} of lane {} step {}, request {} token {}", hook.name,
                               k, where.first, where.second, owner.serial, owner.token);
          }
        }
      }
    }
  }
  return fmt::format("nobody's (first byte {:#04x})", static_cast<unsigned>(*row));
}

// I1: every row is where its label says it came from.
void CheckingSink::check_record(const DeliveredStep& step, const StepTruth& truth_of,
                                const Record& record) {
  const Firing firing{record.hook->id, record.ordinal};
  if (truth_of.wanted.count(firing) == 0) {
    error(fmt::format("{} ordinal {} of lane {} step {} was delivered but not wanted",
                      record.hook->name, record.ordinal, step.lane, step.step));
    return;
  }
  if (record.payload.size() != record.rows * record.row_bytes) {
    error(fmt::format("{}: {} bytes for {} rows", record.hook->name, record.payload.size(),
                      record.rows));
    return;
  }
  const auto row_at = [&](std::uint32_t row) {
    return record.payload.data() + row * record.row_bytes;
  };
  for (const Slice& slice : record.slices) {
    for (std::uint32_t i = 0; i < slice.rows; ++i) {
      if (!is_marker(row_at(slice.row + i), record.row_bytes, firing, slice.request->serial,
                     slice.first_token + i, truth_of.world_step)) {
        error(fmt::format(
            "I1: {} ordinal {} lane {} step {} ({}, fired {}) row {} is not request {} token "
            "{} but {}",
            record.hook->name, record.ordinal, step.lane, step.step,
            step.kind == StepKind::eager ? "eager" : "graph",
            truth_of.fired.count(firing) ? truth_of.fired.at(firing) : 0, slice.row + i,
            slice.request->serial, slice.first_token + i,
            identify(row_at(slice.row + i), record.row_bytes)));
        return;
      }
    }
  }
  if (!record.slices.empty()) return;
  for (std::uint32_t row = 0; row < record.rows;
       ++row) {  // experts and fixed: the row is the token
    if (!is_marker(row_at(row), record.row_bytes, firing, 0, row, truth_of.world_step)) {
      error(fmt::format("I1: {} lane {} step {} unattributed row {} is wrong", record.hook->name,
                        step.lane, step.step, row));
      return;
    }
  }
}

Status CheckingSink::event(const RequestEvent& event) {
  if (event.kind != RequestEvent::Kind::finished) return {};
  const std::uint64_t serial = event.request->serial;
  finished_.insert(serial);
  if (event.records != records_of_request_[serial] || event.gaps != gaps_of_request_[serial]) {
    error(fmt::format("request {} finished with {} records and {} gaps, the sink saw {} and {}",
                      serial, event.records, event.gaps, records_of_request_[serial],
                      gaps_of_request_[serial]));
  }
  if (event.valid != (gaps_of_request_[serial] == 0)) {
    error(fmt::format("request {}: valid = {} with {} gaps", serial, event.valid,
                      gaps_of_request_[serial]));
  }
  return {};
}

void CheckingSink::check_complete() {
  for (const auto& [where, step] : truth) {
    auto& seen = seen_[where];
    for (const auto& [firing, rows] : step.wanted) {
      const Hook& hook = table_[firing.first];
      const std::string label = fmt::format("{} ordinal {} lane {} step {}", hook.name,
                                            firing.second, where.first, where.second);
      Seen& slot = seen[firing];
      std::vector<RowOwner> want;
      if (hook.rows == RowBasis::tokens || hook.rows == RowBasis::requests) {
        const auto& owners = hook.rows == RowBasis::tokens ? step.tokens : step.requests;
        for (const std::uint32_t row : rows) want.push_back(owners[row]);
      }
      std::vector<RowOwner> got = slot.rows;
      got.insert(got.end(), slot.gap_rows.begin(), slot.gap_rows.end());
      std::sort(want.begin(), want.end());
      std::sort(got.begin(), got.end());
      if (want != got) {
        error(fmt::format("I3: {}: {} rows wanted, {} delivered and {} in gaps", label, want.size(),
                          slot.rows.size(), slot.gap_rows.size()));
      }
      if (slot.records + slot.gaps == 0) error(fmt::format("I3: {} is nowhere", label));
      if (!strict || step.anything_goes) continue;
      // I2: what the engine did to this record, and nothing else, decides its fate.
      const auto found = step.fired.find(firing);
      const int fired = found == step.fired.end() ? 0 : found->second;
      for (const GapReason reason : slot.reasons) {
        const bool earned = is_shed(reason) || (reason == GapReason::not_fired && fired == 0) ||
                            (reason == GapReason::fired_twice && fired > 1);
        if (!earned) {
          error(fmt::format("I2: {} is missing ({}) although it fired {} times", label,
                            to_string(reason), fired));
        }
      }
      if (step.kind == StepKind::graph && fired != 1 && slot.records > 0) {
        error(fmt::format("A5: {} was delivered although it fired {} times", label, fired));
      }
    }
    for (const auto& [firing, slot] : seen) {
      if (step.wanted.count(firing) == 0 && slot.records + slot.gaps > 0) {
        error(fmt::format("hook {} ordinal {} lane {} step {} was not wanted", firing.first,
                          firing.second, where.first, where.second));
      }
    }
  }
}

}  // namespace graphtap::property
