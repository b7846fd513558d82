#include "store/checksum.hpp"

#define XXH_STATIC_LINKING_ONLY  // for the state's size
#include <xxhash.h>
#ifdef GRAPHTAP_XXH_DISPATCH
#include <xxh_x86dispatch.h>  // the same functions, by what the processor has: AVX2 is twice SSE2
#endif

namespace graphtap::store {

struct RunningChecksum::State {
  XXH3_state_t xxh3;
};

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

RunningChecksum::RunningChecksum() : state_(std::make_unique<State>()) { reset(); }
RunningChecksum::~RunningChecksum() = default;

void RunningChecksum::reset() noexcept { XXH3_64bits_reset(&state_->xxh3); }

void RunningChecksum::add(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::uint64_t RunningChecksum::value() const noexcept { return XXH3_64bits_digest(&state_->xxh3); }

}  // namespace graphtap::store
