#include "store/export/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/near_match.hpp"

namespace graphtap::store {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kDocument = "graphtap";

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

/// Takes the header in as it is parsed. Nothing in it is nested deeper than a tensor's shape, so
/// that deep JSON ends here and not on the stack.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  struct Tensor {
    TensorEntry entry;
    std::uint64_t begin = 0, end = 0;
    unsigned seen = 0;  // a bit a field
  };
  std::vector<Tensor> tensors;
  std::string document;
  std::string why;
  bool foreign_type = false;

  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!names_.insert(text).second) {
        return fail(fmt::format("{} is there twice", in_quotes(text)));
      }
      in_metadata_ = text == kMetadata;
      if (!in_metadata_) {
        tensors.push_back({});
        tensors.back().entry.name = text;
      }
      fields_.clear();
      return true;
    }
    field_ = text;
    if (!fields_.insert(text).second) {
      return fail(fmt::format("{} of {} is there twice", in_quotes(text), where()));
    }
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    return (depth_ <= 2 && list_ == 0) || fail(fmt::format("{} is nested too deep", where()));
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1 && !in_metadata_ && tensors.back().seen != 7) {
      return fail(fmt::format("{} lacks one of dtype, shape, data_offsets", where()));
    }
    return true;
  }
  bool start_array(std::size_t) override {
    const bool right = depth_ == 2 && list_ == 0 && !in_metadata_ &&
                       (field_ == "shape" || field_ == "data_offsets");
    ++list_;
    numbers_.clear();
    return right || fail(fmt::format("a list where none belongs in {}", where()));
  }
  bool end_array() override {
    --list_;
    Tensor& tensor = tensors.back();
    if (field_ == "shape") {
      tensor.seen |= 1;
      for (const std::uint64_t number : numbers_) {
        if (number > static_cast<std::uint64_t>(INT64_MAX))
          return fail(fmt::format("the shape of {} exceeds 2^63", where()));
        tensor.entry.shape.push_back(static_cast<std::int64_t>(number));
      }
      return true;
    }
    tensor.seen |= 2;
    if (numbers_.size() != 2) {
      return fail(fmt::format("data_offsets of {} are not two numbers", where()));
    }
    tensor.begin = numbers_[0];
    tensor.end = numbers_[1];
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (list_ != 1) return fail(fmt::format("a number where none belongs in {}", where()));
    if (numbers_.size() == 64) return fail(fmt::format("{} has more than 64 numbers", where()));
    numbers_.push_back(value);
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || list_ != 0) return fail("a text where none belongs in " + where());
    if (in_metadata_) {
      if (field_ == kDocument) document = std::move(text);
      return true;
    }
    if (field_ != "dtype") return fail("a text where none belongs in " + where());
    Tensor& tensor = tensors.back();
    tensor.seen |= 4;
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype || upper(to_string(*dtype)) != text) {
      foreign_type = true;
      return fail(fmt::format("{} is of type {}, which no hook has", where(), in_quotes(text)));
    }
    tensor.entry.dtype = *dtype;
    return true;
  }
  bool number_integer(number_integer_t) override {
    return fail(where() + " has a negative number");
  }
  bool number_float(number_float_t, const string_t&) override {
    return fail(where() + " has a number that is not whole");
  }
  bool null() override { return fail("null where none belongs in " + where()); }
  bool boolean(bool) override { return fail("true or false where none belongs in " + where()); }
  bool binary(binary_t&) override { return fail("no JSON"); }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    return fail(fmt::format("is no JSON from byte {} on", at));
  }

 private:
  bool fail(std::string text) {
    if (why.empty()) why = std::move(text);
    return false;
  }
  [[nodiscard]] std::string where() const {
    if (in_metadata_) return kMetadata;
    return tensors.empty() ? "the header" : in_quotes(tensors.back().entry.name);
  }
  int depth_ = 0;
  int list_ = 0;
  bool in_metadata_ = false;
  std::string field_;
  std::set<std::string> names_, fields_;
  std::vector<std::uint64_t> numbers_;
};

class SafetensorsFile final : public TensorFile {
 public:
  SafetensorsFile(std::span<const std::byte> data, HeaderReader header) : data_(data) {
    document_ = std::move(header.document);
    for (HeaderReader::Tensor& tensor : header.tensors) {
      tensors_.push_back(std::move(tensor.entry));
      next_.push_back(tensor.begin);
      end_.push_back(tensor.end);
    }
  }
  Status read(std::size_t tensor, std::span<std::byte> out) override {
    if (out.size() > end_[tensor] - next_[tensor]) {
      return {Code::invalid_argument, "read past the end of " + in_quotes(tensors_[tensor].name)};
    }
    if (!out.empty()) std::memcpy(out.data(), data_.data() + next_[tensor], out.size());
    next_[tensor] += out.size();
    return {};
  }

 private:
  std::span<const std::byte> data_;
  std::vector<std::uint64_t> next_, end_;
};

/// Each tensor's bytes fit its shape, and together they cover the data once.
std::string check_layout(std::vector<HeaderReader::Tensor>& tensors, std::uint64_t data_bytes) {
  for (HeaderReader::Tensor& tensor : tensors) {
    const std::string name = in_quotes(tensor.entry.name);
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return fmt::format("{} lies at bytes [{}, {}) of {} bytes of data", name, tensor.begin,
                         tensor.end, data_bytes);
    }
    std::uint64_t bytes = 0;
    if (!tensor_bytes(tensor.entry.dtype, tensor.entry.shape, bytes)) {
      return fmt::format("the shape of {} exceeds 2^63 bytes", name);
    }
    if (bytes != tensor.end - tensor.begin) {
      return fmt::format("{} has {} bytes, its shape needs {}", name, tensor.end - tensor.begin,
                         bytes);
    }
    tensor.entry.bytes = bytes;
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(tensors[a].begin, tensors[a].end) <
           std::pair(tensors[b].begin, tensors[b].end);
  });
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
#ifdef GRAPHTAP_BUG_import_takes_overlaps
    at = tensors[i].begin;
#endif
    if (tensors[i].begin != at) {
      return fmt::format("{} begins at byte {} of the data, the one before it ends at {}: {}",
                         in_quotes(tensors[i].entry.name), tensors[i].begin, at,
                         tensors[i].begin < at ? "they overlap" : "there is a hole");
    }
    at = tensors[i].end;
  }
  if (at != data_bytes) {
    return fmt::format("{} bytes of data, of which the tensors take {}", data_bytes, at);
  }
  return {};
}

}  // namespace

Result<std::string> safetensors_head(std::span<const TensorEntry> tensors,
                                     std::string_view document) {
  std::string header;
  try {
    header = fmt::format("{{\"{}\":{{\"{}\":{}}}", kMetadata, kDocument, Json(document).dump());
    std::uint64_t at = 0;
    for (const TensorEntry& tensor : tensors) {
      header += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                            Json(tensor.name).dump(), upper(to_string(tensor.dtype)),
                            Json(tensor.shape).dump(), at, at + tensor.bytes);
      at += tensor.bytes;
    }
    header += '}';
  } catch (const Json::exception& error) {
    return Status(Code::invalid_argument, fmt::format("a tensor's name: {}", error.what()));
  }
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMostHeader) {
    return Status(Code::exhausted,
                  fmt::format("{} tensors need a header of {} bytes, a safetensors file may have "
                              "{}: select fewer, or set a smaller --max-file-bytes",
                              tensors.size(), header.size(), kMostHeader));
  }
  const std::uint64_t length = header.size();
  std::string head(sizeof(length), '\0');
  std::memcpy(head.data(), &length, sizeof(length));
  return head + header;
}

Result<std::unique_ptr<TensorFile>> open_safetensors(std::span<const std::byte> bytes,
                                                     const std::string& name) {
  const auto corrupt = [&](const std::string& why) {
    return Status(Code::corrupt, fmt::format("{} is no safetensors file: {}", name, why));
  };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return corrupt(fmt::format("it has {} bytes, the length of the header takes 8", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMostHeader) {
    return corrupt(
        fmt::format("a header of {} bytes, at most {} are allowed (nor does it begin "
                    "as an npz file)",
                    length, kMostHeader));
  }
  if (length > bytes.size() - sizeof(length)) {
    return corrupt(
        fmt::format("a header of {} bytes in a file of {}: it was cut, or is of "
                    "another kind",
                    length, bytes.size()));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + sizeof(length);
  if (length == 0 || text[0] != '{') return corrupt("its header does not begin with {");
  HeaderReader header;
  if (!Json::sax_parse(text, text + length, &header)) {
    const std::string why =
        header.why.empty() ? "its header is no JSON" : "its header: " + header.why;
    if (header.foreign_type) return Status(Code::unsupported, fmt::format("{}: {}", name, why));
    return corrupt(why);
  }
  const auto data = bytes.subspan(sizeof(length) + length);
  if (const std::string why = check_layout(header.tensors, data.size()); !why.empty()) {
    return corrupt(why);
  }
  return std::unique_ptr<TensorFile>(std::make_unique<SafetensorsFile>(data, std::move(header)));
}

}  // namespace graphtap::store
