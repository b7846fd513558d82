#include "store.hpp"

namespace nb = nanobind;

namespace {

const char* class_of(graphtap::Code code) {
  using graphtap::Code;
  switch (code) {
    case Code::invalid_argument:
      return "InvalidArgumentError";
    case Code::not_found:
      return "NotFoundError";
    case Code::exhausted:
      return "ExhaustedError";
    case Code::timeout:
      return "TimeoutError";
    case Code::unavailable:
      return "UnavailableError";
    case Code::unsupported:
      return "UnsupportedError";
    case Code::corrupt:
      return "CorruptError";
    case Code::io_error:
      return "IoError";
    case Code::device_error:
      return "DeviceError";
    case Code::device_lost:
      return "DeviceLostError";
    case Code::ok:
      break;
  }
  return "Error";
}

}  // namespace

NB_MODULE(_graphtap, m) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const graphtap::Error& error) {
      const nb::object type = nb::module_::import_("graphtap.errors").attr(class_of(error.code()));
      PyErr_SetString(type.ptr(), error.what());
    }
  });
  graphtap::python::bind_records(m);
  graphtap::python::bind_runs(m);
  graphtap::python::bind_store(m);
}
