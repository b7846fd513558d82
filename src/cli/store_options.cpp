#include "cli/store_options.hpp"

#include "cli/values.hpp"

namespace graphtap::cli {

void add_store_options(CLI::App& app, StoreWords& words) {
  add_text(app, "--durability", words.durability, "WHAT",
           "survive the end of this process, or power loss too");
  add_text(app, "--sync-interval", words.sync_interval, "TIME",
           "sync so often, for --durability power");
  add_text(app, "--segment", words.segment, "SIZE", "a new segment file at this size");
  add_text(app, "--retain", words.retain, "SIZE",
           "remove the oldest segments of a larger store, e.g. 50GiB");
  add_text(app, "--retain-age", words.retain_age, "TIME",
           "remove segments whose last step is older, e.g. 7d");
  add_text(app, "--when-full", words.when_full, "WHAT",
           "on a full disk: refuse what comes, or remove-oldest segments");
  add_text(app, "--keep-free", words.keep_free, "SIZE",
           "take the disk for full when less would be free");
}

StoreOptions read_store_options(const StoreWords& words) {
  constexpr std::uint64_t kMostBytes = 1ull << 50;
  using std::chrono::duration_cast;
  StoreOptions options;
  options.durability = parse_word("--durability", words.durability, {"process", "power"}) == 0
                           ? Durability::process
                           : Durability::power;
  options.sync_interval = parse_time("--sync-interval", words.sync_interval,
                                     std::chrono::milliseconds(1), std::chrono::hours(24));
  options.segment_bytes = parse_size("--segment", words.segment, 64u << 10, kMostBytes);
  if (words.retain)
    options.retain_bytes = parse_size("--retain", *words.retain, 1u << 20, kMostBytes);
  if (words.retain_age) {
    options.retain_age = duration_cast<std::chrono::seconds>(
        parse_time("--retain-age", *words.retain_age, std::chrono::seconds(1),
                   std::chrono::hours(24 * 36525)));
  }
  options.when_full = parse_word("--when-full", words.when_full, {"refuse", "remove-oldest"}) == 0
                          ? WhenFull::refuse
                          : WhenFull::remove_oldest;
  if (words.keep_free)
    options.keep_free_bytes = parse_size("--keep-free", *words.keep_free, 1, kMostBytes);
  return options;
}

}  // namespace graphtap::cli
