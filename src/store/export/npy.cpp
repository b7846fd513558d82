#include "store/export/npy.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/near_match.hpp"

namespace graphtap::store {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostDimensions = 64;

constexpr std::array<std::pair<DType, std::string_view>, 12> kDescriptions{{
    {DType::f16, "<f2"},
    {DType::f32, "<f4"},
    {DType::f64, "<f8"},
    {DType::i8, "|i1"},
    {DType::i16, "<i2"},
    {DType::i32, "<i4"},
    {DType::i64, "<i8"},
    {DType::u8, "|u1"},
    {DType::u16, "<u2"},
    {DType::u32, "<u4"},
    {DType::u64, "<u8"},
    {DType::boolean, "|b1"},
}};

/// The dictionary of a .npy head, as numpy writes it: a literal of Python.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  std::string read(TensorEntry& tensor) {
    bool descr = false, order = false, shape = false;
    if (!take('{')) return "does not begin with {";
    while (!take('}')) {
      const std::optional<std::string_view> key = quoted();
      if (!key || !take(':')) return "is no dictionary";
      bool* seen = *key == "descr" ? &descr : *key == "fortran_order" ? &order : &shape;
      if (seen == &shape && *key != "shape") return "has the unknown key " + in_quotes(*key);
      if (std::exchange(*seen, true)) return "has the key " + in_quotes(*key) + " twice";
      if (std::string why = seen == &descr   ? read_type(tensor)
                            : seen == &order ? read_order()
                                             : read_shape(tensor.shape);
          !why.empty()) {
        return why;
      }
      if (!take(',') && peek() != '}') return "is no dictionary";
    }
    skip();
    if (!text_.empty()) return "goes on after its dictionary";
    return descr && order && shape ? "" : "lacks one of descr, fortran_order, shape";
  }
  bool foreign = false;  // the trouble is a type or layout that no hook has

 private:
  void skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  char peek() {
    skip();
    return text_.empty() ? '\0' : text_[0];
  }
  bool take(char c) {
    if (peek() != c || c == '\0') return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view word = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return word;
  }
  std::string read_type(TensorEntry& tensor) {
    const std::optional<std::string_view> type = quoted();
    if (!type) {
      foreign = true;
      return "has elements made of several fields";
    }
    for (const auto& [dtype, description] : kDescriptions) {
      // For one byte the order means nothing: numpy writes '|', others '<'.
      if (*type == description ||
          (type->size() == 3 && type->substr(1) == description.substr(1) &&
           ((*type)[0] == '<' || (*type)[0] == '=') && description[0] == '|')) {
        tensor.dtype = dtype;
        return {};
      }
    }
    foreign = true;
    return fmt::format("has elements of type {}, which no hook has{}", in_quotes(*type),
                       type->starts_with('>') ? " (big-endian)" : "");
  }
  std::string read_order() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      foreign = word == "True";
      return foreign ? "is in Fortran order: save numpy.ascontiguousarray() of it" : "";
    }
    return "has a fortran_order that is neither True nor False";
  }
  std::string read_shape(std::vector<std::int64_t>& shape) {
    if (!take('(')) return "has a shape that is no tuple";
    while (!take(')')) {
      skip();
      std::int64_t dimension = 0;
      const auto [end, error] =
          std::from_chars(text_.data(), text_.data() + text_.size(), dimension);
      if (error != std::errc{} || dimension < 0) return "has a shape that is not of whole numbers";
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (shape.size() == kMostDimensions) return "has more than 64 dimensions";
      shape.push_back(dimension);
      if (!take(',') && peek() != ')') return "has a shape that is no tuple";
    }
    return {};
  }
  std::string_view text_;
};

}  // namespace

DType numpy_dtype(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
      return DType::u16;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return DType::u8;
    default:
      return dtype;
  }
}

std::string npy_head(DType dtype, std::span<const std::int64_t> shape) {
  std::string_view description;
  for (const auto& [type, text] : kDescriptions) {
    if (type == dtype) description = text;
  }
  std::string dimensions;
  for (const std::int64_t dimension : shape) dimensions += fmt::format("{}, ", dimension);
  if (shape.size() > 1) dimensions.resize(dimensions.size() - 2);
  if (shape.size() == 1) dimensions.pop_back();  // "(3,)"
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 description, dimensions);
  const std::size_t before = kMagic.size() + 4;
  text.append(kAlignment - 1 - (before + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string head(kMagic);
  head +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return head + text;
}

std::size_t npy_head_bytes(std::span<const std::byte> prefix) noexcept {
  if (prefix.size() < kNpyPrefix || std::memcmp(prefix.data(), kMagic.data(), kMagic.size()) != 0) {
    return 0;
  }
  const auto major = std::to_integer<unsigned>(prefix[6]);
  std::size_t length = 0;
  const std::size_t width = major == 1 ? 2 : 4;
  if (major < 1 || major > 3) return 0;
  for (std::size_t i = 0; i < width; ++i) {
    length |= std::to_integer<std::size_t>(prefix[8 + i]) << (8 * i);
  }
  return 8 + width + length;
}

Status parse_npy_head(std::span<const std::byte> head, TensorEntry& tensor) {
  const std::size_t before = std::to_integer<unsigned>(head[6]) == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + before,
                              head.size() - before);
  Dictionary dictionary(text);
  if (std::string why = dictionary.read(tensor); !why.empty()) {
    return {dictionary.foreign ? Code::unsupported : Code::corrupt, "its head " + why};
  }
  if (!tensor_bytes(tensor.dtype, tensor.shape, tensor.bytes)) {
    return {Code::corrupt, "its shape exceeds 2^63 bytes"};
  }
  return {};
}

}  // namespace graphtap::store
