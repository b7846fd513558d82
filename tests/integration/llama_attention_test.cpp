// One sequence at a time offers the attention scores and the pattern: their columns are the
// positions of the keys, and they are what q, k and v of the same layers make of them.
#include <cmath>

#include "integration/support/llama_support.hpp"

namespace graphtap::llama::test {
namespace {

constexpr std::size_t kHeads = 9, kKeyHeads = 3, kHeadSize = 64;

SessionOptions single() {
  SessionOptions options = small_options();
  options.max_sequences = 1;
  return options;
}

/// Two requests, one after the other, with everything about attention.
struct Attended {
  Captured captured;
  std::vector<std::size_t> computed;  // by request
};

const Attended& attention() {
  static const Attended kAttended = [] {
    MonitorOptions monitor;
    monitor.selection = "rot_q,rot_k,v,attn_scores,pattern,z:0,14,29;token_ids";
    Watched watched(single(), monitor);
    watched.submit({ask("a",
                        "Twelve drummers drumming, eleven pipers piping, ten lords a-leaping, "
                        "nine ladies dancing, eight maids a-milking, seven swans",
                        4),
                    ask("b", "The cat sat on the", 3)});
    watched.run();
    Attended run{watched.captured(), {}};
    for (const Generation& generation : watched.session().generations()) {
      run.computed.push_back(generation.tokens.size() - 1);
    }
    return run;
  }();
  return kAttended;
}

constexpr int kLayers[] = {0, 14, 29};

TEST(LlamaAttention, B1_ColumnsAreTheKeysOfTheStep) {
  const Attended& run = attention();
  EXPECT_TRUE(run.captured.gaps.empty()) << run.captured.gaps.front();
  ASSERT_GT(run.computed[0], 32u) << "the first prompt was meant to come in two chunks";
  for (std::size_t request = 0; request < 2; ++request) {
    const Rows& rows = run.captured.rows(request, layer_hook(14, "pattern"));
    EXPECT_EQ(rows.size(), run.computed[request]);
    for (const auto& [token, row] : rows) {
      const std::int64_t columns =
          run.captured.columns.at(request).at(layer_hook(14, "pattern")).at(token);
      EXPECT_GT(columns, token);
      EXPECT_LE(columns, static_cast<std::int64_t>(run.computed[request]));
      EXPECT_EQ(row.size(), kHeads * static_cast<std::size_t>(columns) * sizeof(float));
    }
  }
}

TEST(LlamaAttention, B1_PatternRowsSumToOneAndNeverLookAhead) {
  std::size_t checked = 0;
  for (std::size_t request = 0; request < 2; ++request) {
    for (const int layer : kLayers) {
      const std::string hook = layer_hook(layer, "pattern");
      for (const auto& [token, row] : attention().captured.rows(request, hook)) {
        const auto pattern = values<float>(attention().captured, request, hook, token);
        const std::size_t columns = pattern.size() / kHeads;
        for (std::size_t head = 0; head < kHeads; ++head) {
          double total = 0;
          for (std::size_t key = 0; key < columns; ++key) {
            const float weight = pattern[head * columns + key];
            total += static_cast<double>(weight);
            if (key > static_cast<std::size_t>(token)) {
              ASSERT_EQ(weight, 0.0F) << "token " << token << " looks at " << key;
            }
          }
          ++checked;
          ASSERT_NEAR(total, 1.0, 1e-4) << hook << " token " << token << " head " << head;
        }
      }
    }
  }
  EXPECT_EQ(checked, 3 * kHeads * (attention().computed[0] + attention().computed[1]));
}

TEST(LlamaAttention, B1_ScoresAreQueriesTimesKeysAndPatternIsTheirSoftmax) {
  const Captured& captured = attention().captured;
  std::size_t checked = 0;
  for (std::size_t request = 0; request < 2; ++request) {
    for (const int layer : kLayers) {
      for (const auto& [token, row] : captured.rows(request, layer_hook(layer, "attn_scores"))) {
        const auto scores =
            values<float>(captured, request, layer_hook(layer, "attn_scores"), token);
        const auto pattern = values<float>(captured, request, layer_hook(layer, "pattern"), token);
        const auto query = values<float>(captured, request, layer_hook(layer, "rot_q"), token);
        ASSERT_EQ(query.size(), kHeads * kHeadSize);
        const std::size_t columns = scores.size() / kHeads;
        for (std::size_t head = 0; head < kHeads; ++head) {
          double sum = 0, largest = -1e30;
          std::vector<double> expected;
          for (std::size_t key = 0; key <= static_cast<std::size_t>(token); ++key) {
            const auto keys = values<float>(captured, request, layer_hook(layer, "rot_k"),
                                            static_cast<std::int64_t>(key));
            double dot = 0, scale = 0;
            for (std::size_t i = 0; i < kHeadSize; ++i) {
              const double product = static_cast<double>(query[head * kHeadSize + i]) *
                                     keys[head / (kHeads / kKeyHeads) * kHeadSize + i];
              dot += product;
              scale += std::abs(product);
            }
            // The cache keeps keys in half precision.
            ASSERT_NEAR(scores[head * columns + key], dot, 2e-3 * scale + 1e-3)
                << "layer " << layer << " token " << token << " head " << head << " key " << key;
            expected.push_back(scores[head * columns + key] / 8.0);
            largest = std::max(largest, expected.back());
          }
          ++checked;
          for (double& value : expected) sum += value = std::exp(value - largest);
          for (std::size_t key = 0; key < expected.size(); ++key) {
            ASSERT_NEAR(pattern[head * columns + key], expected[key] / sum, 1e-4);
          }
        }
      }
    }
  }
  EXPECT_EQ(checked, 3 * kHeads * (attention().computed[0] + attention().computed[1]));
}

TEST(LlamaAttention, B1_ZIsThePatternTimesTheValues) {
  const Captured& captured = attention().captured;
  std::size_t checked = 0;
  for (const int layer : kLayers) {
    for (const auto& [token, row] : captured.rows(1, layer_hook(layer, "z"))) {
      const auto z = values<float>(captured, 1, layer_hook(layer, "z"), token);
      const auto pattern = values<float>(captured, 1, layer_hook(layer, "pattern"), token);
      const std::size_t columns = pattern.size() / kHeads;
      for (std::size_t head = 0; head < kHeads; ++head) {
        for (std::size_t i = 0; i < kHeadSize; ++i) {
          double expected = 0, scale = 0;
          for (std::size_t key = 0; key <= static_cast<std::size_t>(token); ++key) {
            const auto v =
                values<float>(captured, 1, layer_hook(layer, "v"), static_cast<std::int64_t>(key));
            const double product = static_cast<double>(pattern[head * columns + key]) *
                                   v[head / (kHeads / kKeyHeads) * kHeadSize + i];
            expected += product;
            scale += std::abs(product);
          }
          ++checked;
          ASSERT_NEAR(z[head * kHeadSize + i], expected, 4e-3 * scale + 1e-5)
              << "layer " << layer << " token " << token << " head " << head;
        }
      }
    }
  }
  EXPECT_EQ(checked, 3 * kHeads * kHeadSize * attention().computed[1]);
}

TEST(LlamaAttention, B1_SeveralSequencesDoNotOfferItAndSayWhy) {
  auto session = LlamaSession::open(small_options()).value_or_throw();
  EXPECT_FALSE(session->table().find("pattern", 0).has_value());
  const auto set = session->resolve(Selection::parse("pattern:3").value_or_throw());
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.status().code(), Code::invalid_argument);
  EXPECT_NE(set.status().message().find("cache cells of all sequences"), std::string::npos)
      << set.status().message();
  EXPECT_TRUE(session->resolve(Selection::parse("full").value_or_throw()).ok());
}

TEST(LlamaAttention, B1_FlashAttentionHidesItAndLeavesTheRestRight) {
  SessionOptions options = single();
  options.flash_attention = true;
  MonitorOptions monitor;
  monitor.selection = "";
  Watched watched(options, monitor);
  const auto set = watched.session().resolve(Selection::parse("pattern").value_or_throw());
  ASSERT_FALSE(set.ok());
  EXPECT_NE(set.status().message().find("flash attention"), std::string::npos);
  watched.submit({ask("a", "The cat sat on the", 3)});
  watched.run();
  const Captured captured = watched.captured();
  EXPECT_TRUE(captured.gaps.empty());
  const Verdict sums = check_residual_sums(captured);
  EXPECT_GT(sums.checked, 300u);
  EXPECT_TRUE(sums.wrong.empty()) << sums.wrong.front();
  EXPECT_EQ(captured.rows(0, layer_hook(0, "z")).size(), captured.rows(0, "embed").size());
}

}  // namespace
}  // namespace graphtap::llama::test
