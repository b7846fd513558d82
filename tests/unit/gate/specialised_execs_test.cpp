// The moments between a job being taken and its exec being published, one at a time.
#include <gtest/gtest.h>

#include "gate/specialised_execs.hpp"
#include "unit/gate/gate_rig.hpp"

namespace graphtap::testing {
namespace {

class SpecialisedExecsTest : public ::testing::Test {
 protected:
  SpecialisedExecsTest() {
    captured_ = rig_.capture_all();
    std::vector<ManagedNode> nodes;
    for (const RecordedProducer& producer : rig_.recorder.take(captured_.graph)) {
      nodes.push_back({producer.id.hook, producer.node});
    }
    clone_ = PrivateClone::make(device_, captured_.graph, 0, nodes).value();
    execs_ =
        std::make_unique<SpecialisedExecs>(device_, counters_, std::move(clone_), rig_.all(), 2);
  }

  Rig rig_;
  Captured captured_;
  std::shared_ptr<GateDevice> device_ = std::make_shared<GateDevice>(rig_.device);
  std::shared_ptr<GateCounters> counters_ = std::make_shared<GateCounters>();
  std::shared_ptr<PrivateClone> clone_;
  std::unique_ptr<SpecialisedExecs> execs_;
};

TEST_F(SpecialisedExecsTest, A13_AGraphClosedWhileItsExecIsBuiltDestroysIt) {
  ASSERT_TRUE(execs_->choose(rig_.none()).wants_job);
  auto job = execs_->take_job();
  ASSERT_TRUE(job.has_value());
  execs_->close();
  EXPECT_EQ(rig_.engine->live_graphs(), 2u) << "the job still builds from the clone";
  const Exec exec = job->clone->build(job->set).value();
  execs_->publish(job->set, exec, 100);
  EXPECT_EQ(rig_.engine->live_execs(), 1u);
  EXPECT_EQ(counters_->specialised_execs, 0u);
  EXPECT_EQ(counters_->specialised_bytes, 0u);
  job.reset();
  EXPECT_EQ(rig_.engine->live_graphs(), 1u) << "and the clone goes with it";
  EXPECT_EQ(execs_->choose(rig_.none()).exec, Exec{});
  EXPECT_FALSE(execs_->choose(rig_.none()).wants_job);
}

TEST_F(SpecialisedExecsTest, ASetThatIsQueuedOrBeingBuiltIsNotAskedForAgain) {
  ASSERT_TRUE(execs_->choose(rig_.none()).wants_job);
  EXPECT_FALSE(execs_->choose(rig_.none()).wants_job) << "queued";
  const auto job = execs_->take_job();
  EXPECT_FALSE(execs_->take_job().has_value());
  EXPECT_FALSE(execs_->choose(rig_.none()).wants_job) << "being built";
  execs_->publish(job->set, job->clone->build(job->set).value(), 100);
  EXPECT_NE(execs_->choose(rig_.none()).exec, Exec{});
  EXPECT_FALSE(execs_->choose(rig_.none()).wants_job);
}

TEST_F(SpecialisedExecsTest, ANewerSetTakesThePlaceOfOneThatWaitsButNotOfTheEmptyOne) {
  (void)execs_->choose(rig_.set({1}));
  ASSERT_TRUE(execs_->choose(rig_.set({1})).wants_job);
  (void)execs_->choose(rig_.set({2}));
  EXPECT_FALSE(execs_->choose(rig_.set({2})).wants_job) << "the graph is queued already";
  EXPECT_EQ(execs_->take_job()->set, rig_.set({2}));
  execs_->failed();
  for (int i = 0; i < 2; ++i) (void)execs_->choose(rig_.all());
  ASSERT_TRUE(execs_->choose(rig_.none()).wants_job);
  (void)execs_->choose(rig_.set({3}));
  (void)execs_->choose(rig_.set({3}));
  EXPECT_EQ(execs_->take_job()->set, rig_.none());
}

TEST_F(SpecialisedExecsTest, ASetThatWasEvictedHasToSettleAgain) {
  for (int i = 0; i < 2; ++i) (void)execs_->choose(rig_.set({1}));
  const auto job = execs_->take_job();
  ASSERT_TRUE(job.has_value());
  execs_->publish(job->set, job->clone->build(job->set).value(), 100);
  EXPECT_FALSE(execs_->evictable().oldest.has_value()) << "it is the current set's";
  (void)execs_->choose(rig_.all());
  EXPECT_EQ(execs_->evictable().bytes, 100u);
  execs_->evict_oldest();
  EXPECT_EQ(rig_.engine->live_execs(), 1u);
  EXPECT_FALSE(execs_->choose(rig_.set({1})).wants_job);
  EXPECT_TRUE(execs_->choose(rig_.set({1})).wants_job);
}

}  // namespace
}  // namespace graphtap::testing
