#include "serving.hpp"

#include <algorithm>
#include <random>

namespace example {
namespace {

struct Active {
  int request = 0;
  int slot = 0;
  int computed = 0;  // tokens whose keys and values are in the cache
};

}  // namespace

std::vector<PlannedRequest> make_mix(const MixOptions& options, const ModelSize& size) {
  std::mt19937_64 random(options.seed);
  const auto between = [&](int low, int high) {  // the same on every standard library
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<PlannedRequest> mix(static_cast<std::size_t>(options.requests));
  int step = 0;
  for (PlannedRequest& request : mix) {
    request.arrives = step;
    step += between(0, 6);
    request.prompt.resize(static_cast<std::size_t>(between(1, size.max_tokens / 2)));
    for (int& token : request.prompt) token = between(0, size.vocab - 1);
    request.new_tokens = between(1, size.max_tokens / 3);
  }
  return mix;
}

Served serve(const std::vector<PlannedRequest>& mix, const MixOptions& options, Runner& runner) {
  Served served;
  for (const PlannedRequest& request : mix) served.tokens.push_back(request.prompt);
  std::vector<Active> active;
  std::vector<int> free_slots;
  for (int slot = options.max_batch - 1; slot >= 0; --slot) free_slots.push_back(slot);
  std::size_t arrived = 0;
  bool decoded_last = false;

  const auto in_prompt = [&](const Active& one) {
    return one.computed <
           static_cast<int>(mix[static_cast<std::size_t>(one.request)].prompt.size());
  };
  const auto add_span = [&](Batch& batch, const Active& one, int count) {
    batch.spans.push_back({one.request, one.computed, count});
    for (int i = 0; i < count; ++i) {
      const int position = one.computed + i;
      const auto& tokens = served.tokens[static_cast<std::size_t>(one.request)];
      batch.rows.push_back({one.slot, tokens[static_cast<std::size_t>(position)], position});
    }
  };

  for (int now = 0; arrived < mix.size() || !active.empty(); ++now) {
    while (arrived < mix.size() && mix[arrived].arrives <= now && !free_slots.empty()) {
      const int request = static_cast<int>(arrived++);
      active.push_back({request, free_slots.back(), 0});
      free_slots.pop_back();
      runner.begun(request, static_cast<int>(mix[static_cast<std::size_t>(request)].prompt.size()));
    }
    if (active.empty()) continue;  // nobody is there yet

    // Prompts and answers take turns, so that neither starves.
    Batch batch;
    const auto prompt = std::find_if(active.begin(), active.end(), in_prompt);
    const bool someone_decodes = !std::all_of(active.begin(), active.end(), in_prompt);
    batch.decode = someone_decodes && (prompt == active.end() || !decoded_last);
    if (batch.decode) {
      for (const Active& one : active) {
        if (!in_prompt(one)) add_span(batch, one, 1);
      }
    } else {
      const auto length = mix[static_cast<std::size_t>(prompt->request)].prompt.size();
      add_span(batch, *prompt,
               std::min(options.chunk, static_cast<int>(length) - prompt->computed));
    }
    decoded_last = batch.decode;
    const std::vector<int> next = runner.step(batch);
    ++served.steps;
    served.decode_steps += batch.decode ? 1 : 0;
    served.rows += batch.rows.size();

    for (std::size_t i = 0; i < batch.spans.size(); ++i) {
      const Span& span = batch.spans[i];
      const auto one = std::find_if(active.begin(), active.end(), [&](const Active& other) {
        return other.request == span.request;
      });
      one->computed += span.count;
      if (in_prompt(*one)) continue;
      const PlannedRequest& plan = mix[static_cast<std::size_t>(span.request)];
      auto& tokens = served.tokens[static_cast<std::size_t>(span.request)];
      tokens.push_back(next[i]);
      if (tokens.size() < plan.prompt.size() + static_cast<std::size_t>(plan.new_tokens)) continue;
      runner.finished(span.request);
      free_slots.push_back(one->slot);
      active.erase(one);
    }
  }
  return served;
}

}  // namespace example
