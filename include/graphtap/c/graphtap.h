/* The C interface of graphtap, for engines that are not C++.
 *
 * Every function returns a gt_status (0 is ok) unless it says otherwise; gt_last_error() has the
 * words, per thread. Handles are freed with their own _free function, NULL is allowed there.
 * Structs begin with their size, so that they can grow: fill them with gt_*_init(). Strings are
 * UTF-8 and copied. Thread-safety is that of the C++ interface (graphtap/monitor.hpp). No exception
 * crosses this boundary. */
#ifndef GRAPHTAP_C_GRAPHTAP_H
#define GRAPHTAP_C_GRAPHTAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gt_status {
  GT_OK = 0,
  GT_INVALID_ARGUMENT = 1,
  GT_NOT_FOUND = 2,
  GT_EXHAUSTED = 3,
  GT_TIMEOUT = 4,
  GT_UNAVAILABLE = 5,
  GT_UNSUPPORTED = 6,
  GT_CORRUPT = 7,
  GT_IO_ERROR = 8,
  GT_DEVICE_ERROR = 9,
  GT_DEVICE_LOST = 10
} gt_status;

typedef struct gt_table gt_table;   /* the installed hooks of a model */
typedef struct gt_device gt_device; /* an accelerator */
typedef struct gt_monitor gt_monitor;
typedef struct gt_lane gt_lane;
typedef struct gt_graph gt_graph; /* a bound graph */
typedef struct gt_step gt_step;
typedef struct gt_request gt_request;
typedef uintptr_t gt_stream; /* cudaStream_t, or a host device's stream */

const char* gt_version(void);    /* "0.1.0" */
const char* gt_last_error(void); /* of this thread; "" if there was none */

/* ---- Hooks */

/* dtype: safetensors' spelling in lower case, "bf16". layer: -1 for a global hook. `id` may be
 * NULL. */
gt_status gt_table_new(const char* model, gt_table** out);
gt_status gt_table_add(gt_table* table, const char* type, int layer, const char* dtype,
                       const int64_t* row_shape, size_t dims, uint16_t ordinals, uint16_t* id);
void gt_table_free(gt_table* table);

/* ---- Devices */

gt_status gt_host_device_new(gt_device** out);
/* The stream that runs in the caller's thread (host devices). */
gt_stream gt_inline_stream(void);
void gt_device_free(gt_device* device);

/* ---- Monitors */

typedef struct gt_slice {
  const char* hook; /* "blocks.24.resid_pre" */
  int layer;
  uint16_t ordinal;
  uint64_t step;
  uint32_t lane;
  const char* request; /* the user's id */
  uint64_t request_serial;
  int64_t first_token;
  uint32_t rows;
  uint64_t row_bytes;
  const char* dtype;
  const void* data; /* rows × row_bytes; valid during the call only */
} gt_slice;
typedef void (*gt_slice_callback)(const gt_slice* slice, void* user);
/* reason: "not_fired", "shed_ring", … */
typedef void (*gt_gap_callback)(const char* hook, uint64_t step, const char* reason, void* user);
typedef void (*gt_finished_callback)(const char* request, uint64_t serial, int valid, void* user);

typedef struct gt_monitor_options {
  size_t size;
  const char* selection; /* NULL or "": all hooks; "none": nothing */
  uint64_t ring_bytes;
  int shed; /* 0: wait for space up to space_timeout_ms; 1: capture less */
  uint32_t space_timeout_ms;
  int specialise;    /* 1: build graphs without the hooks that are off */
  const char* store; /* directory of a capture store, or NULL */
  gt_slice_callback on_slice;
  gt_gap_callback on_gap;
  gt_finished_callback on_finished;
  void* user;
} gt_monitor_options;

void gt_monitor_options_init(gt_monitor_options* options);
gt_status gt_monitor_new(gt_device* device, const gt_table* table,
                         const gt_monitor_options* options, gt_monitor** out);
/* now: 1 flips every bound graph before it returns, 0 lets each catch up before its next launch. */
gt_status gt_monitor_enable(gt_monitor* monitor, const char* selection, int now);
gt_status gt_monitor_flush(gt_monitor* monitor, uint32_t timeout_ms);
gt_status gt_monitor_close(gt_monitor* monitor, uint32_t deadline_ms);
void gt_monitor_free(gt_monitor* monitor);

typedef struct gt_counts {
  uint64_t planned, delivered, bytes, missing, shed;
} gt_counts;
gt_status gt_monitor_counts(const gt_monitor* monitor, gt_counts* out);

gt_status gt_request_begin(gt_monitor* monitor, const char* id, int64_t prompt_tokens,
                           gt_request** out);
/* Reports its end and frees it. */
gt_status gt_request_finish(gt_monitor* monitor, gt_request* request);

/* ---- Steps */

gt_status gt_lane_new(gt_monitor* monitor, gt_lane** out);
void gt_lane_free(gt_lane* lane);

typedef struct gt_span {
  const gt_request* request; /* NULL: nobody knows whose rows */
  int64_t first_token;
  uint32_t rows;
} gt_span;

/* eager: 1 for a step whose producers are called one by one, 0 for one that replays graphs. */
gt_status gt_step_begin(gt_lane* lane, int eager, const gt_span* spans, size_t count,
                        gt_stream stream, gt_step** out);

typedef struct gt_source {
  size_t size;
  const void* data;
  uint32_t rows;
  uint32_t parts;
  uint64_t part_bytes;
  int64_t part_stride;
  int64_t row_stride;
} gt_source;
/* A contiguous [rows, row_bytes] tensor. */
void gt_source_init(gt_source* source, const void* data, uint32_t rows, uint64_t row_bytes);
/* In the model's code: records a node while `stream` is capturing, copies in an eager step. */
void gt_lane_produce(gt_lane* lane, uint16_t hook, const gt_source* source, gt_stream stream);

/* graph and exec: cudaGraph_t and cudaGraphExec_t of the caller, who keeps them alive. */
gt_status gt_lane_bind(gt_lane* lane, const char* name, uintptr_t graph, uintptr_t exec,
                       gt_graph** out);
void gt_graph_free(gt_graph* graph);
gt_status gt_step_launch(gt_step* step, gt_graph* graph);
/* Hands the step over and frees it. */
void gt_step_end(gt_step* step);
/* Gives the step up (its records are counted as missing) and frees it. */
void gt_step_abort(gt_step* step);

#ifdef __cplusplus
}
#endif
#endif
