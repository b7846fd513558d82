#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <thread>
#include <vector>

#include "control/commands.hpp"
#include "control/unix_socket.hpp"
#include "graphtap/control.hpp"

namespace graphtap {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::size_t kMostClients = 32;

void set_timeout(int fd, int option, std::chrono::milliseconds timeout) {
  const timeval value{timeout.count() / 1000, (timeout.count() % 1000) * 1000};
  ::setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

class ControlServer::Impl {
 public:
  Impl(Monitor& monitor, ControlOptions options, FileDescriptor listener, FileDescriptor stop)
      : path_(std::move(options.socket)),
        commands_(monitor, std::move(options.token)),
        listener_(std::move(listener)),
        stop_(std::move(stop)),
        thread_([this] { serve(); }) {}

  ~Impl() {
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof(one));
    thread_.join();
    ::unlink(path_.c_str());
  }

 private:
  struct Client {
    FileDescriptor fd;
    std::string received;
  };

  void serve() {
    for (;;) {
      std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Client& client : clients_) fds.push_back({client.fd.get(), POLLIN, 0});
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
      if (fds[0].revents != 0) return;
      std::size_t index = 2;
      for (auto client = clients_.begin(); client != clients_.end(); ++index) {
        const bool keep = fds[index].revents == 0 || read_from(*client);
        client = keep ? std::next(client) : clients_.erase(client);
      }
      if (fds[1].revents != 0) accept_one();
    }
  }

  void accept_one() {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.get() < 0) return;
    if (!peer_is_ours(fd.get()) || clients_.size() >= kMostClients) {
      const char* why = clients_.size() >= kMostClients ? "too many connections" : "another user";
      (void)send_all(fd.get(),
                     std::string(R"({"ok":false,"code":"unavailable","error":")") + why + "\"}\n");
      return;
    }
    set_timeout(fd.get(), SO_SNDTIMEO, std::chrono::seconds(2));
    clients_.push_back({std::move(fd), {}});
  }

  // False: hang up.
  bool read_from(Client& client) {
    char buffer[4096];
    const ssize_t got = ::recv(client.fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    client.received.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end; (end = client.received.find('\n')) != std::string::npos;) {
      const std::string answer = commands_.answer(client.received.substr(0, end)) + "\n";
      client.received.erase(0, end + 1);
      if (!send_all(client.fd.get(), answer)) return false;
    }
    if (client.received.size() <= kLongestLine) return true;
    (void)send_all(client.fd.get(),
                   "{\"ok\":false,\"code\":\"invalid_argument\",\"error\":\"a line is longer than "
                   "64 KiB\"}\n");
    return false;
  }

  const std::filesystem::path path_;
  ControlCommands commands_;
  FileDescriptor listener_, stop_;
  std::list<Client> clients_;
  std::thread thread_;  // last: it uses all of the above
};

ControlServer::ControlServer(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

Result<std::unique_ptr<ControlServer>> ControlServer::start(Monitor& monitor,
                                                            ControlOptions options) {
  Result<FileDescriptor> listener = listen_at(options.socket);
  if (!listener.ok()) return listener.status();
  FileDescriptor stop(::eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) {
    return Status(Code::io_error, std::string("control socket: eventfd: ") + std::strerror(errno));
  }
  return std::unique_ptr<ControlServer>(new ControlServer(std::make_unique<Impl>(
      monitor, std::move(options), std::move(listener).value(), std::move(stop))));
}

Result<std::string> control_request(const std::filesystem::path& socket, std::string_view request,
                                    std::chrono::milliseconds timeout) {
  Result<FileDescriptor> connected = connect_to(socket);
  if (!connected.ok()) return connected.status();
  const int fd = connected.value().get();
  set_timeout(fd, SO_SNDTIMEO, timeout);
  set_timeout(fd, SO_RCVTIMEO, timeout);
  if (!send_all(fd, std::string(request) + "\n")) {
    return Status(Code::unavailable, "control socket " + socket.string() + ": it hung up");
  }
  std::string answer;
  char buffer[4096];
  while (answer.find('\n') == std::string::npos) {
    const ssize_t got = ::recv(fd, buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Status(Code::timeout, "control socket " + socket.string() + ": no answer within " +
                                       std::to_string(timeout.count()) + " ms");
    }
    if (got <= 0) {
      return Status(Code::unavailable,
                    "control socket " + socket.string() + ": it hung up without an answer");
    }
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  answer.erase(answer.find('\n'));
  return answer;
}

}  // namespace graphtap
