// What threads give and cost: one session with 1 and N threads, and several sessions at a time, each in a thread of the
// program, while the cores are free and while a busy loop keeps one of them. The cases take turns.
// Inputs are float32.
// usage: threads_bench MODEL.pt2 [--threads 2] [--sessions 2] [--runs 300] [--rounds 3] [--core 1]
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "io/pt2.h"
#include "lower/lower.h"

namespace {

using namespace qdq;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A process that only burns time on one core, while one lives.
class Neighbour {
 public:
  explicit Neighbour(int core) : pid_(core < 0 ? -1 : fork()) {
    if (pid_ != 0) return;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(static_cast<size_t>(core), &cores);
    sched_setaffinity(0, sizeof cores, &cores);
    for (volatile unsigned i = 0;;) i = i + 1;
  }
  ~Neighbour() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

 private:
  pid_t pid_;
};

struct Case {
  int threads, sessions;
  bool is_busy;
  std::vector<double> runs{};    // milliseconds of every run
  std::vector<double> rounds{};  // milliseconds a run, of a whole round of all sessions
};

double at(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int count, char** words) {
  int threads = 2, sessions = 2, runs = 300, rounds = 3, core = 1;
  for (int i = 2; i + 1 < count; i += 2) {
    const std::string word = words[i];
    for (const auto& [name, value] :
         {std::pair{"--threads", &threads}, std::pair{"--sessions", &sessions}, std::pair{"--runs", &runs},
          std::pair{"--rounds", &rounds}, std::pair{"--core", &core}})
      if (word == name) *value = std::atoi(words[i + 1]);
  }
  if (count < 2) {
    std::fputs("usage: threads_bench MODEL.pt2 [--threads 2] [--sessions 2] [--runs 300] [--rounds 3] [--core 1]\n",
               stderr);
    return 2;
  }
  std::ifstream file(words[1], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  const Program program = load_pt2({data, bytes.size()});
  std::vector<Tensor> inputs;
  for (const Node* input : program.graph->placeholders()) {
    Shape sizes;
    for (const SymInt& size : input->meta.val.tensor()->sizes)
      sizes.push_back(size.evaluate(program.symbol_hints).value_or(1));
    inputs.push_back(Tensor::full(sizes, DType::kF32, 0.5));
  }

  set_num_threads(threads);
  std::vector<Session> pool;
  for (int i = 0; i < sessions; ++i) pool.push_back(lower(program));
  for (Session& session : pool) session.run(inputs);

  std::vector<Case> cases;
  for (const bool is_busy : {false, true})
    for (const int together : {1, sessions})
      for (const int each : {1, threads}) cases.push_back({each, together, is_busy});
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : cases) {
      set_num_threads(one.threads);
      const Neighbour neighbour(one.is_busy ? core : -1);
      std::vector<std::vector<double>> times(static_cast<size_t>(one.sessions));
      const auto work = [&](size_t index) {
        for (int i = 0; i < runs; ++i) {
          const double began = seconds();
          pool[index].run(inputs);
          times[index].push_back(1e3 * (seconds() - began));
        }
      };
      const double began = seconds();
      std::vector<std::thread> others;
      for (int i = 1; i < one.sessions; ++i) others.emplace_back(work, static_cast<size_t>(i));
      work(0);
      for (std::thread& other : others) other.join();
      one.rounds.push_back(1e3 * (seconds() - began) / (runs * one.sessions));
      for (const std::vector<double>& some : times) one.runs.insert(one.runs.end(), some.begin(), some.end());
    }
  }
  std::printf("neighbour  sessions  threads  ms a run: p10   median      p90   all together (least to most)\n");
  for (const Case& one : cases)
    std::printf("%-9s  %8d  %7d  %13.2f  %7.2f  %7.2f   %.2f (%.2f to %.2f)\n", one.is_busy ? "busy" : "-",
                one.sessions, one.threads, at(one.runs, 0.1), at(one.runs, 0.5), at(one.runs, 0.9), at(one.rounds, 0.5),
                at(one.rounds, 0), at(one.rounds, 1));
}
