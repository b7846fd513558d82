#include "graphtap/hook_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/near_match.hpp"
#include "hooks/vocabulary.hpp"

namespace graphtap {
namespace {

constexpr std::size_t kMostHooks = 65'535;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t times(std::uint64_t a, std::uint64_t b) noexcept {
  return b != 0 && a > kMost / b ? kMost : a * b;
}

std::string name_of(std::string_view type, int layer) {
  return layer < 0 ? std::string(type) : fmt::format("blocks.{}.{}", layer, type);
}

Status check_row(const HookSpec& spec) {
  const auto refuse = [](std::string why) {
    return Status(Code::invalid_argument, std::move(why));
  };
  if (size_of(spec.dtype) == 0) {
    return refuse(fmt::format("{} is no element type", static_cast<unsigned>(spec.dtype)));
  }
  std::uint64_t bytes = size_of(spec.dtype);
  int per_step = 0;
  for (std::int64_t dim : spec.row_shape) {
    if (dim == kPerStepColumns) {
      ++per_step;
    } else if (dim < 0) {
      return refuse(fmt::format("row dimension {} is negative", dim));
    } else {
      bytes = times(bytes, static_cast<std::uint64_t>(dim));
    }
  }
  if (per_step > 1) return refuse("a row may have one per-step dimension only");
  if (bytes == 0) return refuse("a row has zero bytes");
  if (bytes > kMost / 2) return refuse("a row has more than 2^63 bytes");
  if (spec.ordinals == 0) return refuse("a hook fires at least once a step: ordinals must be >= 1");
  return {};
}

}  // namespace

std::uint64_t Hook::row_bytes(std::int64_t columns) const noexcept {
  std::uint64_t bytes = size_of(dtype);
  for (std::int64_t dim : row_shape) {
    const std::int64_t extent = dim == kPerStepColumns ? columns : dim;
    bytes = times(bytes, extent > 0 ? static_cast<std::uint64_t>(extent) : 0);
  }
  return bytes;
}

HookTable::HookTable(std::string model, Catalogue catalogue)
    : model_(std::move(model)), catalogue_(std::move(catalogue)) {}

Result<HookId> HookTable::add(HookSpec spec) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::invalid_argument,
                  fmt::format("model {}, hook {}: {}", in_quotes(model_),
                              in_quotes(name_of(spec.type, spec.layer)), why));
  };
  const HookType* type = catalogue_.find(spec.type);
  if (!type) {
    return refuse("unknown type" + did_you_mean(spec.type, known_words(catalogue_, false)));
  }
  if (type->scope == Scope::layer && spec.layer < 0) return refuse("it needs a layer");
  if (type->scope == Scope::global && spec.layer != -1) {
    return refuse(fmt::format("a global hook takes no layer (-1), not {}", spec.layer));
  }
  if (spec.layer > kMaxLayer) return refuse(fmt::format("layers end at {}", kMaxLayer));
  if (Status s = check_row(spec); !s.ok()) return refuse(s.message());
  if (type->rows == RowBasis::fixed && spec.fixed_rows == 0) {
    return refuse("fixed_rows must be >= 1");
  }
  if (hooks_.size() == kMostHooks) {
    return refuse(fmt::format("a model may have {} hooks at most", kMostHooks));
  }
  const auto id = static_cast<HookId>(hooks_.size());
  std::string name = name_of(type->name, spec.layer);
  if (!by_name_.emplace(name, id).second) return refuse("it is already there");
  hooks_.push_back(Hook{id, std::move(name), type->name, spec.layer, spec.dtype,
                        std::move(spec.row_shape), type->rows, spec.ordinals, spec.fixed_rows,
                        slots_});
  slots_ += spec.ordinals;
  layers_ = std::max(layers_, spec.layer + 1);
  return id;
}

std::optional<HookId> HookTable::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? std::nullopt : std::optional{it->second};
}

std::optional<HookId> HookTable::find(std::string_view type, int layer) const {
  const HookType* known = catalogue_.find(type);
  if (!known || layer < -1) return std::nullopt;
  return find(name_of(known->name, layer));
}

}  // namespace graphtap
