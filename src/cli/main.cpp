// The native program: a Host made of the operating system around run_cli.
#include <fcntl.h>
#include <spawn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/disk_output.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/last_words.h"

namespace {

volatile std::sig_atomic_t interrupted = 0;
char g_timeout_line[128];

// The command that looks at outputs, a process group of its own, and the file that it reads.
volatile std::sig_atomic_t g_command = 0;  // 0: none runs
char g_outputs_path[4096];

// These do only what a signal's handler may do: no destructors, so that what is written is as after a kill.
void end_command() {
  if (g_command > 0) kill(-static_cast<pid_t>(g_command), SIGKILL);
  if (g_outputs_path[0] != 0) unlink(g_outputs_path);
}
void end_by_signal(int number) {
  end_command();
  std::signal(number, SIG_DFL);
  std::raise(number);
}
void end_by_timeout(int) {
  end_command();
  static_cast<void>(!write(STDERR_FILENO, g_timeout_line, std::strlen(g_timeout_line)));  // nobody is left to tell
  _exit(1);
}

// What ends the program ends the command, too, and removes its file.
class WatchedCommand {
 public:
  explicit WatchedCommand(const std::string& path) {
    if (path.size() < sizeof g_outputs_path) std::memcpy(g_outputs_path, path.c_str(), path.size() + 1);
    for (Before& before : before_) {
      sigaction(before.number, nullptr, &before.action);
      if (before.action.sa_handler == SIG_DFL) std::signal(before.number, end_by_signal);
    }
  }
  ~WatchedCommand() {
    g_command = 0;
    g_outputs_path[0] = 0;
    for (const Before& before : before_) sigaction(before.number, &before.action, nullptr);
  }
  WatchedCommand(const WatchedCommand&) = delete;
  WatchedCommand& operator=(const WatchedCommand&) = delete;

 private:
  struct Before {
    int number;
    struct sigaction action;
  };
  Before before_[2] = {{SIGINT, {}}, {SIGTERM, {}}};
};

// Starts `line` in a shell, in a process group of its own; returns its standard output.
FILE* start_in_shell(const std::string& line) {
  int ends[2];
  QDQ_CHECK(pipe2(ends, O_CLOEXEC) == 0, kIo, "cannot make a pipe for ", line, ": ", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::string shell = "sh", option = "-c", words = line;
  char* arguments[] = {shell.data(), option.data(), words.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) close(ends[0]);
  QDQ_CHECK(failure == 0, kIo, "cannot start the shell for ", line, ": ", std::strerror(failure));
  g_command = child;
  return fdopen(ends[0], "r");
}

// `path` is the file that the command reads.
qdq::Host::CommandResult run_in_shell(const std::string& line, const std::string& path) {
  const WatchedCommand watched(path);
  FILE* const output = start_in_shell(line);
  qdq::Host::CommandResult out;
  char part[4096];
  while (const size_t count = std::fread(part, 1, sizeof part, output)) out.printed.append(part, count);
  std::fclose(output);
  int status = 0;
  while (waitpid(static_cast<pid_t>(g_command), &status, 0) < 0 && errno == EINTR) {}
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

class NativeHost final : public qdq::Host {
 public:
  NativeHost() : Host(qdq::disk()) {}

  void print(const std::string& text) override { std::fwrite(text.data(), 1, text.size(), stdout); }
  void print_error(const std::string& text) override { std::fwrite(text.data(), 1, text.size(), stderr); }
  bool error_is_terminal() override { return isatty(STDERR_FILENO) != 0; }
  bool error_has_colors() override {
    const char* const without = std::getenv("NO_COLOR");  // https://no-color.org
    const char* const terminal = std::getenv("TERM");
    return error_is_terminal() && (without == nullptr || *without == 0) &&
           (terminal == nullptr || std::string_view(terminal) != "dumb");
  }
  // SOURCE_DATE_EPOCH makes files the same at any time (https://reproducible-builds.org/specs/source-date-epoch).
  std::string date() override {
    const char* const given = std::getenv("SOURCE_DATE_EPOCH");
    const std::time_t now = given != nullptr ? static_cast<std::time_t>(std::atoll(given)) : std::time(nullptr);
    char text[16];
    std::tm day{};
    return gmtime_r(&now, &day) != nullptr && std::strftime(text, sizeof text, "%Y-%m-%d", &day) > 0 ? text : "";
  }
  // A container may have less than the machine.
  std::optional<uint64_t> machine_memory() override {
    const auto machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    using File = std::unique_ptr<FILE, decltype([](FILE* file) { std::fclose(file); })>;
    unsigned long long container = 0;
    const File file(std::fopen("/sys/fs/cgroup/memory.max", "r"));
    return file && std::fscanf(file.get(), "%llu", &container) == 1 ? std::min<uint64_t>(machine, container) : machine;
  }
  void end_after(double seconds) override {
    std::snprintf(g_timeout_line, sizeof g_timeout_line,
                  "%sqdq: the %g seconds that --timeout allows have passed; nothing more was written\n",
                  error_is_terminal() ? "\n" : "", seconds);  // a progress bar may stand on the line
    std::signal(SIGALRM, end_by_timeout);
    const double whole = std::floor(seconds);
    constexpr double kMicroseconds = 1e6;
    // 0 and 0 would mean never.
    const auto part = std::max<suseconds_t>(1, static_cast<suseconds_t>((seconds - whole) * kMicroseconds));
    const itimerval timer{{0, 0}, {static_cast<time_t>(whole), part}};
    QDQ_CHECK(setitimer(ITIMER_REAL, &timer, nullptr) == 0, kIo,
              "cannot set the clock of --timeout: ", std::strerror(errno));
  }
  CommandResult run_on_outputs(const std::string& command, std::span<const std::byte> npz) override {
    const char* const folder = std::getenv("TMPDIR");
    std::string path = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/qdq-XXXXXX.npz";
    constexpr int kEnding = 4;
    const int descriptor = mkstemps(path.data(), kEnding);
    QDQ_CHECK(descriptor >= 0, kIo, "cannot make a file in ", folder != nullptr ? folder : "/tmp",
              " for the outputs: ", std::strerror(errno));
    const std::unique_ptr<std::string, decltype([](std::string* name) { unlink(name->c_str()); })> remove(&path);
    close(descriptor);
    files.write(path, npz);
    std::string line = command;
    constexpr std::string_view kWord = "{outputs}";
    for (size_t at = line.find(kWord); at != std::string::npos; at = line.find(kWord, at + path.size()))
      line.replace(at, kWord.size(), path);
    std::fflush(nullptr);
    return run_in_shell(line, path);
  }
  void hold_interrupts(bool hold) override {
    struct sigaction action{};
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    action.sa_handler = hold ? [](int) { interrupted = 1; } : SIG_DFL;
    sigaction(SIGINT, &action, nullptr);
  }
  bool is_interrupted() override { return interrupted != 0; }
  double now_seconds() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

// A file that qdq opens must not get the number of a standard stream that the caller closed, for text would go into it.
// Reading and writing such a stream goes on failing.
void hold_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0)
      static_cast<void>(open("/dev/null", (stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
}

// A full disk behind the standard output may show only at the end.
int status_after_output(int status, qdq::Host& host) {
  errno = 0;
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written) return status;
  host.print_error(qdq::concat("qdq: cannot write to the standard output",
                               errno != 0 ? qdq::concat(": ", qdq::reason_of(errno)) : std::string(), "\n"));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  hold_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes fails then, and qdq says so
  qdq::say_last_words();
  qdq::count_process_memory();
#ifdef __GLIBC__
  // What kernels need for a moment comes and goes at every operator: memory that went back to the system would be
  // cleared page by page again. Whole files do go back.
  mallopt(M_MMAP_THRESHOLD, 1 << 24);
  mallopt(M_TRIM_THRESHOLD, 1 << 26);
#endif
  NativeHost host;
  const std::vector<std::string> args(argv + 1, argv + argc);
  return status_after_output(qdq::run_cli(args, host), host);
}
