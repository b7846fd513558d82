#include "graphtap/sink.hpp"

namespace graphtap {
namespace {

class NullSink final : public Sink {
 public:
  [[nodiscard]] std::string name() const override { return "null"; }
  Status write(const DeliveredStep&) override { return {}; }
};

}  // namespace

std::shared_ptr<Sink> make_null_sink() { return std::make_shared<NullSink>(); }

}  // namespace graphtap
