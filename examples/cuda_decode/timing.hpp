#pragma once
// What hooks cost a decode step of this model.
#include <string>
#include <vector>

#include "model.hpp"

namespace example {

struct Timing {
  std::string what;        ///< "never instrumented", or what was enabled
  std::vector<double> us;  ///< a step, of each round
  [[nodiscard]] double median() const;
};
/// Steps of `rows` rows with no hook in the graph, and with hooks in it: none, some, all enabled.
/// Rounds take turns.
[[nodiscard]] std::vector<Timing> time_steps(Model& model, int rows, const std::string& some);

}  // namespace example
