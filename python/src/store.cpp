#include "store.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <deque>
#include <memory>
#include <set>

namespace graphtap::python {
namespace {

using Tokens = std::optional<std::pair<std::int64_t, std::int64_t>>;

class Store;
void warn_of(Store& store);

/// An open store. Its methods may be called from several threads.
class Store {
 public:
  explicit Store(const std::string& path) : keep_(std::make_shared<Shared>()) {
    nb::gil_scoped_release free;
    keep_->reader = StoreReader::open(path).value_or_throw();
  }
  [[nodiscard]] const Keep& keep() const {
    if (!keep_) throw Error(Code::unavailable, "the store was closed; open it again");
    return keep_;
  }
  void close() { keep_.reset(); }
  std::set<std::string> warned;  // guarded by the GIL

 private:
  Keep keep_;
};

void warn_of(Store& store) {
  const auto findings = reading(store.keep(), [](const StoreReader& r) { return r.findings(); });
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::note) continue;
    const std::string text =
        finding.file + " at byte " + std::to_string(finding.offset) + ": " + finding.what;
    if (!store.warned.insert(text).second) continue;
    const nb::object type = nb::module_::import_("graphtap.errors").attr("DamageWarning");
    if (PyErr_WarnEx(type.ptr(), text.c_str(), 2) < 0) throw nb::python_error();
  }
}

/// A cursor and what it read ahead, so that the GIL changes hands once a batch.
template <class View, class Item>
class Iterator {
 public:
  Iterator(nb::object store, Keep keep, Cursor<View> cursor)
      : store_(std::move(store)), keep_(std::move(keep)), cursor_(std::move(cursor)) {}
  Item next() {
    if (ready_.empty() && !ended_) {
      fill();
      if (Store& store = nb::cast<Store&>(store_); !closed(store)) warn_of(store);
    }
    if (ready_.empty()) throw nb::stop_iteration();
    Item item{keep_, ready_.front()};
    ready_.pop_front();
    return item;
  }

 private:
  static constexpr std::size_t kAhead = 64;
  static bool closed(const Store& store) {
    try {
      return !store.keep();
    } catch (const Error&) {
      return true;
    }
  }
  void fill() {
    if (busy_) throw Error(Code::unavailable, "another thread is using this iterator");
    busy_ = true;
    const auto done = [](bool* busy) { *busy = false; };
    const std::unique_ptr<bool, decltype(done)> guard(&busy_, done);  // also if the cursor throws
    std::deque<View> read;
    bool ended = false;
    reading(keep_, [&](const StoreReader&) {
      View view;
      while (read.size() < kAhead && !(ended = !cursor_.next(view))) read.push_back(view);
    });
    ready_ = std::move(read);
    ended_ = ended;
  }
  nb::object store_;
  Keep keep_;
  Cursor<View> cursor_;
  std::deque<View> ready_;
  bool ended_ = false, busy_ = false;  // guarded by the GIL
};
using Records = Iterator<RecordView, PyRecord>;
using Gaps = Iterator<GapView, PyGap>;

using RankWords =
    std::optional<std::tuple<std::optional<std::int32_t>, std::optional<std::int32_t>,
                             std::optional<std::int32_t>, std::optional<std::int32_t>>>;
RankFilter rank_filter(const RankWords& words) {
  RankFilter filter;
  if (words) std::tie(filter.tensor, filter.pipeline, filter.data, filter.expert) = *words;
  return filter;
}

Query make_query(const std::string& hooks, const std::string& request,
                 std::optional<std::uint64_t> serial, std::optional<std::uint32_t> run,
                 std::optional<int> layer, const Tokens& tokens, bool skip_rejected,
                 std::optional<std::uint16_t> ordinal, const RankWords& ranks) {
  Query query;
  query.ordinal = ordinal;
  query.ranks = rank_filter(ranks);
  query.hooks = hooks;
  query.request = request;
  query.serial = serial;
  query.run = run;
  query.layer = layer;
  query.skip_rejected = skip_rejected;
  if (tokens) std::tie(query.begin, query.end) = *tokens;
  return query;
}

/// "resid_pre:24" as the hook's own name; names go through as they are.
std::string hook_name(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return text;
  std::string type = text.substr(0, colon);
  if (const HookType* known = Catalogue::builtin().find(type)) type = known->name;
  return "blocks." + text.substr(colon + 1) + "." + type;
}

PyGathered gather(Store& store, const std::string& hook, const std::string& request,
                  std::optional<std::uint64_t> serial, std::optional<std::uint32_t> run,
                  const Tokens& tokens, std::uint16_t ordinal, const RankWords& ranks) {
  GatherQuery query;
  query.ranks = rank_filter(ranks);
  query.hook = hook_name(hook);
  query.request = request;
  query.serial = serial;
  query.run = run;
  query.ordinal = ordinal;
  if (tokens) std::tie(query.begin, query.end) = *tokens;
  const Keep keep = store.keep();
  PyGathered out{
      keep, reading(keep, [&](const StoreReader& r) { return r.gather(query).value_or_throw(); })};
  warn_of(store);
  return out;
}

struct PyRequest {
  nb::object store;
  RequestSummary value;
};

template <class It>
void bind_iterator(nb::module_& m, const char* name) {
  nb::class_<It>(m, name, "Lazy; for one thread at a time.")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &It::next);
}

}  // namespace

void bind_store(nb::module_& m) {
  bind_iterator<Records>(m, "Records");
  bind_iterator<Gaps>(m, "Gaps");

  nb::class_<PyRequest>(m, "Request", "A request and what the store holds of it.")
      .def_prop_ro("_store", [](const PyRequest& r) { return r.store; })
      .def_prop_ro("run", [](const PyRequest& r) { return r.value.run->number; })
      .def_prop_ro("serial", [](const PyRequest& r) { return r.value.serial; })
      .def_prop_ro("id", [](const PyRequest& r) { return r.value.id; })
      .def_prop_ro("prompt_tokens", [](const PyRequest& r) { return r.value.prompt_tokens; })
      .def_prop_ro("finished", [](const PyRequest& r) { return r.value.finished; })
      .def_prop_ro("valid", [](const PyRequest& r) { return r.value.valid; })
      .def_prop_ro("tokens",
                   [](const PyRequest& r) {
                     return nb::make_tuple(r.value.tokens.begin, r.value.tokens.end);
                   })
      .def(
          "gather",
          [](const PyRequest& r, const std::string& hook, const Tokens& tokens,
             std::uint16_t ordinal, const RankWords& ranks) {
            return gather(nb::cast<Store&>(r.store), hook, "", r.value.serial, r.value.run->number,
                          tokens, ordinal, ranks);
          },
          nb::arg("hook"), nb::arg("tokens") = nb::none(), nb::kw_only(), nb::arg("ordinal") = 0,
          nb::arg("ranks") = nb::none());

  nb::class_<Store>(m, "Store",
                    "A capture store, opened for reading, also while a writer fills it. A context "
                    "manager. What it handed out stays valid after it is closed.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](Store& s, nb::args) { s.close(); })
      .def("close", &Store::close)
      .def(
          "refresh",
          [](Store& s) {
            const Keep keep = s.keep();
            {
              nb::gil_scoped_release free;
              const std::unique_lock lock(keep->lock);
              if (const Status status = keep->reader->refresh(); !status.ok()) throw Error(status);
            }
            warn_of(s);
          },
          "Sees what was written since. Iterators made before do not.")
      .def("_warn", [](Store& s) { warn_of(s); })
      .def_prop_ro(
          "runs",
          [](Store& s) {
            const Keep keep = s.keep();
            nb::list list;
            for (const RunInfo* run : reading(keep, [](const StoreReader& r) { return r.runs(); }))
              list.append(nb::cast(PyRun{keep, run}));
            return list;
          },
          "In order of opening.")
      .def_prop_ro(
          "findings",
          [](Store& s) {
            nb::list list;
            for (const Finding& f :
                 reading(s.keep(), [](const StoreReader& r) { return r.findings(); }))
              list.append(nb::make_tuple(to_string(f.severity), f.file, f.offset, f.what));
            return list;
          },
          "Damage met so far: (severity, file, offset in bytes, what).")
      .def(
          "requests",
          [](nb::object self) {
            nb::list list;
            for (RequestSummary& r : reading(nb::cast<Store&>(self).keep(),
                                             [](const StoreReader& x) { return x.requests(); }))
              list.append(nb::cast(PyRequest{self, std::move(r)}));
            return list;
          },
          "By run, then by serial.")
      .def(
          "read",
          [](nb::object self, const std::string& hooks, const std::string& request,
             std::optional<std::uint64_t> serial, std::optional<std::uint32_t> run,
             std::optional<int> layer, const Tokens& tokens, bool skip_rejected,
             std::optional<std::uint16_t> ordinal, const RankWords& ranks) {
            const Keep keep = nb::cast<Store&>(self).keep();
            const Query q = make_query(hooks, request, serial, run, layer, tokens, skip_rejected,
                                       ordinal, ranks);
            auto cursor =
                reading(keep, [&](const StoreReader& r) { return r.read(q).value_or_throw(); });
            return new Records(self, keep, std::move(cursor));
          },
          nb::rv_policy::take_ownership, nb::arg("hooks") = "", nb::kw_only(),
          nb::arg("request") = "", nb::arg("serial") = nb::none(), nb::arg("run") = nb::none(),
          nb::arg("layer") = nb::none(), nb::arg("tokens") = nb::none(),
          nb::arg("skip_rejected") = false, nb::arg("ordinal") = nb::none(),
          nb::arg("ranks") = nb::none(),
          "Records in stored order, lazily; tokens=(begin, end) cuts them to those rows, "
          "ranks=(tensor, pipeline, data, expert) keeps steps of those ranks; None in it means "
          "any.")
      .def(
          "gaps",
          [](nb::object self, const std::string& hooks, const std::string& request,
             std::optional<std::uint64_t> serial, std::optional<std::uint32_t> run,
             std::optional<int> layer, const Tokens& tokens, std::optional<std::uint16_t> ordinal,
             const RankWords& ranks) {
            const Keep keep = nb::cast<Store&>(self).keep();
            const Query q =
                make_query(hooks, request, serial, run, layer, tokens, false, ordinal, ranks);
            auto cursor =
                reading(keep, [&](const StoreReader& r) { return r.gaps(q).value_or_throw(); });
            return new Gaps(self, keep, std::move(cursor));
          },
          nb::rv_policy::take_ownership, nb::arg("hooks") = "", nb::kw_only(),
          nb::arg("request") = "", nb::arg("serial") = nb::none(), nb::arg("run") = nb::none(),
          nb::arg("layer") = nb::none(), nb::arg("tokens") = nb::none(),
          nb::arg("ordinal") = nb::none(), nb::arg("ranks") = nb::none(),
          "Records that were wanted and are not there, lazily.")
      .def("gather", &gather, nb::arg("hook"), nb::kw_only(), nb::arg("request") = "",
           nb::arg("serial") = nb::none(), nb::arg("run") = nb::none(),
           nb::arg("tokens") = nb::none(), nb::arg("ordinal") = 0, nb::arg("ranks") = nb::none(),
           "One hook (\"resid_pre:24\" or \"blocks.24.resid_pre\") of one request as one buffer.");
}

}  // namespace graphtap::python
