#include "cli/exit_codes.hpp"

namespace graphtap::cli {
namespace {

constexpr ExitMeaning kMeanings[] = {
    {Exit::ok, "ok", "everything asked for was done"},
    {Exit::damaged, "damaged",
     "a check failed: damage in a store, a wrong record, or (where asked for) something missing"},
    {Exit::usage, "usage",
     "the command line is off: unknown option, hook or layer, bad size, not a store of ours"},
    {Exit::not_found, "not_found", "a file, model, store, run, request or hook is not there"},
    {Exit::unavailable, "unavailable", "the store is locked by a writer or is read-only"},
    {Exit::unsupported, "unsupported",
     "a newer format, a model without a hook map, or a build without the engine"},
    {Exit::corrupt, "corrupt", "a file cannot be what it claims to be: manifest, model"},
    {Exit::exhausted, "exhausted", "disk, memory or the payload ring is full"},
    {Exit::timeout, "timeout", "a deadline passed before everything was delivered"},
    {Exit::io_error, "io_error", "the operating system refused a read or a write"},
    {Exit::device, "device", "the device or the engine failed"},
    {Exit::internal, "internal", "a bug in graphtap: please report it with the command line"},
    {Exit::interrupted, "interrupted",
     "Ctrl-C or SIGTERM: what was captured until then has been delivered"},
};

}  // namespace

std::span<const ExitMeaning> exit_meanings() noexcept { return kMeanings; }

Exit exit_for(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return Exit::ok;
    case Code::invalid_argument:
      return Exit::usage;
    case Code::not_found:
      return Exit::not_found;
    case Code::exhausted:
      return Exit::exhausted;
    case Code::timeout:
      return Exit::timeout;
    case Code::unavailable:
      return Exit::unavailable;
    case Code::unsupported:
      return Exit::unsupported;
    case Code::corrupt:
      return Exit::corrupt;
    case Code::io_error:
      return Exit::io_error;
    case Code::device_error:
    case Code::device_lost:
      return Exit::device;
  }
  return Exit::internal;
}

}  // namespace graphtap::cli
