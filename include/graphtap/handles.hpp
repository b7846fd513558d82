#pragma once
#include <cstdint>

namespace graphtap {

/// Opaque device handles. On CUDA they are the runtime's own (cudaStream_t, cudaEvent_t,
/// cudaGraph_t, cudaGraphExec_t, cudaGraphNode_t) converted with reinterpret_cast; on the host
/// device they are ids. 0 means none, except for Stream, where it is CUDA's default stream.
enum class Stream : std::uintptr_t {};
enum class Event : std::uintptr_t {};
enum class Graph : std::uintptr_t {};
enum class Exec : std::uintptr_t {};
enum class Node : std::uintptr_t {};

}  // namespace graphtap
