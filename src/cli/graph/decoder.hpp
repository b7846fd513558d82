#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/host/host_device.hpp"
#include "graphtap/hook_table.hpp"
#include "graphtap/monitor.hpp"

namespace graphtap::cli {

struct DecoderShape {
  int layers = 30;
  int hidden = 64;
  int vocabulary = 32;  ///< logits a row
};

/// The decoder's hooks, in firing order: token_ids, embed, per layer resid_pre, attn_out,
/// resid_mid, mlp_out, then resid_final and final_logits.
[[nodiscard]] HookTable decoder_table(const DecoderShape& shape);

/// One token that a step computes: `token` at `position` of its request.
struct DecoderRow {
  std::int32_t token = 0;
  std::int64_t position = 0;
};

/// A captured decode step: template, the owner's exec, and how many rows it computes.
struct CapturedDecode {
  std::uint32_t rows = 0;
  Graph graph{};
  Exec exec{};
  std::size_t nodes = 0;
  std::shared_ptr<BoundGraph> bound;
};

/// A decoder-shaped model on the host device: for each layer four compute nodes that turn a
/// residual stream into the next, with a producer behind each tensor that a hook names.
///
/// One thread at a time. Must go before the device; its graphs' work must be finished.
class Decoder {
 public:
  /// `most_rows`: the largest step. Errors (thrown): exhausted.
  Decoder(std::shared_ptr<HostDevice> device, const HookTable& table, const DecoderShape& shape,
          std::uint32_t most_rows, Stream stream);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Captures a decode step of `rows` rows (each its own request) and binds it to `lane`.
  void capture(Lane& lane, std::uint32_t rows);
  [[nodiscard]] std::vector<CapturedDecode>& decodes() noexcept { return decodes_; }
  /// The smallest captured decode step that holds `rows`; null if none does.
  [[nodiscard]] CapturedDecode* decode_for(std::size_t rows) noexcept;

  /// Writes the inputs of the next step, in stream order; rows of padding get token 0.
  void set_inputs(std::span<const DecoderRow> rows);
  /// Runs a step without a graph: `rows` consecutive tokens of one request, logits for the last
  /// only.
  void run_eager(Lane& lane, std::uint32_t rows);

 private:
  void step(Lane& lane, std::uint32_t rows, std::uint32_t logit_rows);
  void compute(std::function<void()> kernel);
  void produce(Lane& lane, const std::string& hook, const void* data, std::uint32_t rows,
               std::uint64_t row_bytes);
  [[nodiscard]] std::span<float> row(float* tensor, std::uint32_t index) const;

  const std::shared_ptr<HostDevice> device_;
  const HookTable& table_;
  const DecoderShape shape_;
  const std::uint32_t most_rows_;
  const Stream stream_;
  std::vector<std::byte*> memory_;
  std::int32_t* tokens_ = nullptr;
  std::int64_t* positions_ = nullptr;
  float *embed_ = nullptr, *resid_ = nullptr, *attn_ = nullptr, *mlp_ = nullptr, *logits_ = nullptr;
  std::vector<CapturedDecode> decodes_;
};

}  // namespace graphtap::cli
