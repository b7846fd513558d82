#include "control/commands.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "graphtap/monitor.hpp"

namespace graphtap {
namespace {

using Json = nlohmann::json;

// Takes as long for a wrong token as for the right one.
bool same_secret(std::string_view given, std::string_view wanted) {
  unsigned differences = given.size() == wanted.size() ? 0u : 1u;
  for (std::size_t i = 0; i < given.size() && !wanted.empty(); ++i) {
    differences |= static_cast<unsigned char>(given[i]) ^
                   static_cast<unsigned>(static_cast<unsigned char>(wanted[i % wanted.size()]));
  }
  return differences == 0;
}

template <class T>
T field(const Json& request, const char* name) {
  const auto found = request.find(name);
  if (found == request.end()) {
    throw Error(Code::invalid_argument, std::string("the request lacks \"") + name + "\"");
  }
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    throw Error(Code::invalid_argument, std::string("\"") + name + "\" has the wrong type");
  }
}

template <class T>
T field_or(const Json& request, const char* name, T otherwise) {
  return request.contains(name) ? field<T>(request, name) : otherwise;
}

std::vector<std::string> names(const Monitor& monitor, const HookSet& set) {
  std::vector<std::string> out;
  for (const HookId id : set.ids()) out.push_back(monitor.table()[id].name);
  return out;
}

Json enable(Monitor& monitor, const Json& request) {
  const auto apply = field_or<std::string>(request, "apply", "at_next_launch");
  if (apply != "now" && apply != "at_next_launch") {
    throw Error(Code::invalid_argument,
                "\"apply\" is \"" + apply + "\"; it may be \"now\" or \"at_next_launch\"");
  }
  const Status status = monitor.enable(field<std::string>(request, "selection"),
                                       apply == "now" ? Apply::now : Apply::at_next_launch);
  if (!status.ok()) throw Error(status);
  return {{"enabled", names(monitor, monitor.enabled())}};
}

TokenWindow window(const Json& json) {
  if (!json.is_array() || json.size() < 2 || json.size() > 3 || !json[0].is_number_integer() ||
      !json[1].is_number_integer() || (json.size() == 3 && !json[2].is_string())) {
    throw Error(Code::invalid_argument,
                "a window is [begin, end] or [begin, end, \"sequence\" | \"response\"], not " +
                    json.dump());
  }
  TokenWindow out{json[0].get<std::int64_t>(), json[1].get<std::int64_t>(), {}};
  const std::string from = json.size() == 3 ? json[2].get<std::string>() : "sequence";
  if (from != "sequence" && from != "response") {
    throw Error(Code::invalid_argument, "a window counts from \"sequence\" or \"response\"");
  }
  if (from == "response") out.from = TokenWindow::From::response;
  return out;
}

Json watch(Monitor& monitor, const Json& request, std::map<std::string, Lease>& leases) {
  LeaseSpec spec;
  spec.name = field<std::string>(request, "name");
  const Selection selection = monitor.parse(field<std::string>(request, "selection"));
  spec.hooks = selection.is_default() ? monitor.table().all()
                                      : selection.resolve(monitor.table()).value_or_throw();
  spec.sampling = selection.sampling();
  spec.requests = field_or<std::vector<std::string>>(request, "requests", {});
  for (const Json& one : field_or<Json>(request, "windows", Json::array())) {
    spec.windows.push_back(window(one));
  }
  spec.priority = field_or<int>(request, "priority", 0);
  const std::string name = spec.name;
  leases.insert_or_assign(name, monitor.watch(std::move(spec)));
  return {{"enabled", names(monitor, monitor.enabled())}};
}

Json stats_json(const Monitor& monitor) {
  const Stats stats = monitor.stats();
  Json out{{"planned", stats.total.planned},
           {"delivered", stats.total.delivered},
           {"bytes", stats.total.bytes},
           {"missing", stats.total.missing()},
           {"shed", stats.total.shed()},
           {"steps_planned", stats.steps_planned},
           {"steps_in_flight", stats.steps_in_flight},
           {"ring_bytes", stats.ring_bytes},
           {"ring_used", stats.ring_used},
           {"ring_high_water", stats.ring_high_water},
           {"switches", stats.switches},
           {"graphs_bound", stats.graphs_bound},
           {"graphs_stale", stats.graphs_stale},
           {"specialised_execs", stats.specialised_execs},
           {"device_errors", stats.device_errors},
           {"device_lost", stats.device_lost},
           {"last_device_error", stats.last_device_error}};
  for (const SinkStats& sink : stats.sinks) {
    out["sinks"].push_back({{"name", sink.name},
                            {"steps", sink.steps},
                            {"records", sink.records},
                            {"failures", sink.failures},
                            {"lost_records", sink.lost_records},
                            {"last_error", sink.last_error}});
  }
  return {{"stats", std::move(out)}};
}

Json flush(Monitor& monitor, const Json& request) {
  const int timeout = std::clamp(field_or<int>(request, "timeout_ms", 5000), 0, 60'000);
  const Status status = monitor.flush(std::chrono::milliseconds(timeout));
  if (!status.ok()) throw Error(status);
  return Json::object();
}

Json carry_out(Monitor& monitor, std::map<std::string, Lease>& leases, const Json& request) {
  const auto command = field<std::string>(request, "command");
  if (command == "enable") return enable(monitor, request);
  if (command == "watch") return watch(monitor, request, leases);
  if (command == "unwatch") {
    const auto name = field<std::string>(request, "name");
    if (leases.erase(name) == 0) throw Error(Code::not_found, "no lease is named \"" + name + "\"");
    return {{"enabled", names(monitor, monitor.enabled())}};
  }
  if (command == "enabled") return {{"enabled", names(monitor, monitor.enabled())}};
  if (command == "hooks") return {{"hooks", names(monitor, monitor.table().all())}};
  if (command == "stats") return stats_json(monitor);
  if (command == "flush") return flush(monitor, request);
  throw Error(Code::invalid_argument,
              "unknown command \"" + command +
                  "\"; there are enable, watch, unwatch, enabled, hooks, stats and flush");
}

Json refusal(Code code, const std::string& message) {
  return {{"ok", false}, {"code", to_string(code)}, {"error", message}};
}

}  // namespace

std::string ControlCommands::answer(std::string_view line) {
  Json out;
  try {
    const Json request = Json::parse(line, nullptr, false);
    if (!request.is_object()) {
      throw Error(Code::invalid_argument, "a request is one JSON object on one line");
    }
    if (!token_.empty() && !same_secret(field_or<std::string>(request, "token", ""), token_)) {
      throw Error(Code::unavailable, "the token is missing or wrong");
    }
    out = carry_out(monitor_, leases_, request);
    out["ok"] = true;
  } catch (const Error& error) {
    out = refusal(error.code(), error.what());
  } catch (const std::exception& error) {
    out = refusal(Code::invalid_argument, error.what());
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace graphtap
