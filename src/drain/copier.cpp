#include "drain/copier.hpp"

#include <algorithm>
#include <utility>

namespace graphtap {

Copier::Copier(Device& device, EventPool& events, const std::vector<Stream>& streams,
               std::function<void(const Status&)> note_error)
    : device_(device), events_(events), note_error_(std::move(note_error)), turns_(streams.size()) {
  for (std::size_t i = 0; i < streams.size(); ++i) turns_[i].stream = streams[i];
}

Copier::~Copier() {
  for (const Turn& turn : turns_) events_.give_back(turn.end);
}

std::shared_ptr<FrameCopy> Copier::start(std::byte* to, const std::byte* from,
                                         std::uint64_t bytes) {
  auto copy = std::make_shared<FrameCopy>();
  copy->to = to;
  copy->from = from;
  copy->bytes = bytes;
  waiting_.push_back(copy);
  return copy;
}

bool Copier::pump() {
  bool moved = false;
  for (Turn& turn : turns_) {
    if (!lost_ && !turn.copies.empty()) moved |= finish(turn);
    if (!lost_ && turn.copies.empty()) moved |= begin(turn);
  }
  return moved;
}

// Small frames share a turn, large ones take several.
bool Copier::begin(Turn& turn) {
  std::uint64_t room = kTurnBytes;
#if defined(GRAPHTAP_BUG_copy_turn_without_end)
  room = UINT64_MAX;
#endif
  while (room > 0 && !waiting_.empty()) {
    const std::shared_ptr<FrameCopy> copy = waiting_.front();
    if (copy->cancelled) {
      waiting_.pop_front();
      continue;
    }
    const std::uint64_t bytes = std::min(room, copy->bytes - copy->issued);
    const Status status =
        device_.download(copy->to + copy->issued, copy->from + copy->issued, bytes, turn.stream);
    // A refused one may have been given to the stream all the same: it has not landed before this
    // turn is over.
#if defined(GRAPHTAP_BUG_refused_copy_forgotten)
    if (status.ok())
#endif
    {
      ++copy->turns;
      turn.copies.push_back(copy);
    }
    if (!status.ok()) {
      note(status);
      copy->refused = ++copy->refusals >= kAttempts;
      if (copy->refused) waiting_.pop_front();
      break;
    }
    copy->refusals = 0;
    copy->issued += bytes;
    room -= bytes;
    if (copy->issued == copy->bytes) waiting_.pop_front();
  }
  if (turn.copies.empty() || lost_) return false;
  (void)seal(turn);
  return true;
}

bool Copier::seal(Turn& turn) {
  const Result<Event> end = events_.record(turn.stream);
  if (!end.ok()) return refused(turn, end.status());
  turn.end = end.value();
  turn.refusals = 0;
  return true;
}

bool Copier::finish(Turn& turn) {
  if (turn.end == Event{}) return seal(turn);
  const Result<bool> done = device_.query(turn.end);
  if (!done.ok()) return refused(turn, done.status());
  if (!done.value()) return false;
  clear(turn);
  return true;
}

void Copier::note(const Status& status) {
  lost_ = lost_ || status.code() == Code::device_lost;
  note_error_(status);
}

bool Copier::refused(Turn& turn, const Status& status) {
  note(status);
  if (++turn.refusals < kAttempts) return false;
  for (const auto& copy : turn.copies) copy->refused = true;
  clear(turn);
  return true;
}

void Copier::clear(Turn& turn) {
  for (const auto& copy : turn.copies) --copy->turns;
  turn.copies.clear();
  turn.refusals = 0;
  events_.give_back(std::exchange(turn.end, Event{}));
}

}  // namespace graphtap
