#include "graphtap/status.hpp"

namespace graphtap {

const char* to_string(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::exhausted:
      return "exhausted";
    case Code::timeout:
      return "timeout";
    case Code::unavailable:
      return "unavailable";
    case Code::unsupported:
      return "unsupported";
    case Code::corrupt:
      return "corrupt";
    case Code::io_error:
      return "io_error";
    case Code::device_error:
      return "device_error";
    case Code::device_lost:
      return "device_lost";
  }
  return "unknown";
}

}  // namespace graphtap
