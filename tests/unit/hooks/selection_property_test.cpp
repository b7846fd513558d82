#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graphtap/selection.hpp"
#include "unit/hooks/models.hpp"

// Random selections over random models against a second, naive reading of the grammar, which works
// on strings and sets of (type, layer).

namespace graphtap {
namespace {

using Place = std::pair<std::string, int>;  // type, layer or -1
using Places = std::set<Place>;
using Random = std::mt19937;

const std::vector<std::string> kLayered{"resid_pre", "q", "k", "mlp_out", "router_logits"};
const std::vector<std::string> kGlobal{"token_ids", "final_logits"};
const std::map<std::string, std::vector<std::string>> kPresets{
    {"hidden-states", {"resid_pre"}},
    {"logits", {"final_logits"}},
    {"qkv", {"q", "k", "v"}},
    {"moe", {"router_logits", "topk_ids", "topk_weights"}},
    {"hf-only", {"resid_pre", "final_ln", "pattern", "final_logits"}},
};

std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }
bool chance(Random& random, unsigned percent) { return random() % 100 < percent; }

template <class T>
const T& pick(Random& random, const std::vector<T>& from) {
  return from[below(random, from.size())];
}

struct Model {
  Places places;
  int layers = 0;

  explicit Model(Random& random) {
    const int most = static_cast<int>(1 + below(random, 6));
    for (int layer = 0; layer < most; ++layer) {
      for (const std::string& type : kLayered) {
        if (chance(random, type == "router_logits" ? 40 : 90)) places.insert({type, layer});
      }
    }
    for (const std::string& type : kGlobal) {
      if (chance(random, 80)) places.insert({type, -1});
    }
    for (const Place& place : places) layers = std::max(layers, place.second + 1);
  }
};

std::string random_layers(Random& random, int layers) {
  std::string text;
  for (std::size_t i = 0, n = 1 + below(random, 3); i < n; ++i) {
    const int first =
        static_cast<int>(below(random, static_cast<std::size_t>(layers) + (i == 0 ? 1 : 0)));
    if (i > 0) text += ",";
    text += std::to_string(first);
    if (chance(random, 40)) {
      const int reversed = chance(random, 5) ? 1 : 0;
      text += "-";
      text += std::to_string(std::max(0, first + static_cast<int>(below(random, 3)) - reversed));
    }
  }
  return chance(random, 10) ? std::string("*") : text;
}

std::string random_selection(Random& random, int layers) {
  const auto blank = [&] { return chance(random, 10) ? " " : ""; };
  std::string text;
  for (std::size_t i = 0, n = 1 + below(random, 5); i < n; ++i) {
    if (i > 0) text += chance(random, 25) ? ";" : ",";
    text.append(blank());
    if (chance(random, 25)) text.append("-").append(blank());
    const std::size_t kind = below(random, 12);
    bool takes_layers = chance(random, 45);
    if (kind < 8) {
      text += pick(random, kLayered);
    } else if (kind == 8) {
      text += pick(random, kGlobal);
      takes_layers = chance(random, 5);
    } else if (kind == 9) {
      text += "*";
    } else {
      text +=
          std::next(kPresets.begin(), static_cast<std::ptrdiff_t>(below(random, kPresets.size())))
              ->first;
    }
    if (takes_layers) {
      text.append(blank()).append(":").append(blank()).append(random_layers(random, layers));
    }
    text.append(blank());
  }
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool among(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Claim {
  bool exclude = false;
  std::string name;
  std::vector<std::string> layers;  // as written; empty: all
};

std::vector<Claim> read_naively(std::string text) {
  std::erase(text, ' ');
  std::vector<Claim> claims;
  for (const std::string& segment : split(text, ';')) {
    std::vector<Claim> here;
    for (std::string part : split(segment, ',')) {
      if (part[0] >= '0' && part[0] <= '9') {
        here.back().layers.push_back(part);
        continue;
      }
      Claim claim;
      claim.exclude = part[0] == '-';
      if (claim.exclude) part.erase(0, 1);
      const std::size_t colon = part.find(':');
      claim.name = part.substr(0, colon);
      if (colon != std::string::npos) claim.layers.push_back(part.substr(colon + 1));
      here.push_back(claim);
    }
    for (std::size_t i = here.size(); i-- > 1;) {
      Claim& before = here[i - 1];
      if (before.layers.empty() && before.exclude == here[i].exclude &&
          among(kLayered, before.name) && among(kLayered, here[i].name)) {
        before.layers = here[i].layers;
      }
    }
    claims.insert(claims.end(), here.begin(), here.end());
  }
  return claims;
}

/// What one claim means, or nothing for an error.
std::optional<Places> meaning(const Claim& claim, const Model& model) {
  const auto preset = kPresets.find(claim.name);
  const bool star = claim.name == "*";
  Places of;
  for (const Place& place : model.places) {
    const bool wanted = star || place.first == claim.name ||
                        (preset != kPresets.end() && among(preset->second, place.first));
    if (wanted && (claim.layers.empty() || place.second >= 0)) of.insert(place);
  }
  if (claim.layers.empty()) {
    if (of.empty() && !star) return std::nullopt;
    return of;
  }
  if (among(kGlobal, claim.name) || claim.name == "logits") return std::nullopt;
  if (of.empty()) return std::nullopt;
  if (std::set<std::string>(claim.layers.begin(), claim.layers.end()).size() !=
      claim.layers.size()) {
    return std::nullopt;
  }
  Places taken;
  for (const std::string& range : claim.layers) {
    const std::vector<std::string> ends = split(range, '-');
    const int first = range == "*" ? 0 : std::stoi(ends.front());
    const int last = range == "*" ? model.layers - 1 : std::stoi(ends.back());
    if (first > last || last >= model.layers) return std::nullopt;
    bool any = false;
    for (const Place& place : of) {
      if (place.second >= first && place.second <= last) {
        taken.insert(place);
        any = true;
      }
    }
    if (!any) return std::nullopt;
  }
  return taken;
}

// "4" and "4-4" are one range, so they count as given twice.
std::vector<std::string> normal(std::vector<std::string> layers) {
  for (std::string& range : layers) {
    if (range != "*" && range.find('-') == std::string::npos) {
      const std::string number = range;
      range.append("-").append(number);
    }
  }
  return layers;
}

std::optional<Places> oracle(const std::string& text, const Model& model) {
  Places in;
  Places out;
  bool only_exclusions = true;
  std::set<std::string> seen;
  for (Claim claim : read_naively(text)) {
    claim.layers = normal(claim.layers);
    std::string key = claim.exclude ? "-" : "";
    key += claim.name;
    for (const std::string& range : claim.layers) key.append(":").append(range);
    if (!seen.insert(key).second) return std::nullopt;
    const std::optional<Places> places = meaning(claim, model);
    if (!places) return std::nullopt;
    (claim.exclude ? out : in).insert(places->begin(), places->end());
    only_exclusions = only_exclusions && claim.exclude;
  }
  if (only_exclusions) in = model.places;
  for (const Place& place : out) in.erase(place);
  if (in.empty()) return std::nullopt;
  return in;
}

Places places_of(const HookTable& table, const HookSet& set) {
  Places places;
  for (HookId id : set.ids()) places.insert({table[id].type, table[id].layer});
  return places;
}

std::string joined(const Selection& selection) {
  std::string text;
  const std::string* last = nullptr;
  for (const Selection::Term& term : selection.terms()) {
    if (last && *last == term.text) continue;  // the terms of one preset
    if (last) text += ";";
    text += term.text;
    last = &term.text;
  }
  return text;
}

TEST(SelectionProperty, A3_AgreesWithANaiveReading) {
  int right = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    const Model model(random);
    HookTable table("random");
    for (const auto& [type, layer] : model.places)
      testing::must_add(table, testing::spec(type, layer));
    const std::string text = random_selection(random, std::max(1, model.layers));
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << text);
    const std::optional<Places> expected = oracle(text, model);
    const Result<Selection> selection = Selection::parse(text);
    const Result<HookSet> set =
        selection.ok() ? selection.value().resolve(table) : Result<HookSet>(selection.status());
    ASSERT_EQ(set.ok(), expected.has_value()) << set.status().message();
    if (!expected) {
      ++refused;
      ASSERT_EQ(set.status().code(), Code::invalid_argument);
      continue;
    }
    ++right;
    ASSERT_EQ(places_of(table, set.value()), *expected);
    // A selection can be put together again from its terms.
    const Result<Selection> again = Selection::parse(joined(selection.value()));
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(again.value().resolve(table).value(), set.value());
  }
  // Both outcomes must have been common, or the comparison proves little.
  EXPECT_GT(right, 4'000);
  EXPECT_GT(refused, 4'000);
}

}  // namespace
}  // namespace graphtap
