#pragma once
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

namespace graphtap::cli {

/// Where a subcommand reads and writes. Results go to `out`, everything else to `err`.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
};

/// One line on a terminal that is written over in place; nothing elsewhere, so that logs stay
/// short.
class ProgressLine {
 public:
  ProgressLine(Console& console, bool wanted)
      : console_(console), on_(wanted && console.err_is_terminal) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `text`; at most ten times a second unless `always`.
  void show(const std::string& text, bool always = false);
  void clear();

 private:
  Console& console_;
  const bool on_;
  bool shown_ = false;
  long long last_ms_ = -1000;
};

/// "warning: …" on err.
void warn(Console& console, std::string_view text);

/// Text from outside (prompts, ids, tokens of a model) fit for a terminal line: control characters
/// and stray bytes are escaped, quotes are left alone; more than `most` characters end in "…".
[[nodiscard]] std::string one_line(std::string_view text, std::size_t most = 400);

}  // namespace graphtap::cli
