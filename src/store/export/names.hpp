#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graphtap::store {

/// A part of a tensor's name: as in a URL, every byte but A-Z a-z 0-9 - . _ ~ is written %XX, and
/// so are the dots of a part that has nothing else ("..", which a zip archive could not hold
/// safely).
[[nodiscard]] std::string escape_name(std::string_view part);
/// Nothing for a text that escape_name() does not write.
[[nodiscard]] std::optional<std::string> unescape_name(std::string_view text);

/// "<request>/<hook>", with "#<ordinal>" behind it from the second ordinal on.
[[nodiscard]] std::string tensor_name(std::string_view request, std::string_view hook,
                                      std::uint16_t ordinal);
/// The request's part: its id; with "@<run>.<serial>" behind it where the id alone is not enough.
/// An id that is longer than a file name may be is left out.
[[nodiscard]] std::string request_part(std::string_view id, bool unique, std::uint32_t run,
                                       std::uint64_t serial);

}  // namespace graphtap::store
