#include "cli/graph/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/graph/decoder_maths.hpp"

namespace graphtap::cli {
namespace {

void must(const Status& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace

HookTable decoder_table(const DecoderShape& shape) {
  HookTable table("decoder");
  const auto add = [&](const char* type, int layer, DType dtype, std::vector<std::int64_t> row) {
    HookSpec spec;
    spec.type = type;
    spec.layer = layer;
    spec.dtype = dtype;
    spec.row_shape = std::move(row);
    (void)table.add(std::move(spec)).value_or_throw();
  };
  add("token_ids", -1, DType::i32, {});
  add("embed", -1, DType::f32, {shape.hidden});
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const char* type : {"resid_pre", "attn_out", "resid_mid", "mlp_out"}) {
      add(type, layer, DType::f32, {shape.hidden});
    }
  }
  add("resid_final", -1, DType::f32, {shape.hidden});
  add("final_logits", -1, DType::f32, {shape.vocabulary});
  return table;
}

Decoder::Decoder(std::shared_ptr<HostDevice> device, const HookTable& table,
                 const DecoderShape& shape, std::uint32_t most_rows, Stream stream)
    : device_(std::move(device)),
      table_(table),
      shape_(shape),
      most_rows_(most_rows),
      stream_(stream) {
  const auto allocate = [&](std::size_t bytes) {
    memory_.push_back(device_->allocate(bytes).value_or_throw());
    return memory_.back();
  };
  const auto floats = [&](int width) {
    return reinterpret_cast<float*>(
        allocate(most_rows * static_cast<std::size_t>(width) * sizeof(float)));
  };
  tokens_ = reinterpret_cast<std::int32_t*>(allocate(most_rows * sizeof(std::int32_t)));
  positions_ = reinterpret_cast<std::int64_t*>(allocate(most_rows * sizeof(std::int64_t)));
  embed_ = floats(shape.hidden);
  resid_ = floats(shape.hidden);
  attn_ = floats(shape.hidden);
  mlp_ = floats(shape.hidden);
  logits_ = floats(shape.vocabulary);
}

Decoder::~Decoder() {
  for (CapturedDecode& decode : decodes_) {
    decode.bound.reset();  // before what it is bound to
    device_->destroy_exec(decode.exec);
    device_->destroy_graph(decode.graph);
  }
  for (std::byte* memory : memory_) device_->free(memory);
}

void Decoder::capture(Lane& lane, std::uint32_t rows) {
  CapturedDecode decode;
  decode.rows = rows;
  must(device_->begin_capture(stream_));
  step(lane, rows, rows);
  decode.graph = device_->end_capture(stream_).value_or_throw();
  decode.exec = device_->instantiate(decode.graph, 0).value_or_throw();
  decode.nodes = device_->node_count(decode.exec);
  BindOptions options;
  options.name = fmt::format("decode[{}]", rows);
  decode.bound = lane.bind(decode.graph, decode.exec, options);
  decodes_.push_back(std::move(decode));
}

CapturedDecode* Decoder::decode_for(std::size_t rows) noexcept {
  CapturedDecode* best = nullptr;
  for (CapturedDecode& decode : decodes_) {
    if (decode.rows >= rows && (!best || decode.rows < best->rows)) best = &decode;
  }
  return best;
}

void Decoder::set_inputs(std::span<const DecoderRow> rows) {
  compute([this, inputs = std::vector<DecoderRow>(rows.begin(), rows.end())] {
    for (std::size_t i = 0; i < most_rows_; ++i) {
      tokens_[i] = i < inputs.size() ? inputs[i].token : 0;
      positions_[i] = i < inputs.size() ? inputs[i].position : 0;
    }
  });
}

void Decoder::run_eager(Lane& lane, std::uint32_t rows) { step(lane, rows, 1); }

void Decoder::compute(std::function<void()> kernel) {
  must(device_->compute(stream_, std::move(kernel)));
}

void Decoder::produce(Lane& lane, const std::string& hook, const void* data, std::uint32_t rows,
                      std::uint64_t row_bytes) {
  Source source;
  source.data = data;
  source.rows = rows;
  source.part_bytes = row_bytes;
  source.row_stride = static_cast<std::int64_t>(row_bytes);
  lane.produce(table_.find(hook).value(), source, stream_);
}

std::span<float> Decoder::row(float* tensor, std::uint32_t index) const {
  const auto hidden = static_cast<std::size_t>(shape_.hidden);
  return {tensor + index * hidden, hidden};
}

// The model. Under capture each compute() becomes a node, and so does each produce().
void Decoder::step(Lane& lane, std::uint32_t rows, std::uint32_t logit_rows) {
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(shape_.hidden) * sizeof(float);
  const auto each_row = [this, rows](auto kernel) {
    compute([rows, kernel] {
      for (std::uint32_t i = 0; i < rows; ++i) kernel(i);
    });
  };
  produce(lane, "token_ids", tokens_, rows, sizeof(std::int32_t));
  each_row([this](std::uint32_t i) {
    decoder_maths::embed(tokens_[i], positions_[i], row(embed_, i));
    std::copy_n(row(embed_, i).begin(), shape_.hidden, row(resid_, i).begin());
  });
  produce(lane, "embed", embed_, rows, row_bytes);
  for (int layer = 0; layer < shape_.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    produce(lane, block + "resid_pre", resid_, rows, row_bytes);
    each_row([this, layer](std::uint32_t i) {
      decoder_maths::attention(layer, row(resid_, i), row(attn_, i));
    });
    produce(lane, block + "attn_out", attn_, rows, row_bytes);
    each_row([this](std::uint32_t i) { decoder_maths::add(row(resid_, i), row(attn_, i)); });
    produce(lane, block + "resid_mid", resid_, rows, row_bytes);
    each_row([this, layer](std::uint32_t i) {
      decoder_maths::mlp(layer, row(resid_, i), row(mlp_, i));
    });
    produce(lane, block + "mlp_out", mlp_, rows, row_bytes);
    each_row([this](std::uint32_t i) { decoder_maths::add(row(resid_, i), row(mlp_, i)); });
  }
  produce(lane, "resid_final", resid_, rows, row_bytes);
  compute([this, rows, logit_rows] {
    const auto width = static_cast<std::size_t>(shape_.vocabulary);
    for (std::uint32_t i = 0; i < logit_rows; ++i) {
      decoder_maths::logits(row(resid_, rows - logit_rows + i), {logits_ + i * width, width});
    }
  });
  produce(lane, "final_logits", logits_, logit_rows,
          static_cast<std::uint64_t>(shape_.vocabulary) * sizeof(float));
}

}  // namespace graphtap::cli
