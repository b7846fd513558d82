#include "cli/graph/decoder_maths.hpp"

#include <cstddef>

namespace graphtap::cli::decoder_maths {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In [-1, 1), from 24 random bits: exact in a float.
float uniform(std::uint64_t key) {
  return static_cast<float>(static_cast<std::int32_t>(mix(key) >> 40) - (1 << 23)) / (1 << 23);
}

// x / (1 + |x|): bounded like tanh, and nothing but IEEE operations.
float squash(float x) { return x / (1.0f + (x < 0 ? -x : x)); }

// A matrix-like row: each output mixes two inputs with weights that depend on layer and place.
void mix_rows(std::uint64_t salt, float gain, std::span<const float> in, std::span<float> out) {
  const std::size_t n = in.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t key = salt + i;
    const float left = in[(i * 7 + salt) % n], right = in[(i + 1 + salt / 3) % n];
    const float bias = static_cast<float>(static_cast<int>((key * 2654435761u >> 16) & 0xff) - 128);
    out[i] = gain * (squash(left) - 0.5f * squash(right) + bias / 512.0f);
  }
}

}  // namespace

std::int32_t token_at(std::uint64_t seed, std::uint64_t request, std::int64_t position) {
  const std::uint64_t key = mix(mix(seed) ^ request) ^ static_cast<std::uint64_t>(position);
  return static_cast<std::int32_t>(mix(key) % 49152);
}

void embed(std::int32_t token, std::int64_t position, std::span<float> out) {
  const auto salt = static_cast<std::uint64_t>(token) << 20;
  const auto drift = static_cast<float>(position % 1024) / 4096.0f;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = uniform(salt + i) + drift;
}

void attention(int layer, std::span<const float> resid, std::span<float> out) {
  mix_rows(static_cast<std::uint64_t>(layer) * 131 + 5, 0.25f, resid, out);
}

void mlp(int layer, std::span<const float> resid, std::span<float> out) {
  mix_rows(static_cast<std::uint64_t>(layer) * 257 + 11,
           0.2f + 0.02f * static_cast<float>(layer % 64), resid, out);
}

void logits(std::span<const float> resid, std::span<float> out) { mix_rows(3, 4.0f, resid, out); }

void add(std::span<float> resid, std::span<const float> what) {
  for (std::size_t i = 0; i < resid.size(); ++i) resid[i] += what[i];
}

}  // namespace graphtap::cli::decoder_maths
