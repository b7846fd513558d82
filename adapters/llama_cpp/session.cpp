#include "llama_cpp/session.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "llama_cpp/session_impl.hpp"

namespace graphtap::llama {

std::filesystem::path default_model_path() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value =
        std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read before threads start
    return value ? value : "";
  };
  if (auto model = variable("GRAPHTAP_MODEL"); !model.empty()) return model;
  auto cache = variable("GRAPHTAP_CACHE");
  if (cache.empty()) {
    const auto base = variable("XDG_CACHE_HOME");
    cache = (base.empty() ? variable("HOME") / ".cache" : base) / "graphtap";
  }
  return cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

const char* to_string(Finish finish) noexcept {
  switch (finish) {
    case Finish::waiting:
      return "waiting";
    case Finish::running:
      return "running";
    case Finish::end_of_text:
      return "end_of_text";
    case Finish::length:
      return "length";
    case Finish::cancelled:
      return "cancelled";
    case Finish::failed:
      return "failed";
  }
  return "unknown";
}

LlamaSession::LlamaSession(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
LlamaSession::~LlamaSession() = default;

Result<std::unique_ptr<LlamaSession>> LlamaSession::open(SessionOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Status status = impl->open(); !status.ok()) return status;
  return std::unique_ptr<LlamaSession>(new LlamaSession(std::move(impl)));
}

const HookTable& LlamaSession::table() const noexcept { return impl_->bindings_.table; }
const std::vector<UnmappedHook>& LlamaSession::unmapped() const noexcept {
  return impl_->bindings_.unmapped;
}

Result<HookSet> LlamaSession::resolve(const Selection& selection) const {
  auto set = selection.resolve(table());
  if (set.ok()) return set;
  std::string message = set.status().message();
  for (const auto& term : selection.terms()) {
    if (term.exclude) continue;
    for (const std::string& name : term.names) {
      const HookType* type = table().catalogue().find(name);
      for (const UnmappedHook& hook : unmapped()) {
        if (type && hook.type == type->name)
          message += fmt::format("; {}: {}", hook.type, hook.reason);
      }
    }
  }
  return Status(set.status().code(), message);
}

Status LlamaSession::attach(Monitor& monitor) { return impl_->attach(monitor); }
Result<std::uint64_t> LlamaSession::submit(const Prompt& prompt) { return impl_->submit(prompt); }
void LlamaSession::cancel(std::uint64_t generation) { impl_->cancel(generation); }
Result<bool> LlamaSession::step(const SessionCallbacks& callbacks) {
  return impl_->step(callbacks);
}

Status LlamaSession::run(const SessionCallbacks& callbacks) {
  for (;;) {
    auto more = impl_->step(callbacks);
    if (!more.ok()) return more.status();
    if (!more.value()) return {};
  }
}

const std::deque<Generation>& LlamaSession::generations() const noexcept {
  return impl_->generations_;
}
const SessionStats& LlamaSession::stats() const noexcept { return impl_->stats_; }
std::uint64_t LlamaSession::next_step() const noexcept { return impl_->next_step_; }
std::span<const float> LlamaSession::logits(std::uint32_t row) const noexcept {
  return impl_->engine_->logits(row);
}
std::span<const float> LlamaSession::embeddings(std::uint32_t row) const noexcept {
  return impl_->engine_->embeddings(row);
}
Result<std::vector<std::int32_t>> LlamaSession::tokenize(std::string_view text, bool chat) const {
  return impl_->engine_->tokenize(text, chat);
}
std::string LlamaSession::piece(std::int32_t token) const { return impl_->engine_->piece(token); }
const std::string& LlamaSession::description() const noexcept { return impl_->description_; }

}  // namespace graphtap::llama
