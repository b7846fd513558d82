// What was captured is what the model computed, under the right name: checked by the model's own
// arithmetic, by the engine's outputs and by a run that nobody watched. The second half shows that
// the oracles would notice if it were not.
#include <algorithm>
#include <fstream>

#include "integration/support/llama_support.hpp"

namespace graphtap::llama::test {
namespace {

/// One watched run of three prompts with every hook on, and the same run unwatched.
struct World {
  Captured captured;
  EngineOutputs outputs;
  std::deque<Generation> generations;
  EngineOutputs unwatched;
  std::deque<Generation> unwatched_generations;
  Stats stats;
};

const World& world() {
  static const World kWorld = [] {
    World made;
    Watched watched;
    watched.submit(three_prompts(6));
    watched.run();
    made.captured = watched.captured();
    made.outputs = watched.outputs();
    made.generations = watched.session().generations();
    made.stats = watched.monitor().stats();

    SessionOptions plain = small_options();
    plain.instrument = false;
    auto session = LlamaSession::open(plain).value_or_throw();
    for (const Prompt& prompt : three_prompts(6)) (void)session->submit(prompt).value_or_throw();
    SessionCallbacks callbacks;
    callbacks.after_step = [&](const StepReport& report) {
      std::uint32_t row = 0;
      for (const StepSpan& span : report.spans) {
        for (std::uint32_t i = 0; i < span.rows; ++i, ++row) {
          const auto logits = session->logits(row);
          made.unwatched.logits[{span.generation, span.first_token + i}].assign(logits.begin(),
                                                                                logits.end());
        }
      }
    };
    const Status status = session->run(callbacks);
    if (!status.ok()) throw Error(status);
    made.unwatched_generations = session->generations();
    return made;
  }();
  return kWorld;
}

void expect_right(const Verdict& verdict, std::uint64_t least) {
  EXPECT_GE(verdict.checked, least);
  EXPECT_TRUE(verdict.wrong.empty()) << verdict.wrong.size() << " of " << verdict.checked
                                     << " wrong, the first: " << verdict.wrong.front();
}

std::uint64_t computed_rows() {
  std::uint64_t rows = 0;
  for (const Generation& generation : world().generations) rows += generation.tokens.size() - 1;
  return rows;
}

TEST(LlamaOracles, C1_EveryRowOfEveryHookArrivesOnce) {
  const World& w = world();
  EXPECT_EQ(w.captured.requests.size(), 3u);
  EXPECT_EQ(w.captured.duplicates, 0u);
  EXPECT_TRUE(w.captured.gaps.empty()) << w.captured.gaps.front();
  EXPECT_EQ(w.captured.finished.size(), 3u);
  for (const Generation& generation : w.generations) {
    const std::size_t computed = generation.tokens.size() - 1;
    EXPECT_EQ(w.captured.rows(generation.number, "embed").size(), computed);
    for (int layer = 0; layer < norms().layers; ++layer) {
      for (const char* type : {"resid_pre", "ln1", "q", "k", "v", "rot_q", "rot_k", "z", "attn_out",
                               "resid_mid", "ln2", "mlp_in", "mlp_post", "mlp_out"}) {
        EXPECT_EQ(w.captured.rows(generation.number, layer_hook(layer, type)).size(), computed)
            << type << " of layer " << layer;
      }
    }
  }
}

TEST(LlamaOracles, I3_PlannedEqualsDelivered) {
  EXPECT_GT(world().stats.total.planned, 0u);
  EXPECT_EQ(world().stats.total.planned, world().stats.total.delivered);
}

TEST(LlamaOracles, C1_TokenIdsAreEachRequestsOwn) {
  expect_right(check_token_ids(world().captured, world().generations), computed_rows());
}

TEST(LlamaOracles, B1_ResidualSumsHoldBitForBit) {
  expect_right(check_residual_sums(world().captured), computed_rows() * 60);
}

TEST(LlamaOracles, B1_RecomputedNormsAgree) {
  expect_right(check_norms(world().captured), computed_rows() * 60);
}

TEST(LlamaOracles, B1_FinalNormIsTheEnginesEmbedding) {
  expect_right(check_embeddings(world().captured, world().outputs), computed_rows());
}

TEST(LlamaOracles, B1_LogitsAreThoseOfAnUnwatchedRun) {
  const World& w = world();
  expect_right(check_logits(w.captured, w.unwatched), w.outputs.spans.size());
  // Watching changed nothing anywhere else either.
  ASSERT_EQ(w.outputs.logits.size(), w.unwatched.logits.size());
  EXPECT_TRUE(w.outputs.logits == w.unwatched.logits);
  for (std::size_t i = 0; i < w.generations.size(); ++i) {
    EXPECT_EQ(w.generations[i].tokens, w.unwatched_generations[i].tokens);
  }
}

TEST(LlamaOracles, B1_RotaryEmbeddingLeavesTheFirstPositionAndAllLengths) {
  const Captured& captured = world().captured;
  std::uint64_t turned = 0;
  for (const auto& [request, hooks] : captured.requests) {
    for (const auto& [token, row] : captured.rows(request, "embed")) {
      for (const auto& [before, after] : {std::pair("q", "rot_q"), std::pair("k", "rot_k")}) {
        const auto plain = values<float>(captured, request, layer_hook(7, before), token);
        const auto rotated = values<float>(captured, request, layer_hook(7, after), token);
        ASSERT_EQ(plain.size(), rotated.size());
        if (token == 0) {
          EXPECT_EQ(plain, rotated);
        }
        if (plain != rotated) ++turned;
        for (std::size_t head = 0; head < plain.size() / 64; ++head) {
          double a = 0, b = 0;
          for (std::size_t i = head * 64; i < head * 64 + 64; ++i) {
            a += static_cast<double>(plain[i]) * plain[i];
            b += static_cast<double>(rotated[i]) * rotated[i];
          }
          EXPECT_NEAR(a, b, 1e-4 * a) << before << " head " << head << " token " << token;
        }
      }
    }
  }
  EXPECT_GT(turned, 0u);
}

TEST(LlamaOracles, B1_MlpInIsTheSecondNorm) {
  const Captured& captured = world().captured;
  for (int layer = 0; layer < norms().layers; ++layer) {
    EXPECT_EQ(captured.rows(0, layer_hook(layer, "mlp_in")),
              captured.rows(0, layer_hook(layer, "ln2")));
  }
}

// ---- Teeth: wrong labels, made on purpose, do not pass.

TEST(LlamaOraclesTeeth, A5_ALayerLabelOffByOneInTheMapIsCaught) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "off_by_one.json";
  std::ofstream(file) << R"({"format": 1, "name": "off-by-one", "hooks": [
      {"type": "resid_mid", "rows": 1,
       "nodes": [{"tensor": "ffn_inp-{previous}", "op": "ADD"},
                 {"tensor": "ffn_inp-0", "op": "ADD", "layer": 0}]}]})";
  SessionOptions options = small_options();
  options.map = file;
  Watched watched(options);
  watched.submit(three_prompts(2));
  watched.run();
  const Captured captured = watched.captured();
  const std::uint64_t rows = captured.rows(0, "embed").size();
  EXPECT_GT(rows, 0u);
  EXPECT_GT(check_residual_sums(captured).wrong.size(), rows * 50);
  EXPECT_GT(check_norms(captured).wrong.size(), rows * 20);
}

TEST(LlamaOraclesTeeth, A5_AnyOneHookWithTheNextLayersLabelIsCaught) {
  for (const char* type : {"resid_pre", "attn_out", "resid_mid", "mlp_out", "ln1", "ln2"}) {
    Captured shifted = world().captured;
    for (auto& [request, hooks] : shifted.requests) {
      const auto original = world().captured.requests.at(request);
      for (int layer = 0; layer + 1 < norms().layers; ++layer) {
        hooks[layer_hook(layer + 1, type)] = original.at(layer_hook(layer, type));
      }
    }
    const std::size_t wrong =
        check_residual_sums(shifted).wrong.size() + check_norms(shifted).wrong.size();
    EXPECT_GT(wrong, computed_rows() * 20) << type;
  }
}

TEST(LlamaOraclesTeeth, A5_TwoRequestsRowsExchangedInOneHookAreCaught) {
  for (const char* type : {"resid_pre", "attn_out", "resid_mid", "mlp_out"}) {
    Captured swapped = world().captured;
    std::swap(swapped.requests[0][layer_hook(12, type)], swapped.requests[1][layer_hook(12, type)]);
    EXPECT_FALSE(check_residual_sums(swapped).wrong.empty()) << type;
  }
}

TEST(LlamaOraclesTeeth, C1_TwoWholeRequestsExchangedAreCaught) {
  Captured swapped = world().captured;
  std::swap(swapped.requests[0], swapped.requests[1]);
  // Each request is consistent in itself, so only what ties it to its own tokens can see it.
  EXPECT_TRUE(check_residual_sums(swapped).wrong.empty());
  EXPECT_FALSE(check_token_ids(swapped, world().generations).wrong.empty());
  EXPECT_FALSE(check_embeddings(swapped, world().outputs).wrong.empty());
  EXPECT_FALSE(check_logits(swapped, world().unwatched).wrong.empty());
}

TEST(LlamaOraclesTeeth, C1_TokensOfOneRequestInReverseAreCaught) {
  Captured reversed = world().captured;
  for (auto& [hook, rows] : reversed.requests[2]) {
    const Rows original = rows;
    auto from = original.rbegin();
    for (auto& [token, row] : rows) row = (from++)->second;
  }
  EXPECT_FALSE(check_token_ids(reversed, world().generations).wrong.empty());
  EXPECT_FALSE(check_embeddings(reversed, world().outputs).wrong.empty());
}

}  // namespace
}  // namespace graphtap::llama::test
