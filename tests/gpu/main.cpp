// main() of every test that needs a GPU: where there is none it is skipped, not passed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graphtap/cuda_device.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr int kSkipped = 77;  // SKIP_RETURN_CODE
  const graphtap::Status status = graphtap::make_cuda_device().status();
  if (status.code() == graphtap::Code::unavailable) {
    fmt::print("no GPU: skipped ({})\n", status.message());
    return kSkipped;
  }
  if (!status.ok()) {
    fmt::print(stderr, "the GPU cannot be used: {}\n", status.message());
    return 1;
  }
  return RUN_ALL_TESTS();
}
