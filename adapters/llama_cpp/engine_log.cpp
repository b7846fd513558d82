#include "llama_cpp/engine_log.hpp"

#include <llama.h>

#include <deque>
#include <mutex>
#include <utility>

namespace graphtap::llama {
namespace {

constexpr std::size_t kMostLines = 6;

struct Log {
  std::mutex mutex;
  std::deque<std::string> lines;
  bool keeping = false;  // the line being continued is one that is kept
};

Log& log() {
  static Log instance;
  return instance;
}

void on_line(ggml_log_level level, const char* text, void*) noexcept {
  try {
    Log& kept = log();
    const std::lock_guard lock(kept.mutex);
    if (level != GGML_LOG_LEVEL_CONT) {
      kept.keeping = level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR;
      if (kept.keeping) kept.lines.emplace_back();
    }
    if (!kept.keeping || kept.lines.empty()) return;
    kept.lines.back() += text;
    if (kept.lines.size() > kMostLines) kept.lines.pop_front();
  } catch (...) {  // the engine must not see it, and a lost line of its log harms nobody
  }
}

}  // namespace

void capture_engine_log() { llama_log_set(on_line, nullptr); }

std::string engine_words() {
  std::deque<std::string> lines;
  {
    Log& kept = log();
    const std::lock_guard lock(kept.mutex);
    lines = std::exchange(kept.lines, {});
  }
  std::string words;
  for (std::string& line : lines) {
    while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    if (!words.empty()) words += "; ";
    words += line;
  }
  return words;
}

}  // namespace graphtap::llama
