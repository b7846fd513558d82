#pragma once
#include <string>
#include <string_view>

namespace graphtap::cli {

/// Text from outside as HTML and XML text or attribute value: well-formed UTF-8, nothing that is
/// markup, no control characters; more than `most` characters end in "…".
[[nodiscard]] std::string html_text(std::string_view text, std::size_t most = 2000);
/// The same for text whose lines stay lines (for an element with white-space: pre-wrap).
[[nodiscard]] std::string html_lines(std::string_view text, std::size_t most = 2000);

}  // namespace graphtap::cli
