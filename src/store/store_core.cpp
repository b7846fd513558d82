#include "store/store_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace graphtap {

using store::FrameState;
using store::RequestState;
using store::RunState;
using store::Segment;

namespace {

std::string run_id(const Segment& segment) {
  store::Id id{};
  std::memcpy(id.data(), segment.head().run_id, id.size());
  return store::to_hex(id);
}

/// A torn end, said so that it is clear what it means.
Finding torn_end(const Segment& segment, bool writing) {
  const Segment::Tail& tail = segment.tail();
  if (writing) {
    return {Severity::note, segment.name(), tail.offset,
            fmt::format("{} bytes of a frame that is being written", tail.bytes)};
  }
  return {Severity::warning, segment.name(), tail.offset,
          segment.has_head()
              ? fmt::format(
                    "ends with {} bytes of a frame that was never finished; what it holds was not "
                    "acknowledged",
                    tail.bytes)
              : fmt::format("ends after {} bytes, before its head was written: it holds nothing",
                            tail.bytes)};
}

}  // namespace

Status StoreCore::load() {
  const Result<store::Manifest> manifest = store::read_manifest(layout_);
  if (!manifest.ok()) return manifest.status();
  manifest_ = manifest.value();
  if (Status s = segments_.load(layout_); !s.ok()) return s;
  const auto& all = segments_.all();
  for (; looked_at_ < all.size(); ++looked_at_) waiting_.push_back(all[looked_at_].get());
  // A run that one segment describes is known for all of them.
  for (bool again = true; again;) {
    const std::size_t before = waiting_.size();
    std::erase_if(waiting_, [&](const Segment* segment) { return assign(*segment); });
    again = waiting_.size() < before && !waiting_.empty();
  }
  for (auto& [id, run] : runs_) {
    std::sort(run->parts.begin(), run->parts.end(),
              [](const RunState::Part& a, const RunState::Part& b) {
                return a.segment->number() < b.segment->number();
              });
    for (RunState::Part& part : run->parts) take_in(*run, part);
  }
  return {};
}

bool StoreCore::assign(const Segment& segment) {
  if (!segment.has_head()) return false;
  const std::string id = run_id(segment);
  auto run = runs_.find(id);
  if (run == runs_.end()) {
    Result<store::RunHeader> header = store::parse_run_json(segment.run_json());
    if (!header.ok() || header.value().info.id != id) return false;
    auto state = std::make_unique<RunState>();
    state->header = std::move(header).value();
    run = runs_.emplace(id, std::move(state)).first;
  }
  run->second->parts.push_back({&segment, 0, 0});
  return true;
}

void StoreCore::take_in(RunState& run, RunState::Part& part) {
  const store::SegmentDirectory& directory = part.segment->directory();
  for (; part.requests < directory.requests(); ++part.requests) {
    const store::RequestEntry entry = directory.request(part.requests);
    const auto [request, fresh] = run.requests.try_emplace(entry.serial);
    if (!fresh) continue;
    request->second.id = directory.id(entry);
    request->second.prompt_tokens = entry.prompt_tokens;
    run.serials[request->second.id].push_back(entry.serial);
  }
  for (; part.events < directory.events(); ++part.events) {
    const store::EventEntry event = directory.event(part.events);
    RequestState& request = run.requests[event.request];
    const TokenRange tokens{event.begin, event.end};
    switch (static_cast<RequestEvent::Kind>(event.kind)) {
      case RequestEvent::Kind::begun:
        break;
      case RequestEvent::Kind::not_computed:
        request.not_computed.push_back(tokens);
        break;
      case RequestEvent::Kind::rejected:
        request.rejections.push_back({{part.segment->number(), event.frame}, tokens});
        break;
      case RequestEvent::Kind::finished:
        request.finished = event;
        break;
    }
  }
}

std::vector<const RunState*> StoreCore::runs() const {
  std::vector<const RunState*> runs;
  for (const auto& [id, run] : runs_) runs.push_back(run.get());
  std::sort(runs.begin(), runs.end(), [](const RunState* a, const RunState* b) {
    return std::pair(a->header.info.number, a->parts.front().segment->number()) <
           std::pair(b->header.info.number, b->parts.front().segment->number());
  });
  return runs;
}

const RunState* StoreCore::run(std::uint32_t number) const {
  for (const RunState* run : runs()) {
    if (run->header.info.number == number) return run;
  }
  return nullptr;
}

void StoreCore::report(Finding finding) const {
  const std::lock_guard lock(met_mutex_);
  if (met_places_.emplace(finding.file, finding.offset).second) met_.push_back(std::move(finding));
}

std::vector<Finding> StoreCore::findings(bool writing) const {
  std::vector<Finding> all = segments_.findings();
  const auto& segments = segments_.all();
  for (const auto& segment : segments) {
    const Segment::Tail& tail = segment->tail();
    const bool said = !segment->has_head() && tail.state == FrameState::bad_head;
    if (tail.bytes == 0 || said) continue;
    all.push_back(torn_end(*segment, writing && segment == segments.back()));
  }
  for (const Segment* segment : waiting_) {
    if (!segment->has_head() || segment->directory().frames() == 0) continue;
    all.push_back(
        {Severity::error, segment->name(), 0,
         "no segment describes its run (the run frames are damaged): its records cannot be told "
         "apart"});
  }
  {
    const std::lock_guard lock(met_mutex_);
    all.insert(all.end(), met_.begin(), met_.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  });
  return all;
}

}  // namespace graphtap
