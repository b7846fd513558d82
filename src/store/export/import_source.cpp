#include "store/export/import_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/near_match.hpp"
#include "graphtap/version.hpp"
#include "store/export/npy.hpp"
#include "store/export/safetensors.hpp"
#include "store/mapped_file.hpp"

namespace graphtap::store {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kMostRows = UINT32_MAX;  // that the slices of a step can count
constexpr std::string_view kIndexEnding = ".index.json";

/// The files that an index names, which lie beside it.
Status add_files_of(const fs::path& index, std::vector<fs::path>& out) {
  const auto file = MappedFile::open(index);
  if (!file.ok()) return file.status();
  const auto bytes = file.value()->bytes();
  const auto corrupt = [&](std::string_view why) {
    return Status(Code::corrupt, fmt::format("{} is no index of tensors: {}", index.string(), why));
  };
  if (bytes.size() > kMostHeader) {
    return corrupt(
        fmt::format("it has {} bytes, at most {} are allowed", bytes.size(), kMostHeader));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const Json json = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return corrupt("it lacks \"weight_map\"");
  }
  std::set<std::string> names;
  for (const auto& [tensor, name] : json["weight_map"].items()) {
    if (!name.is_string() ||
        fs::path(name.get<std::string>()).filename() != name.get<std::string>()) {
      return corrupt(fmt::format("{} is in {}, which is no file beside it", in_quotes(tensor),
                                 name.dump(-1, ' ', true, Json::error_handler_t::replace)));
    }
    names.insert(name.get<std::string>());
  }
  for (const std::string& name : names) out.push_back(index.parent_path() / name);
  return {};
}

/// Splits "blocks.24.resid_pre" into type and layer.
HookSpec spec_of(const std::string& name) {
  HookSpec spec;
  spec.type = name;
  constexpr std::string_view kBlocks = "blocks.";
  if (!name.starts_with(kBlocks)) return spec;
  const char* end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(name.data() + kBlocks.size(), end, spec.layer);
  if (error == std::errc{} && dot != end && *dot == '.') {
    spec.type = std::string(dot + 1, end);
  } else {
    spec.layer = -1;
  }
  return spec;
}

/// What a file must be told that does not say it itself.
Status tell_what_lacks(const fs::path& path, const TensorFile& file) {
  return {
      Code::invalid_argument,
      fmt::format("{} has {} and nothing that says whose rows they are (graphtap writes that "
                  "when it exports): say it with --hook NAME --request ID [--first-token N]",
                  path.string(),
                  file.tensors().size() == 1 ? "one tensor, " + in_quotes(file.tensors()[0].name)
                                             : fmt::format("{} tensors", file.tensors().size()))};
}

Status too_many_rows(const fs::path& path, const std::string& tensor) {
  return {Code::unsupported,
          fmt::format("{}: {} has more than {} rows", path.string(), in_quotes(tensor), kMostRows)};
}

Result<ImportRun> foreign_run(const fs::path& path, TensorFile& file, const ForeignTensor& what) {
  if (what.request.empty()) {
    return Status(Code::invalid_argument, "--hook needs --request ID: whose rows they are");
  }
  const std::vector<TensorEntry>& tensors = file.tensors();
  std::vector<std::string_view> names;
  for (const TensorEntry& tensor : tensors) names.push_back(tensor.name);
  std::size_t index = 0;
  if (!what.tensor.empty()) {
    index = static_cast<std::size_t>(std::find(names.begin(), names.end(), what.tensor) -
                                     names.begin());
  }
  if (index == names.size()) {
    return Status(Code::not_found,
                  fmt::format("{} has no tensor {}{}", path.string(), in_quotes(what.tensor),
                              did_you_mean(what.tensor, names)));
  }
  if (what.tensor.empty() && tensors.size() != 1) {
    std::string some;
    for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 5); ++i) {
      some += (i > 0 ? ", " : "") + in_quotes(names[i]);
    }
    return Status(Code::invalid_argument,
                  fmt::format("{} has {} tensors ({}{}): say which with --tensor NAME",
                              path.string(), names.size(), some, names.size() > 5 ? ", ..." : ""));
  }
  const TensorEntry& tensor = tensors[index];
  if (tensor.shape.empty() || tensor.bytes == 0) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} holds no rows: its shape should be (tokens, row ...)",
                              path.string(), in_quotes(tensor.name)));
  }
  HookSpec spec = spec_of(what.hook);
  spec.dtype = tensor.dtype;
  spec.row_shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
  auto table = std::make_shared<HookTable>(what.model);
  const Result<HookId> hook = table->add(std::move(spec));
  if (!hook.ok()) {
    return Status(hook.status().code(), fmt::format("--hook: {}", hook.status().message()));
  }
  if (tensor.shape[0] > kMostRows) return too_many_rows(path, tensor.name);
  if (what.first_token < 0 || what.first_token > INT64_MAX - tensor.shape[0]) {
    return Status(Code::invalid_argument,
                  fmt::format("--first-token {}: no such token", what.first_token));
  }
  ImportRun run;
  run.info.name = path.filename().string();
  run.info.model = what.model;
  run.info.number = 1;
  ImportTensor rows;
  rows.file = &file;
  rows.index = index;
  rows.what.name = tensor.name;
  rows.what.run = 1;
  rows.what.serial = 1;
  rows.what.hook = hook.value();
  rows.what.dtype = rows.what.stored_as = tensor.dtype;
  rows.what.tokens = {what.first_token, what.first_token + tensor.shape[0]};
  rows.row_bytes = (*table)[hook.value()].row_bytes();
  ImportRequest& request = run.requests[1];
  request.what.run = 1;
  request.what.serial = 1;
  request.what.id = what.request;
  request.tensors.push_back(std::move(rows));
  run.table = std::move(table);
  return run;
}

/// Puts what documents say together with what files hold.
class Checker {
 public:
  explicit Checker(ImportSource& source) : source_(source) {}

  Status take(const fs::path& path, TensorFile& file) {
    path_ = path.string();
    Result<Document> parsed = parse_document(file.document(), path_);
    if (!parsed.ok()) return parsed.status();
    const Document& document = parsed.value();
    std::map<std::uint32_t, std::size_t> runs;  // the document's numbers, places in source_.runs
    for (const RunHeader& header : document.runs) {
      const std::size_t place = find_run(document.store_id, header);
      if (source_.runs[place].info.hooks.size() != header.info.hooks.size()) {
        return corrupt(
            fmt::format("run {} has other hooks than another file says", header.info.number));
      }
      runs[header.info.number] = place;
    }
    for (const DocumentRequest& request : document.requests) {
      const auto run = runs.find(request.run);
      if (run == runs.end()) return corrupt("a request is of a run that is not described");
      source_.runs[run->second].requests[request.serial].what = request;
    }
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < file.tensors().size(); ++i) places[file.tensors()[i].name] = i;
    for (const DocumentTensor& tensor : document.tensors) {
      const auto place = places.find(tensor.name);
      if (place == places.end()) {
        return corrupt(fmt::format("it lacks the tensor {}", in_quotes(tensor.name)));
      }
      if (Status s = take(file, place->second, tensor, runs.at(tensor.run)); !s.ok()) return s;
    }
    if (document.tensors.size() != file.tensors().size()) {
      return corrupt("it has tensors that its description lacks");
    }
    return {};
  }

 private:
  [[nodiscard]] Status corrupt(const std::string& why) const {
    return {Code::corrupt, fmt::format("{} contradicts itself: {}", path_, why)};
  }

  std::size_t find_run(const std::string& store_id, const RunHeader& header) {
    for (std::size_t i = 0; i < source_.runs.size(); ++i) {
      const ImportRun& run = source_.runs[i];
      if (run.store_id == store_id && run.info.id == header.info.id) return i;
    }
    source_.runs.push_back({store_id, header.info, header.table, {}});
    return source_.runs.size() - 1;
  }

  Status take(TensorFile& file, std::size_t index, const DocumentTensor& what, std::size_t run) {
    const TensorEntry& entry = file.tensors()[index];
    const Hook& hook = (*source_.runs[run].table)[what.hook];
    const std::string name = in_quotes(what.name);
    if (hook.dtype != what.dtype) return corrupt(name + " is of another type than its hook");
    if (entry.dtype != what.stored_as) return corrupt(name + " is of another type than it says");
    if (what.stored_as != what.dtype && what.stored_as == DType::f32) {
      return {Code::unsupported,
              fmt::format("{}: {} was widened from {} to float32: export it without --float32",
                          path_, name, to_string(what.dtype))};
    }
    if (what.stored_as != what.dtype && what.stored_as != numpy_dtype(what.dtype)) {
      return corrupt(fmt::format("{} of {} cannot be stored as {}", name, to_string(what.dtype),
                                 to_string(what.stored_as)));
    }
    std::vector<std::int64_t> shape{what.tokens.end - what.tokens.begin};
    for (const std::int64_t dimension : hook.row_shape) {
      shape.push_back(dimension == kPerStepColumns ? what.columns : dimension);
    }
    if (shape != entry.shape) return corrupt("the shape of " + name + " is not that of its rows");
    if (shape[0] > kMostRows) return too_many_rows(path_, what.name);
    const auto request = source_.runs[run].requests.find(what.serial);
    if (request == source_.runs[run].requests.end()) {
      return corrupt(name + " is of a request that is not described");
    }
    for (const ImportTensor& other : request->second.tensors) {
      if (other.what.hook == what.hook && other.what.ordinal == what.ordinal) {
        return {
            Code::invalid_argument,
            fmt::format("{}: {} is there already, in this file or in one before it", path_, name)};
      }
    }
    request->second.tensors.push_back({&file, index, what, hook.row_bytes(what.columns)});
    return {};
  }

  ImportSource& source_;
  std::string path_;
};

}  // namespace

Result<ImportSource> ImportSource::open(const std::vector<fs::path>& paths,
                                        const std::optional<ForeignTensor>& foreign) {
  std::vector<fs::path> all;
  for (const fs::path& path : paths) {
    if (!path.string().ends_with(kIndexEnding)) {
      all.push_back(path);
    } else if (Status s = add_files_of(path, all); !s.ok()) {
      return s;
    }
  }
  if (foreign && all.size() != 1) {
    return Status(Code::invalid_argument,
                  fmt::format("--hook describes the tensor of one file, not of {}", all.size()));
  }
  ImportSource source;
  Checker checker(source);
  for (const fs::path& path : all) {
    auto opened = open_tensor_file(path);
    if (!opened.ok()) return opened.status();
    source.files.push_back(std::move(opened).value());
    TensorFile& file = *source.files.back();
    const bool ours = !file.document().empty();
    if (!ours && !foreign) return tell_what_lacks(path, file);
    if (ours && foreign) {
      return Status(Code::invalid_argument,
                    fmt::format("{} says itself whose rows it holds: leave out --hook and the like",
                                path.string()));
    }
    if (ours) {
      if (Status s = checker.take(path, file); !s.ok()) return s;
      continue;
    }
    Result<ImportRun> run = foreign_run(path, file, *foreign);
    if (!run.ok()) return run.status();
    source.runs.push_back(std::move(run).value());
  }
  return source;
}

}  // namespace graphtap::store
