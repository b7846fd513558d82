#pragma once
// Errors of the GPU benchmarks: thrown, since a benchmark that met one has measured nothing.
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "graphtap/status.hpp"

namespace graphtap::bench {

/// Throw std::runtime_error that says what was being done and the error's own name.
void check(cudaError_t error, const char* what);
void check(const Status& status, const char* what);
[[noreturn]] void fail(const std::string& why);
template <class T>
T take(Result<T> result, const char* what) {
  check(result.status(), what);
  return std::move(result).value();
}

}  // namespace graphtap::bench
