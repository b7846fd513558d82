#include "cli/subcommands.hpp"

namespace graphtap::cli {
namespace {

constexpr Subcommand kSubcommands[] = {
    {"run", "Run a model on prompts and capture what its hooks see", setup_run},
    {"graph", "Show switching on captured graphs, without a GPU or a model", setup_graph},
    {"ls", "List what a store holds: runs, requests, hooks", setup_ls},
    {"show", "Show captured values: norms, extremes, numbers, gaps", setup_show},
    {"verify", "Check a store without changing it", setup_verify},
    {"report", "Draw a store as one HTML page: layer × token heat maps", setup_report},
    {"ctl", "Switch the hooks of a serving process through its control socket", setup_ctl},
    {"index", "Rebuild a store's SQLite index from its segments", setup_index},
    {"query", "Ask a store's index in SQL", setup_query},
    {"export", "Write what a store holds as safetensors or npz files", setup_export},
    {"import", "Store the tensors of safetensors or npz files as a run", setup_import},
};

}  // namespace

std::span<const Subcommand> subcommands() noexcept { return kSubcommands; }

}  // namespace graphtap::cli
