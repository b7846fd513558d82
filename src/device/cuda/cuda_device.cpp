#include "device/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "device/cuda/cuda_scope.hpp"
#include "device/cuda/cuda_status.hpp"
#include "device/cuda/producer_launch.hpp"
#include "device/validate.hpp"

namespace graphtap {

bool built_with_cuda() noexcept { return true; }

Result<std::shared_ptr<Device>> make_cuda_device(const CudaOptions& options) {
  return cuda::CudaDevice::make(options);
}

namespace cuda {
namespace {

constexpr auto kNap = std::chrono::microseconds(20);

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Result<std::shared_ptr<Device>> CudaDevice::make(const CudaOptions& options) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    return Status(Code::unavailable, to_status(error, "cudaGetDeviceCount").message());
  }
  if (options.device < 0 || options.device >= devices) {
    return Status(Code::unavailable, fmt::format("there is no CUDA device {}: {} are visible",
                                                 options.device, devices));
  }
  const CurrentDevice current(options.device);
  const RelaxedCapture relaxed;
  // Makes the primary context, should nobody have done so.
  if (const cudaError_t error = cudaInitDevice(options.device, 0, 0); error != cudaSuccess) {
    return to_status(error, "cudaInitDevice");
  }
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, options.device);
      error != cudaSuccess) {
    return to_status(error, "cudaGetDeviceProperties");
  }
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  Result<KernelNodes> kernels = KernelNodes::make();
  if (!kernels.ok()) return kernels.status();
  cudaStream_t service{};
  if (const cudaError_t error = cudaStreamCreateWithFlags(&service, cudaStreamNonBlocking);
      error != cudaSuccess) {
    return to_status(error, "cudaStreamCreateWithFlags");
  }
  std::string name = fmt::format("{} (cuda:{}), driver for CUDA {}, runtime {}", properties.name,
                                 options.device, version_text(driver), version_text(runtime));
  return std::shared_ptr<Device>(new CudaDevice(
      options, std::move(name), static_cast<std::uint32_t>(properties.multiProcessorCount),
      std::move(kernels).value(), service));
}

CudaDevice::CudaDevice(const CudaOptions& options, std::string name, std::uint32_t processors,
                       KernelNodes kernels, cudaStream_t service)
    : options_(options),
      name_(std::move(name)),
      processors_(processors),
      kernels_(std::move(kernels)),
      service_(service) {}

CudaDevice::~CudaDevice() {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  (void)cudaStreamDestroy(service_);
}

// ---- memory

Result<std::byte*> CudaDevice::allocate(std::size_t bytes) {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const std::size_t size = bytes > 0 ? bytes : 1;
  if (const cudaError_t error = cudaMalloc(&memory, size); error != cudaSuccess) {
    const Status status = to_status(error, "cudaMalloc");
    return Status(status.code(),
                  fmt::format("{} bytes of device memory: {}", bytes, status.message()));
  }
  cudaError_t error = cudaMemsetAsync(memory, 0, size, service_);
  if (error == cudaSuccess) error = cudaStreamSynchronize(service_);
  if (error != cudaSuccess) {
    Status status = to_status(error, "cudaMemsetAsync");
    if (!is_sticky(error)) (void)cudaFree(memory);
    return status;
  }
  auto* const start = static_cast<std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  memory_.emplace(start, size);
  return start;
}

void CudaDevice::free(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    memory_.erase(memory);
  }
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  (void)to_status(cudaFree(memory), "cudaFree");
}

// Nothing frees it: a graph that its owner forgot to destroy may replay until the context goes.
void CudaDevice::retain(std::byte*) noexcept {}

Result<std::byte*> CudaDevice::allocate_pinned(std::size_t bytes) {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  if (const cudaError_t error =
          cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocPortable);
      error != cudaSuccess) {
    const Status status = to_status(error, "cudaHostAlloc");
    return Status(status.code(),
                  fmt::format("{} bytes of pinned memory: {}", bytes, status.message()));
  }
  return static_cast<std::byte*>(memory);
}

void CudaDevice::free_pinned(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  (void)to_status(cudaFreeHost(memory), "cudaFreeHost");
}

// ---- streams and events

Result<Stream> CudaDevice::create_stream() {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  cudaStream_t stream{};
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      error != cudaSuccess) {
    return to_status(error, "cudaStreamCreateWithFlags");
  }
  return Stream{reinterpret_cast<std::uintptr_t>(stream)};
}

void CudaDevice::destroy_stream(Stream stream) noexcept {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  (void)to_status(cudaStreamDestroy(native(stream)), "cudaStreamDestroy");
}

Result<Event> CudaDevice::create_event() {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  cudaEvent_t event{};
  if (const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      error != cudaSuccess) {
    return to_status(error, "cudaEventCreateWithFlags");
  }
  return Event{reinterpret_cast<std::uintptr_t>(event)};
}

void CudaDevice::destroy_event(Event event) noexcept {
  const CurrentDevice current(options_.device);
  const RelaxedCapture relaxed;
  (void)to_status(cudaEventDestroy(native(event)), "cudaEventDestroy");
}

Status CudaDevice::record(Event event, Stream stream) {
  const CurrentDevice current(options_.device);
  return to_status(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");
}

Status CudaDevice::wait(Stream stream, Event event) {
  const CurrentDevice current(options_.device);
  return to_status(cudaStreamWaitEvent(native(stream), native(event), cudaEventWaitDefault),
                   "cudaStreamWaitEvent");
}

Result<bool> CudaDevice::query(Event event) {
  const RelaxedCapture relaxed;
  const cudaError_t error = cudaEventQuery(native(event));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  if (error != cudaSuccess) return to_status(error, "cudaEventQuery");
  return true;
}

Status CudaDevice::synchronize(Event event) {
  const RelaxedCapture relaxed;
  return to_status(cudaEventSynchronize(native(event)), "cudaEventSynchronize");
}

// ---- work in stream order

Status CudaDevice::upload(std::byte* device, const std::byte* pinned, std::size_t bytes,
                          Stream stream) {
  const CurrentDevice current(options_.device);
  return to_status(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, native(stream)),
                   "cudaMemcpyAsync");
}

Status CudaDevice::download(std::byte* pinned, const std::byte* device, std::size_t bytes,
                            Stream stream) {
  const CurrentDevice current(options_.device);
  return to_status(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, native(stream)),
                   "cudaMemcpyAsync");
}

Status CudaDevice::zero(std::byte* device, std::size_t bytes, Stream stream) {
  const CurrentDevice current(options_.device);
  return to_status(cudaMemsetAsync(device, 0, bytes, native(stream)), "cudaMemsetAsync");
}

Status CudaDevice::close_step(wire::StepHeader* header, Stream stream) {
  static_assert(offsetof(wire::StepHeader, ticket) == 0);
  return zero(reinterpret_cast<std::byte*>(header), sizeof(header->ticket), stream);
}

bool CudaDevice::slot_is_mapped(const ProducerCall& call) const {
  const auto* header = reinterpret_cast<const std::byte*>(call.header);
  const std::uint64_t end =
      wire::slots_offset() + (std::uint64_t{call.id.slot} + 1) * sizeof(wire::SlotPlan);
  const std::lock_guard lock(mutex_);
  const auto after = memory_.upper_bound(header);
  if (after == memory_.begin()) return false;
  const auto [start, size] = *std::prev(after);
  return static_cast<std::uint64_t>(header - start) + end <= size;
}

Status CudaDevice::produce(const ProducerCall& call, Stream stream) {
  if (Status status = validate(call); !status.ok()) return status;
  LaunchShape shape;
  shape.speculative_bytes = options_.speculative_bytes;
  shape.most_blocks = 16 * processors_;
  shape.slot_is_mapped = call.header != nullptr && slot_is_mapped(call);
  const CurrentDevice current(options_.device);
  return to_status(launch_producer(call, shape, native(stream)), "cudaLaunchKernel");
}

// ---- time

std::uint64_t CudaDevice::now_ns() const noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void CudaDevice::idle() noexcept { std::this_thread::sleep_for(kNap); }

}  // namespace cuda
}  // namespace graphtap
