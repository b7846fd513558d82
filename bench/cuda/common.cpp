#include "common.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "model.hpp"

namespace graphtap::bench {

using nlohmann::json;

void fail(const std::string& why) { throw std::runtime_error(why); }

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fail(fmt::format("{}: {}: {}", what, cudaGetErrorName(error), cudaGetErrorString(error)));
}

void check(const Status& status, const char* what) {
  if (!status.ok())
    fail(fmt::format("{}: {}: {}", what, to_string(status.code()), status.message()));
}

void say(std::string_view text) { fmt::print(stderr, "{}\n", text); }

// ---- statistics

double quantile(Samples samples, double q) {
  if (samples.empty()) fail("a statistic of no samples");
  std::sort(samples.begin(), samples.end());
  const double position = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double part = position - static_cast<double>(below);
  return samples[below] + part * (samples[above] - samples[below]);
}

double median(const Samples& samples) { return quantile(samples, 0.5); }

namespace {

template <class Operation>
Samples pairwise(const Samples& left, const Samples& right, Operation&& operation) {
  if (left.size() != right.size()) fail("samples that do not belong together");
  Samples result;
  for (std::size_t i = 0; i < left.size(); ++i) result.push_back(operation(left[i], right[i]));
  return result;
}

}  // namespace

Samples differences(const Samples& left, const Samples& right) {
  return pairwise(left, right, [](double a, double b) { return a - b; });
}

Samples ratios(const Samples& left, const Samples& right) {
  return pairwise(left, right, [](double a, double b) { return a / b; });
}

BatchTimer::BatchTimer() {
  check(cudaEventCreate(&begin_), "create an event");
  check(cudaEventCreate(&end_), "create an event");
}

BatchTimer::~BatchTimer() {
  (void)cudaEventDestroy(begin_);
  (void)cudaEventDestroy(end_);
}

double BatchTimer::elapsed_us() {
  check(cudaEventSynchronize(end_), "synchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "elapsed time");
  return 1000.0 * static_cast<double>(ms);
}

// ---- environment

namespace {

// The driver's own version ("580.95.05"); the runtime knows only which CUDA it supports.
std::string driver_version() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return "unknown";
  std::string version = "unknown";
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto ask =
      reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  char text[96] = {};
  if (init && ask && init() == 0 && ask(text, sizeof(text)) == 0) version = text;
  return version;  // the library stays: the CUDA driver may hold it too
}

std::string uuid_of(const cudaDeviceProp& properties) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

json environment(const Settings& settings) {
  int device = 0, driver = 0, runtime = 0;
  check(cudaGetDevice(&device), "get the device");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "device properties");
  check(cudaDriverGetVersion(&driver), "driver version");
  check(cudaRuntimeGetVersion(&runtime), "runtime version");
  char date[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {{"gpu", properties.name},
          {"gpu_uuid", uuid_of(properties)},
          {"driver", driver_version()},
          {"driver_cuda", driver},
          {"runtime_cuda", runtime},
          {"compiler", fmt::format("nvcc {}, g++ {}", nvcc_version(), __VERSION__)},
          {"stamp", settings.stamp},
          {"command", settings.command},
          {"date", date},
          {"seed", settings.seed},
          {"quick", settings.quick}};
}

}  // namespace

// ---- report

Report::Report(std::string benchmark, const Settings& settings)
    : path_((std::filesystem::path(settings.out) / (benchmark + ".json")).string()) {
  file_ = {{"benchmark", std::move(benchmark)},
           {"environment", environment(settings)},
           {"results", json::array()},
           {"targets", json::array()}};
}

json& Report::add_variant(int rows, const std::string& variant, const std::string& base, int hooks,
                          const Samples& samples, const Samples& base_samples) {
  const Samples delta = differences(samples, base_samples);
  const double middle = median(delta);
  file_["results"].push_back({{"rows", rows},
                              {"variant", variant},
                              {"base", base},
                              {"hooks", hooks},
                              {"base_us", median(base_samples)},
                              {"us", median(samples)},
                              {"delta_us", middle},
                              {"delta_p25_us", quantile(delta, 0.25)},
                              {"delta_p75_us", quantile(delta, 0.75)},
                              {"per_hook_us", middle / hooks},
                              {"samples", samples}});
  return file_["results"].back();
}

json& Report::measure(const std::string& name, const std::string& unit, const Samples& samples) {
  file_["results"].push_back({{"name", name},
                              {"unit", unit},
                              {"median", median(samples)},
                              {"p25", quantile(samples, 0.25)},
                              {"p75", quantile(samples, 0.75)},
                              {"p99", quantile(samples, 0.99)},
                              {"min", quantile(samples, 0)},
                              {"max", quantile(samples, 1)}});
  return file_["results"].back();
}

json& Report::add_measure(const std::string& name, const std::string& unit,
                          const Samples& samples) {
  json& entry = measure(name, unit, samples);
  entry["samples"] = samples;
  return entry;
}

json& Report::add_difference(const std::string& name, const std::string& unit, const Samples& left,
                             const Samples& right) {
  json& entry = measure(name, unit, differences(left, right));
  entry["derived"] = "difference";
  entry["left_samples"] = left;
  entry["right_samples"] = right;
  return entry;
}

json& Report::add_ratio(const std::string& name, const Samples& left, const Samples& right) {
  json& entry = measure(name, "ratio", ratios(left, right));
  entry["derived"] = "ratio";
  entry["left_samples"] = left;
  entry["right_samples"] = right;
  return entry;
}

void Report::target(const std::string& name, const std::string& of, const std::string& statistic,
                    double value, double limit, const std::string& unit, bool at_least) {
  file_["targets"].push_back({{"name", name},
                              {"of", of},
                              {"statistic", statistic},
                              {"value", value},
                              {"limit", limit},
                              {"at_least", at_least},
                              {"unit", unit},
                              {"pass", at_least ? value >= limit : value <= limit}});
}

void Report::at_most(const std::string& name, const std::string& of, const std::string& statistic,
                     double value, double limit, const std::string& unit) {
  target(name, of, statistic, value, limit, unit, false);
}

void Report::at_least(const std::string& name, const std::string& of, const std::string& statistic,
                      double value, double limit, const std::string& unit) {
  target(name, of, statistic, value, limit, unit, true);
}

void Report::write() const {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  std::ofstream out(path_);
  out << file_.dump(1) << '\n';
  if (!out.flush()) fail("cannot write " + path_);
  say("wrote " + path_);
}

void Report::print_table() const {
  for (const json& entry : file_["results"]) {
    if (entry.contains("variant")) {
      fmt::print("{:>4} rows  {:<34} {:>9.2f} us  delta {:>8.2f}  a hook {:>7.3f}\n",
                 entry["rows"].get<int>(), entry["variant"].get<std::string>(),
                 entry["us"].get<double>(), entry["delta_us"].get<double>(),
                 entry["per_hook_us"].get<double>());
    } else {
      fmt::print("{:<48} {:>10.3f} {:<6} p99 {:>10.3f}  max {:>10.3f}\n",
                 entry["name"].get<std::string>(), entry["median"].get<double>(),
                 entry["unit"].get<std::string>(), entry["p99"].get<double>(),
                 entry["max"].get<double>());
    }
  }
  for (const json& entry : file_["targets"]) {
    fmt::print("{}  {:<56} {:>9.3f} {} {:g} {}\n", entry["pass"].get<bool>() ? "PASS" : "MISS",
               entry["name"].get<std::string>(), entry["value"].get<double>(),
               entry["at_least"].get<bool>() ? ">=" : "<=", entry["limit"].get<double>(),
               entry["unit"].get<std::string>());
  }
}

// ---- main

int run(int argc, char** argv, const char* benchmark, const char* about,
        void (*body)(Report&, const Settings&)) {
  Settings settings;
  CLI::App app(about);
  app.add_option("--out", settings.out, "Folder of the result file");
  app.add_option("--stamp", settings.stamp, "Hash of the sources, kept in the file");
  app.add_option("--seed", settings.seed, "Of the order in which variants are timed");
  app.add_flag("--quick", settings.quick, "A smoke run of a few seconds");
  CLI11_PARSE(app, argc, argv);
  settings.command = std::filesystem::path(argv[0]).filename();  // not where somebody built it
  for (int i = 1; i < argc; ++i) settings.command += " " + std::string(argv[i]);
  try {
    const Stopwatch watch;
    Report report(benchmark, settings);
    try {
      body(report, settings);
    } catch (const std::exception& error) {
      // What was measured before is kept for whoever looks for the reason; such a file passes no
      // check.
      report.extra("error") = error.what();
      report.write();
      report.print_table();
      throw;
    }
    report.extra("wall_s") = watch.us() / 1e6;
    report.write();
    report.print_table();
    return 0;
  } catch (const std::exception& error) {
    say(fmt::format("{}: {}", benchmark, error.what()));
    return 1;
  }
}

}  // namespace graphtap::bench
