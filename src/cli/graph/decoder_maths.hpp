#pragma once
#include <cstdint>
#include <span>

namespace graphtap::cli {

/// What the synthetic decoder computes, row by row: cheap, deterministic, different for every
/// token, position and layer. Engine and checker call the same functions, so equal inputs give
/// equal bits. Pure; thread-safe.
namespace decoder_maths {

/// The token at `position` of a request: its prompt and what it will generate.
[[nodiscard]] std::int32_t token_at(std::uint64_t seed, std::uint64_t request,
                                    std::int64_t position);

void embed(std::int32_t token, std::int64_t position, std::span<float> out);
/// What attention adds to the residual stream in `layer`.
void attention(int layer, std::span<const float> resid, std::span<float> out);
/// What the MLP adds.
void mlp(int layer, std::span<const float> resid, std::span<float> out);
void logits(std::span<const float> resid, std::span<float> out);
void add(std::span<float> resid, std::span<const float> what);

}  // namespace decoder_maths
}  // namespace graphtap::cli
