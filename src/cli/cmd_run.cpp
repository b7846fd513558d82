#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <system_error>

#include "base/near_match.hpp"
#include "cli/run/engine.hpp"
#include "cli/store_options.hpp"
#include "cli/subcommands.hpp"
#include "cli/values.hpp"
#include "plan/wire.hpp"

namespace graphtap::cli {
namespace {

struct Options {
  std::optional<std::string> model, map, hooks, threads, sequences, name, prompt_file, control;
  std::vector<std::string> prompts, at;
  std::string store = "graphtap-store", policy = "lossless", eager = "same";
  std::string ring = "64MiB", max_tokens = "32", batch = "128", context = "2048";
  StoreWords store_words;
  bool chat = false, ignore_end = false, no_store = false, no_transcript = false;
  bool list_hooks = false, json = false, quiet = false;
};

constexpr const char* kExamples =
    R"(A step is one call of the engine: a prompt's chunk, and one token of each running request. Prompts
run together, as many as --sequences says; the others wait. Ctrl-C ends the run between two steps,
delivers what was captured, and exits with 130.

Examples:
  graphtap run --list-hooks
      what this model offers
  graphtap run --prompt "The capital of France is" --hooks resid_pre --store s
      one hook in every layer
  graphtap run --prompt-file questions.txt --chat --max-tokens 48 --at 8:resid_pre:20-29 --at 24:none
      everything for 8 steps, then ten layers, then nothing; one prompt a line
  graphtap run --prompt "2 + 2 =" --hooks "full,-pattern @decode" --json
  echo "Once upon a time" | graphtap run --prompt-file - --hooks logits --quiet)";

constexpr std::uintmax_t kMostPromptBytes = 16u << 20;

std::string read_prompts(const std::string& path, Console& console) {
  if (path == "-") return {std::istreambuf_iterator<char>(console.in), {}};
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    throw Error(Code::not_found, fmt::format("--prompt-file {}: no such file", path));
  }
  if (kind == std::filesystem::file_type::directory) {
    throw Error(
        Code::invalid_argument,
        fmt::format("--prompt-file {} is a directory; give a file with one prompt a line", path));
  }
  if (kind == std::filesystem::file_type::regular &&
      std::filesystem::file_size(path, error) > kMostPromptBytes) {
    throw Error(Code::invalid_argument, fmt::format("--prompt-file {} is larger than {}", path,
                                                    human_bytes(kMostPromptBytes)));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || !file.is_open() || !text)
    throw Error(Code::io_error, fmt::format("--prompt-file {} cannot be read", path));
  return std::move(text).str();
}

std::vector<RunPrompt> prompts(const Options& options, Console& console) {
  std::vector<RunPrompt> all;
  const auto add = [&](std::string text) {
    all.push_back({fmt::format("prompt-{}", all.size() + 1), std::move(text)});
  };
  for (const std::string& text : options.prompts) {
    if (text.empty()) throw Error(Code::invalid_argument, "--prompt is empty");
    add(text);
  }
  if (options.prompt_file) {
    const std::string text = read_prompts(*options.prompt_file, console);
    const std::size_t before = all.size();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string line = text.substr(begin, end - begin);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.find_first_not_of(" \t") != std::string::npos) add(std::move(line));
      begin = end + 1;
    }
    if (all.size() == before) {
      throw Error(
          Code::invalid_argument,
          fmt::format("--prompt-file {} holds no prompt; write one a line", *options.prompt_file));
    }
  }
  if (all.empty() && !options.list_hooks) {
    throw Error(
        Code::invalid_argument,
        "run needs something to run: --prompt TEXT or --prompt-file FILE (or --list-hooks)");
  }
  return all;
}

RunOptions read(const Options& options, Console& console) {
  RunOptions run;
  const auto count = [](std::string_view what, const std::string& text, std::uint64_t least,
                        std::uint64_t most) {
    return static_cast<std::uint32_t>(parse_count(what, text, least, most));
  };
  if (options.model) run.model = *options.model;
  if (options.map) run.map = *options.map;
  run.max_tokens = count("--max-tokens", options.max_tokens, 1, 1'000'000);
  run.context = count("--context", options.context, 16, 1'048'576);
  run.batch = count("--batch", options.batch, 5, 65'536);
  if (options.threads) run.threads = count("--threads", *options.threads, 1, 512);
  run.policy = parse_word("--policy", options.policy, {"lossless", "shed"}) == 0 ? Policy::lossless
                                                                                 : Policy::shed;
  constexpr EagerPolicy kEager[] = {EagerPolicy::same, EagerPolicy::all, EagerPolicy::none};
  run.eager = kEager[parse_word("--eager", options.eager, {"same", "all", "none"})];
  run.ring_bytes = wire::align_up(parse_size("--ring", options.ring, 4096, std::uint64_t{1} << 40));
  run.hooks = options.hooks;
  run.at = options.at;
  run.chat = options.chat;
  run.ignore_end = options.ignore_end;
  run.list_hooks = options.list_hooks;
  run.json = options.json;
  run.quiet = options.quiet;
  run.transcript = !options.no_transcript;
  run.name = options.name.value_or("");
  run.control = options.control.value_or("");
  run.store_options = read_store_options(options.store_words);
  run.store_options.run_name = run.name;
  if (!options.no_store) {
    if (options.store.empty())
      throw Error(Code::invalid_argument, "--store is empty; name a directory");
    run.store = options.store;
  }
  run.prompts = prompts(options, console);
  const std::uint64_t usual = std::clamp<std::uint64_t>(run.prompts.size(), 1, 8);
  run.sequences = options.sequences ? count("--sequences", *options.sequences, 1, 256)
                                    : static_cast<std::uint32_t>(usual);
  return run;
}

}  // namespace

Action setup_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_text(app, "--model", options->model, "FILE",
           "a GGUF file (default: the one that was fetched)");
  add_texts(app, "--prompt", options->prompts, "TEXT", "a prompt; repeatable");
  add_text(app, "--prompt-file", options->prompt_file, "FILE",
           "one prompt a line; - for standard input");
  add_flag(app, "--chat", options->chat, "each prompt is a user's turn of a chat");
  add_text(app, "--max-tokens", options->max_tokens, "N", "generate at most N tokens a prompt");
  add_flag(app, "--ignore-end", options->ignore_end, "go on after the model's end of text");
  add_text(app, "--hooks", options->hooks, "SELECTION",
           "enabled from step 0 on (default: every hook)");
  add_texts(app, "--at", options->at, "STEP:SELECTION", "switch before this step; repeatable");
  add_flag(app, "--list-hooks", options->list_hooks,
           "print what the model offers, and run nothing");
  add_text(app, "--map", options->map, "FILE", "further hooks (adapters/llama_cpp/maps/README.md)");
  add_text(app, "--store", options->store, "DIR", "where to keep what is captured");
  add_store_options(app, options->store_words);
  add_flag(app, "--no-store", options->no_store, "count it and drop it");
  add_flag(app, "--no-transcript", options->no_transcript, "do not keep the text beside the store");
  add_text(app, "--name", options->name, "TEXT", "name of the run, for ls and report");
  add_text(app, "--policy", options->policy, "POLICY",
           "when the ring is full: lossless waits, or shed");
  add_text(app, "--ring", options->ring, "SIZE", "payload ring, e.g. 64MiB");
  add_text(app, "--eager", options->eager, "WHAT",
           "steps capture what is enabled (same), all or none");
  add_text(app, "--threads", options->threads, "N", "of the engine (default: the CPUs, at most 8)");
  add_text(app, "--batch", options->batch, "N", "most rows of a step; longer prompts go in chunks");
  add_text(app, "--context", options->context, "N", "tokens that all running requests share");
  add_text(app, "--sequences", options->sequences, "N",
           "requests that run at once (default: up to 8)");
  add_text(app, "--control", options->control, "SOCKET",
           "listen here for `graphtap ctl`: switch hooks while it generates");
  add_flag(app, "--json", options->json, "print one JSON document");
  add_flag(app, "--quiet", options->quiet, "no progress, answers or hints");
  add_examples(app, kExamples);
  return [options](Console& console) { return run_engine(read(*options, console), console); };
}

}  // namespace graphtap::cli
