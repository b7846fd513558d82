#pragma once
// What the Python classes hold. Everything that points into a reader also keeps it alive.
#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "graphtap/store_reader.hpp"

namespace graphtap::python {

namespace nb = nanobind;

/// A reader; refresh() takes `lock` alone, everything else shares it (with the GIL released).
struct Shared {
  std::shared_ptr<StoreReader> reader;
  std::shared_mutex lock;
};
using Keep = std::shared_ptr<Shared>;

struct PyRecord {
  Keep keep;
  RecordView view;
};
struct PyGap {
  Keep keep;
  GapView view;
};
struct PyGathered {
  Keep keep;
  Gathered value;
};

struct PyRun {
  Keep keep;
  const RunInfo* info;
};

/// Calls `read` with the reader, without the GIL, while no refresh runs.
template <class Read>
auto reading(const Keep& keep, Read read) {
  nb::gil_scoped_release free;
  const std::shared_lock lock(keep->lock);
  return read(*keep->reader);
}

void bind_records(nb::module_& m);
void bind_runs(nb::module_& m);
void bind_store(nb::module_& m);

}  // namespace graphtap::python
