#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace graphtap::testing {

/// How a command ended and what it wrote.
struct Ended {
  int exit = -1;  ///< 128 + signal if it was killed
  std::string out, err;
  long resident_kib = 0;  ///< at most, with the mapped pages of files
};

/// The real command as a process of its own.
class Process {
 public:
  /// Starts GRAPHTAP_COMMAND with `arguments`; standard input is `input`, a path. `memory_bytes`:
  /// of its own it may have that much (mapped files do not count).
  explicit Process(const std::vector<std::string>& arguments, const char* input = "/dev/null",
                   rlim_t memory_bytes = RLIM_INFINITY) {
    std::array<int, 2> out{}, err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      const rlimit memory{memory_bytes, memory_bytes};
      if (memory_bytes != RLIM_INFINITY) setrlimit(RLIMIT_DATA, &memory);
      const int in = open(input, O_RDONLY);
      dup2(in, 0);
      dup2(out[1], 1);
      dup2(err[1], 2);
      std::vector<char*> argv{const_cast<char*>(GRAPHTAP_COMMAND)};
      for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(GRAPHTAP_COMMAND, argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    for (const int fd : {out_, err_}) {
      if (fd >= 0) close(fd);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { kill(pid_, number); }

  /// Reads until it ends; after `limit` it is killed, which shows as exit 137.
  Ended wait(std::chrono::seconds limit = std::chrono::seconds(120)) {
    Ended ended;
    const auto until = std::chrono::steady_clock::now() + limit;
    std::array<pollfd, 2> fds{{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      if (left.count() <= 0 || poll(fds.data(), 2, static_cast<int>(left.count())) == 0) {
        signal(SIGKILL);
        break;
      }
      take(fds[0], ended.out);
      take(fds[1], ended.err);
    }
    int status = 0;
    rusage usage{};
    wait4(pid_, &status, 0, &usage);
    pid_ = -1;
    ended.resident_kib = usage.ru_maxrss;
    ended.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended;
  }

 private:
  static void take(pollfd& fd, std::string& text) {
    if (fd.fd < 0 || fd.revents == 0) return;
    std::array<char, 65536> buffer{};
    const ssize_t got = read(fd.fd, buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else {
      fd.fd = -1;
    }
  }

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
};

inline Ended run(const std::vector<std::string>& arguments, const char* input = "/dev/null") {
  return Process(arguments, input).wait();
}

/// A directory that goes with the test.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "graphtap-cli-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Whether this build can run a model, and has one: decided by the command itself.
enum class Engine { none, no_model, ready };
inline Engine engine() {
  static const Engine found = [] {
    const int exit = run({"run", "--list-hooks", "--json"}).exit;
    return exit == 0 ? Engine::ready : exit == 3 ? Engine::no_model : Engine::none;
  }();
  return found;
}

}  // namespace graphtap::testing
