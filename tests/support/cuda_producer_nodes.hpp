#pragma once
// Changing what a captured producer says it is. Through the driver: the runtime's own view of a
// kernel node cannot say how large its argument is.
#include <cuda_runtime_api.h>

#include "device/device.hpp"

namespace graphtap::testing {

/// Gives the producer `node` the identity and header of `call`, in its graph or (if not null) in
/// `exec` for its later launches. Whatever else its argument holds stays. Errors: device_error.
Status rewrite_producer_node(cudaGraphExec_t exec, cudaGraphNode_t node, const ProducerCall& call);

}  // namespace graphtap::testing
