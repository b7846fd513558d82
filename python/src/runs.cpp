// The runs of a store, their hooks, and what each hook has.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include "store.hpp"

namespace graphtap::python {
namespace {

struct PyHook {
  Keep keep;
  const Hook* hook;
};
struct PyTotals {
  Keep keep;
  HookTotals value;
};

nb::object layer_of(const Hook& hook) {
  return hook.layer < 0 ? nb::object(nb::none()) : nb::object(nb::int_(hook.layer));
}
nb::tuple to_tuple(const Ranks& ranks) {
  return nb::make_tuple(ranks.tensor, ranks.pipeline, ranks.data, ranks.expert);
}
std::string describe(const PyRun& run) {
  return "<graphtap.Run " + std::to_string(run.info->number) + " " + run.info->name + ">";
}

nb::list totals_of(const PyRun& run) {
  const auto totals = reading(
      run.keep, [&](const StoreReader& r) { return r.totals(run.info->number).value_or_throw(); });
  nb::list list;
  for (const HookTotals& total : totals) list.append(nb::cast(PyTotals{run.keep, total}));
  return list;
}

}  // namespace

void bind_runs(nb::module_& m) {
  nb::class_<PyHook>(m, "Hook", "A place of the model that could be captured.")
      .def_prop_ro("name", [](const PyHook& h) { return h.hook->name; })
      .def_prop_ro("type", [](const PyHook& h) { return h.hook->type; })
      .def_prop_ro("layer", [](const PyHook& h) { return layer_of(*h.hook); })
      .def_prop_ro("dtype", [](const PyHook& h) { return to_string(h.hook->dtype); })
      .def_prop_ro(
          "row_shape",
          [](const PyHook& h) {
            nb::list shape;
            for (const std::int64_t size : h.hook->row_shape) shape.append(size);
            return nb::tuple(shape);
          },
          "Of one row; -1 where it differs from step to step.")
      .def_prop_ro("ordinals", [](const PyHook& h) { return h.hook->ordinals; })
      .def("__repr__", [](const PyHook& h) { return "<graphtap.Hook " + h.hook->name + ">"; });

  nb::class_<PyTotals>(m, "HookTotals", "What a run holds of one hook, in records, rows and bytes.")
      .def_prop_ro("hook",
                   [](const PyTotals& t) {
                     return PyHook{t.keep, t.value.hook};
                   })
      .def_prop_ro("records", [](const PyTotals& t) { return t.value.records; })
      .def_prop_ro("rows", [](const PyTotals& t) { return t.value.rows; })
      .def_prop_ro(
          "tokens", [](const PyTotals& t) { return t.value.tokens; },
          "Rows that belong to a request; a token that was computed again counts again.")
      .def_prop_ro("bytes", [](const PyTotals& t) { return t.value.bytes; })
      .def_prop_ro("missing", [](const PyTotals& t) { return t.value.missing(); })
      .def_prop_ro("shed", [](const PyTotals& t) { return t.value.shed(); })
      .def_prop_ro(
          "gaps",
          [](const PyTotals& t) {
            nb::dict gaps;
            for (std::size_t i = 0; i < t.value.gaps.size(); ++i) {
              if (t.value.gaps[i] > 0)
                gaps[to_string(static_cast<GapReason>(i))] = nb::int_(t.value.gaps[i]);
            }
            return gaps;
          },
          "Records that are not there, by reason.");

  nb::class_<PyRun>(m, "Run", "One run of a capturing process. Immutable and thread-safe.")
      .def_prop_ro(
          "number", [](const PyRun& r) { return r.info->number; },
          "From 1, in order of opening: what run= of the other calls takes.")
      .def_prop_ro("id", [](const PyRun& r) { return r.info->id; })
      .def_prop_ro("name", [](const PyRun& r) { return r.info->name; })
      .def_prop_ro("model", [](const PyRun& r) { return r.info->model; })
      .def_prop_ro("started_unix_ns", [](const PyRun& r) { return r.info->started_unix_ns; })
      .def_prop_ro("graphtap_version", [](const PyRun& r) { return r.info->graphtap_version; })
      .def_prop_ro(
          "ranks", [](const PyRun& r) { return to_tuple(r.info->ranks); },
          "Of the process: (tensor, pipeline, data, expert).")
      .def_prop_ro(
          "world", [](const PyRun& r) { return to_tuple(r.info->world); },
          "Sizes of the parallel groups; 0: the writer did not say.")
      .def_prop_ro(
          "hooks",
          [](const PyRun& r) {
            nb::list list;
            for (const Hook& hook : r.info->hooks) list.append(nb::cast(PyHook{r.keep, &hook}));
            return list;
          },
          "The hook table, in firing order.")
      .def("totals", &totals_of, "HookTotals of each hook, in the order of `hooks`.")
      .def("__repr__", &describe);
}

}  // namespace graphtap::python
