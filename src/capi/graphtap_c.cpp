#include "graphtap/c/graphtap.h"

#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "graphtap/host_device.hpp"
#include "graphtap/monitor.hpp"
#include "graphtap/store_sink.hpp"
#include "graphtap/version.hpp"

using namespace graphtap;

struct gt_table {
  HookTable table;
};
struct gt_device {
  std::shared_ptr<Device> device;
};
struct gt_monitor {
  std::unique_ptr<Monitor> monitor;
};
struct gt_lane {
  std::shared_ptr<Lane> lane;
};
struct gt_graph {
  std::shared_ptr<BoundGraph> graph;
};
struct gt_step {
  Step step;
};
struct gt_request {
  Request request;
};

namespace {

thread_local std::string last_error;

gt_status to_c(Code code) {
  switch (code) {
    case Code::ok:
      return GT_OK;
    case Code::invalid_argument:
      return GT_INVALID_ARGUMENT;
    case Code::not_found:
      return GT_NOT_FOUND;
    case Code::exhausted:
      return GT_EXHAUSTED;
    case Code::timeout:
      return GT_TIMEOUT;
    case Code::unavailable:
      return GT_UNAVAILABLE;
    case Code::unsupported:
      return GT_UNSUPPORTED;
    case Code::corrupt:
      return GT_CORRUPT;
    case Code::io_error:
      return GT_IO_ERROR;
    case Code::device_error:
      return GT_DEVICE_ERROR;
    case Code::device_lost:
      return GT_DEVICE_LOST;
  }
  return GT_INVALID_ARGUMENT;
}

gt_status report(const Status& status) {
  last_error = status.message();
  return to_c(status.code());
}

// Runs `work`, which returns a Status; whatever it throws becomes one.
template <class Work>
gt_status guarded(Work work) noexcept {
  try {
    return report(work());
  } catch (const Error& error) {
    return report({error.code(), error.what()});
  } catch (const std::bad_alloc&) {
    return report({Code::exhausted, "out of memory"});
  } catch (const std::exception& error) {
    return report({Code::invalid_argument, error.what()});
  }
}

Status missing(const char* what) {
  return {Code::invalid_argument, std::string(what) + " is NULL"};
}

Callbacks callbacks_of(const gt_monitor_options& options) {
  Callbacks callbacks;
  void* const user = options.user;
  if (options.on_slice != nullptr) {
    callbacks.on_slice = [call = options.on_slice, user](const CallbackSlice& s) {
      const std::string dtype(to_string(s.record.hook->dtype));
      const gt_slice slice{s.record.hook->name.c_str(),
                           s.record.hook->layer,
                           s.record.ordinal,
                           s.step.step,
                           s.step.lane,
                           s.slice.request->id.c_str(),
                           s.slice.request->serial,
                           s.slice.first_token,
                           s.slice.rows,
                           s.record.row_bytes,
                           dtype.c_str(),
                           s.data.data()};
      call(&slice, user);
    };
  }
  if (options.on_gap != nullptr) {
    callbacks.on_gap = [call = options.on_gap, user](const DeliveredStep& step, const Gap& gap) {
      call(gap.hook->name.c_str(), step.step, to_string(gap.reason), user);
    };
  }
  if (options.on_finished != nullptr) {
    callbacks.on_event = [call = options.on_finished, user](const RequestEvent& event) {
      if (event.kind != RequestEvent::Kind::finished) return;
      call(event.request->id.c_str(), event.request->serial, event.valid ? 1 : 0, user);
    };
  }
  return callbacks;
}

}  // namespace

extern "C" {

const char* gt_version(void) { return version(); }
const char* gt_last_error(void) { return last_error.c_str(); }

gt_status gt_table_new(const char* model, gt_table** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return missing("out");
    *out = new gt_table{HookTable(model != nullptr ? model : "")};
    return {};
  });
}

gt_status gt_table_add(gt_table* table, const char* type, int layer, const char* dtype,
                       const int64_t* row_shape, size_t dims, uint16_t ordinals, uint16_t* id) {
  return guarded([&]() -> Status {
    if (table == nullptr) return missing("table");
    if (type == nullptr) return missing("type");
    if (dtype == nullptr) return missing("dtype");
    if (row_shape == nullptr && dims > 0) return missing("row_shape");
    const auto parsed = parse_dtype(dtype);
    if (!parsed) {
      return {Code::invalid_argument, std::string("unknown dtype \"") + dtype +
                                          "\"; one of bf16, f16, f32, f64, f8_e4m3, f8_e5m2, i8, "
                                          "i16, i32, i64, u8, u16, u32, u64, bool"};
    }
    HookSpec spec;
    spec.type = type;
    spec.layer = layer;
    spec.dtype = *parsed;
    spec.row_shape.assign(row_shape, row_shape + dims);
    spec.ordinals = ordinals;
    const Result<HookId> added = table->table.add(std::move(spec));
    if (added.ok() && id != nullptr) *id = added.value();
    return added.status();
  });
}
void gt_table_free(gt_table* table) { delete table; }

gt_status gt_host_device_new(gt_device** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return missing("out");
    *out = new gt_device{make_host_device()};
    return {};
  });
}
gt_stream gt_inline_stream(void) { return static_cast<gt_stream>(inline_stream()); }
void gt_device_free(gt_device* device) { delete device; }

void gt_monitor_options_init(gt_monitor_options* options) {
  const MonitorOptions defaults;
  *options = gt_monitor_options{};
  options->size = sizeof(*options);
  options->ring_bytes = defaults.ring_bytes;
  options->space_timeout_ms = static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(defaults.space_timeout).count());
  options->specialise = 1;
}

gt_status gt_monitor_new(gt_device* device, const gt_table* table,
                         const gt_monitor_options* options, gt_monitor** out) {
  return guarded([&]() -> Status {
    if (device == nullptr) return missing("device");
    if (table == nullptr) return missing("table");
    if (options == nullptr) return missing("options");
    if (out == nullptr) return missing("out");
    if (options->size != sizeof(gt_monitor_options)) {
      return {Code::invalid_argument, "options were not filled with gt_monitor_options_init"};
    }
    MonitorOptions o;
    o.selection = options->selection != nullptr ? options->selection : "";
    o.ring_bytes = options->ring_bytes;
    o.policy = options->shed != 0 ? Policy::shed : Policy::lossless;
    o.space_timeout = std::chrono::milliseconds(options->space_timeout_ms);
    o.tier = options->specialise != 0 ? GateTier::specialised : GateTier::soft;
    std::vector<std::shared_ptr<Sink>> sinks;
    if (options->on_slice != nullptr || options->on_gap != nullptr ||
        options->on_finished != nullptr) {
      sinks.push_back(make_callback_sink("C callbacks", callbacks_of(*options)));
    }
    if (options->store != nullptr) {
      sinks.push_back(open_store_sink(options->store, table->table).value_or_throw());
    }
    *out = new gt_monitor{
        std::make_unique<Monitor>(device->device, table->table, std::move(o), std::move(sinks))};
    return {};
  });
}

gt_status gt_monitor_enable(gt_monitor* monitor, const char* selection, int now) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    return monitor->monitor->enable(selection != nullptr ? selection : "",
                                    now != 0 ? Apply::now : Apply::at_next_launch);
  });
}
gt_status gt_monitor_flush(gt_monitor* monitor, uint32_t timeout_ms) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    return monitor->monitor->flush(std::chrono::milliseconds(timeout_ms));
  });
}
gt_status gt_monitor_close(gt_monitor* monitor, uint32_t deadline_ms) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    return monitor->monitor->close(std::chrono::milliseconds(deadline_ms));
  });
}
void gt_monitor_free(gt_monitor* monitor) { delete monitor; }

gt_status gt_monitor_counts(const gt_monitor* monitor, gt_counts* out) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    if (out == nullptr) return missing("out");
    const Counts total = monitor->monitor->stats().total;
    *out = {total.planned, total.delivered, total.bytes, total.missing(), total.shed()};
    return {};
  });
}

gt_status gt_request_begin(gt_monitor* monitor, const char* id, int64_t prompt_tokens,
                           gt_request** out) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    if (out == nullptr) return missing("out");
    *out = new gt_request{monitor->monitor->begin_request(id != nullptr ? id : "", prompt_tokens)};
    return {};
  });
}
gt_status gt_request_finish(gt_monitor* monitor, gt_request* request) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    if (request == nullptr) return missing("request");
    monitor->monitor->finish_request(request->request);
    delete request;
    return {};
  });
}

gt_status gt_lane_new(gt_monitor* monitor, gt_lane** out) {
  return guarded([&]() -> Status {
    if (monitor == nullptr) return missing("monitor");
    if (out == nullptr) return missing("out");
    *out = new gt_lane{monitor->monitor->make_lane()};
    return {};
  });
}
void gt_lane_free(gt_lane* lane) { delete lane; }

gt_status gt_step_begin(gt_lane* lane, int eager, const gt_span* spans, size_t count,
                        gt_stream stream, gt_step** out) {
  return guarded([&]() -> Status {
    if (lane == nullptr) return missing("lane");
    if (spans == nullptr && count > 0) return missing("spans");
    if (out == nullptr) return missing("out");
    std::vector<RowSpan> rows;
    rows.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const gt_span& span = spans[i];
      rows.push_back({span.request != nullptr ? span.request->request : nullptr, span.first_token,
                      span.rows, RowFlags::none});
    }
    StepShape shape;
    shape.kind = eager != 0 ? StepKind::eager : StepKind::graph;
    shape.tokens = rows;
    *out = new gt_step{lane->lane->begin(shape, Stream{stream})};
    return {};
  });
}

void gt_source_init(gt_source* source, const void* data, uint32_t rows, uint64_t row_bytes) {
  *source = {sizeof(*source), data, rows, 1, row_bytes, 0, static_cast<int64_t>(row_bytes)};
}

void gt_lane_produce(gt_lane* lane, uint16_t hook, const gt_source* source, gt_stream stream) {
  if (lane == nullptr || source == nullptr || source->size != sizeof(gt_source)) return;
  Source s;
  s.data = source->data;
  s.rows = source->rows;
  s.parts = source->parts;
  s.part_bytes = source->part_bytes;
  s.part_stride = source->part_stride;
  s.row_stride = source->row_stride;
  lane->lane->produce(hook, s, Stream{stream});
}

gt_status gt_lane_bind(gt_lane* lane, const char* name, uintptr_t graph, uintptr_t exec,
                       gt_graph** out) {
  return guarded([&]() -> Status {
    if (lane == nullptr) return missing("lane");
    if (out == nullptr) return missing("out");
    BindOptions options;
    options.name = name != nullptr ? name : "";
    *out = new gt_graph{lane->lane->bind(Graph{graph}, Exec{exec}, std::move(options))};
    return {};
  });
}
void gt_graph_free(gt_graph* graph) { delete graph; }

gt_status gt_step_launch(gt_step* step, gt_graph* graph) {
  return guarded([&]() -> Status {
    if (step == nullptr) return missing("step");
    if (graph == nullptr) return missing("graph");
    return step->step.launch(*graph->graph);
  });
}
void gt_step_end(gt_step* step) {
  if (step == nullptr) return;
  step->step.end();
  delete step;
}
void gt_step_abort(gt_step* step) { delete step; }

}  // extern "C"
