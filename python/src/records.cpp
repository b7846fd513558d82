#include <nanobind/stl/string.h>

#include "store.hpp"

namespace graphtap::python {
namespace {

nb::tuple to_tuple(const std::vector<std::int64_t>& values) {
  nb::list list;
  for (const std::int64_t value : values) list.append(value);
  return nb::tuple(list);
}

nb::object layer_of(const Hook& hook) {
  return hook.layer < 0 ? nb::object(nb::none()) : nb::object(nb::int_(hook.layer));
}

template <class T>
int fill(PyObject* self, Py_buffer* view, T data, std::size_t size, bool read_only, int flags) {
  void* bytes = const_cast<void*>(static_cast<const void*>(data));
  return PyBuffer_FillInfo(view, self, bytes, static_cast<Py_ssize_t>(size), read_only ? 1 : 0,
                           flags);
}

// A view into the mapped segment. The buffer holds the record, and the record its reader.
int record_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto* record = nb::inst_ptr<PyRecord>(nb::handle(self));
  return fill(self, view, record->view.data.data(), record->view.data.size(), true, flags);
}
int gathered_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* gathered = nb::inst_ptr<PyGathered>(nb::handle(self));
  return fill(self, view, gathered->value.data.data(), gathered->value.data.size(), false, flags);
}
PyType_Slot record_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(record_buffer)},
                              {0, nullptr}};
PyType_Slot gathered_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(gathered_buffer)},
                                {0, nullptr}};

nb::object arrays(const char* function, nb::handle self) {
  return nb::module_::import_("graphtap._arrays").attr(function)(self);
}

template <class T>
void bind_where(nb::class_<T>& c) {
  c.def_prop_ro("run", [](const T& r) { return r.view.run->number; })
      .def_prop_ro("hook", [](const T& r) { return r.view.hook->name; })
      .def_prop_ro("type", [](const T& r) { return r.view.hook->type; })
      .def_prop_ro("layer", [](const T& r) { return layer_of(*r.view.hook); })
      .def_prop_ro("ordinal", [](const T& r) { return r.view.ordinal; })
      .def_prop_ro("step", [](const T& r) { return r.view.step.step; })
      .def_prop_ro("ticket", [](const T& r) { return r.view.step.ticket; })
      .def_prop_ro("lane", [](const T& r) { return r.view.step.lane; })
      .def_prop_ro("ranks",
                   [](const T& r) {
                     const Ranks& k = r.view.step.ranks;
                     return nb::make_tuple(k.tensor, k.pipeline, k.data, k.expert);
                   })
      .def_prop_ro("serial",
                   [](const T& r) {
                     return r.view.request ? nb::object(nb::int_(r.view.request))
                                           : nb::object(nb::none());
                   })
      .def_prop_ro("request",
                   [](const T& r) {
                     return r.view.request ? nb::object(nb::str(r.view.request_id.data(),
                                                                r.view.request_id.size()))
                                           : nb::object(nb::none());
                   })
      .def_prop_ro("first_token",
                   [](const T& r) {
                     return r.view.request ? nb::object(nb::int_(r.view.first_token))
                                           : nb::object(nb::none());
                   })
      .def_prop_ro("rows", [](const T& r) { return r.view.rows; });
}

}  // namespace

void bind_records(nb::module_& m) {
  nb::class_<PyRecord> record(
      m, "Record", nb::type_slots(record_slots),
      "Rows of one hook in one step that belong to one request. Immutable and thread-safe; keeps "
      "its store's files mapped. `serial`, `request` and `first_token` are None for rows that "
      "belong to no known request. `ranks` is (tensor, pipeline, data, expert).");
  bind_where(record);
  record
      .def_prop_ro("dtype",
                   [](const PyRecord& r) { return std::string(to_string(r.view.hook->dtype)); })
      .def_prop_ro(
          "shape", [](const PyRecord& r) { return to_tuple(r.view.shape()); },
          "(rows, row shape...)")
      .def_prop_ro("recomputed",
                   [](const PyRecord& r) { return has(r.view.flags, RowFlags::recomputed); })
      .def_prop_ro("speculative",
                   [](const PyRecord& r) { return has(r.view.flags, RowFlags::speculative); })
      .def_prop_ro("rejected", [](const PyRecord& r) { return r.view.rejected; })
      .def(
          "numpy", [](nb::handle self) { return arrays("as_numpy", self); },
          "A read-only view of `shape` into the mapped segment: nothing is copied.")
      .def(
          "torch", [](nb::handle self) { return arrays("as_torch_copy", self); },
          "A copy as a torch tensor (torch knows no read-only memory).");

  nb::class_<PyGap> gap(m, "Gap", "A record that was wanted and is not there, and why.");
  bind_where(gap);
  gap.def_prop_ro("reason", [](const PyGap& g) { return to_string(g.view.reason); });

  nb::class_<MissingTokens>(m, "Missing", "Tokens [begin, end) that have no row, and why.")
      .def_prop_ro("begin", [](const MissingTokens& t) { return t.tokens.begin; })
      .def_prop_ro("end", [](const MissingTokens& t) { return t.tokens.end; })
      .def_prop_ro("why", [](const MissingTokens& t) { return to_string(t.why); })
      .def_prop_ro("reason", [](const MissingTokens& t) {
        return t.why == MissingTokens::Why::gap ? nb::object(nb::str(to_string(t.reason)))
                                                : nb::object(nb::none());
      });

  nb::class_<PyGathered>(m, "Gathered", nb::type_slots(gathered_slots),
                         "A token range of one request and hook in one buffer: row i is token "
                         "tokens[0] + i, zero where `mask` is False. Owns its memory.")
      .def_prop_ro("hook", [](const PyGathered& g) { return g.value.hook->name; })
      .def_prop_ro("run", [](const PyGathered& g) { return g.value.run->number; })
      .def_prop_ro("serial", [](const PyGathered& g) { return g.value.request; })
      .def_prop_ro("dtype",
                   [](const PyGathered& g) { return std::string(to_string(g.value.hook->dtype)); })
      .def_prop_ro(
          "shape", [](const PyGathered& g) { return to_tuple(g.value.shape()); },
          "(tokens, row shape...)")
      .def_prop_ro(
          "tokens",
          [](const PyGathered& g) {
            return nb::make_tuple(g.value.tokens.begin, g.value.tokens.end);
          },
          "(begin, end)")
      .def_prop_ro("missing",
                   [](const PyGathered& g) {
                     nb::list list;
                     for (const MissingTokens& missing : g.value.missing)
                       list.append(nb::cast(missing));
                     return list;
                   })
      .def_prop_ro("duplicates", [](const PyGathered& g) { return g.value.duplicates; })
      .def_prop_ro("rejected", [](const PyGathered& g) { return g.value.rejected; })
      .def_prop_ro(
          "mask", [](nb::handle self) { return arrays("mask_of", self); },
          "bool (tokens,): is the row there?")
      .def(
          "numpy", [](nb::handle self) { return arrays("as_numpy", self); },
          "The buffer as an array of `shape`, no copy.")
      .def(
          "torch", [](nb::handle self) { return arrays("as_torch", self); },
          "The buffer as a tensor of `shape`, no copy. Raises UnsupportedError where torch lacks "
          "the dtype.");
}

}  // namespace graphtap::python
