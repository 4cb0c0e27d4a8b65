// Runs mutations of the models in a folder, at any depth: qdq_onnx_fuzz FOLDER [ROUNDS] [SEED]; or each of them as it
// is, in a process of its own, and quantizes it: qdq_onnx_fuzz --each FOLDER (fuzz/broken_onnx.py and
// fuzz/broken_pt2.py make such files); or one file, to see a finding again: qdq_onnx_fuzz FILE.
// Each round takes one file, changes bytes or the graph, and runs it as fuzz/onnx_run_fuzz.cpp does. The mutation that
// is about to run lies in onnx_fuzz.onnx in the current folder, where it stays if the program ends early.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "fuzz/onnx_mutations.h"

int fuzz_onnx_run(const uint8_t* data, size_t size);
int fuzz_pipeline(const uint8_t* data, size_t size);

namespace {

using qdq::format::Bytes;

constexpr size_t kLargestSeed = 1 << 20;  // bytes
constexpr double kSlowSeconds = 10;       // of the processor, with sanitizers

Bytes read_model(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  const qdq::format::ByteSpan span = qdq::format::bytes_of({bytes.data(), bytes.size()});
  return {span.begin(), span.end()};
}

std::vector<std::filesystem::path> paths_of_models(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if ((entry.path().extension() == ".onnx" || entry.path().extension() == ".pt2") && entry.file_size() > 0 &&
        entry.file_size() <= kLargestSeed)
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<Bytes> read_models(const std::string& folder) {
  std::vector<Bytes> out;
  for (const auto& path : paths_of_models(folder)) out.push_back(read_model(path));
  return out;
}

void run_model(const Bytes& bytes) { fuzz_onnx_run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()); }

// Ends the process, with 0 if the model runs or is refused.
[[noreturn]] void run_and_quantize(const std::filesystem::path& path) {
  constexpr unsigned kMostWaiting = 600;  // of the clock, for beside other processes it runs ahead
  const rlimit most{static_cast<rlim_t>(kSlowSeconds), static_cast<rlim_t>(kSlowSeconds)};
  setrlimit(RLIMIT_CPU, &most);
  alarm(kMostWaiting);
  try {
    const Bytes bytes = read_model(path);
    run_model(bytes);
    fuzz_pipeline(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    _exit(3);
  }
  _exit(0);
}

int run_each(const std::string& folder) {
  size_t models = 0, findings = 0;
  for (const auto& path : paths_of_models(folder)) {
    ++models;
    const pid_t child = fork();
    if (child == 0) run_and_quantize(path);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 2;
    if (status == 0) continue;
    ++findings;
    std::cout << "FOUND " << path.string() << ": "
              << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                      : "status " + std::to_string(WEXITSTATUS(status)))
              << std::endl;
  }
  std::cout << models << " models, " << findings << " findings\n";
  return findings > 0;
}

Bytes mutation(const Bytes& model, qdq::Random& random) {
  if (random.below(3) == 0) return qdq::fuzz::with_other_bytes(model, random);
  try {
    qdq::format::OnnxFile file = qdq::format::read_onnx_file(model);
    for (uint64_t changes = 1 + random.below(2); changes > 0 && !file.nodes.empty(); --changes)
      file = qdq::fuzz::with_other_graph(file, random);
    return qdq::format::write_onnx_file(file);
  } catch (const qdq::Error&) {  // what is not read has no graph to change
    return qdq::fuzz::with_other_bytes(model, random);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: qdq_onnx_fuzz FOLDER [ROUNDS] [SEED]\n       qdq_onnx_fuzz --each FOLDER\n"
                 "       qdq_onnx_fuzz FILE\n";
    return 2;
  }
  if (argc == 3 && argv[1] == std::string("--each")) return run_each(argv[2]);
  if (std::filesystem::is_regular_file(argv[1])) run_and_quantize(argv[1]);
  const long long rounds = argc > 2 ? std::atoll(argv[2]) : 1000, seed = argc > 3 ? std::atoll(argv[3]) : 1;
  const std::vector<Bytes> models = read_models(argv[1]);
  if (models.empty()) {
    std::cerr << "qdq_onnx_fuzz: there is no model of at most " << kLargestSeed << " bytes in " << argv[1] << "\n";
    return 2;
  }
  qdq::Random random(static_cast<uint64_t>(seed));
  long long findings = 0;
  for (long long round = 0; round < rounds; ++round) {
    const Bytes bytes = mutation(models[random.below(models.size())], random);
    const auto keep = [&](const std::string& name) {
      std::ofstream(name, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    };
    keep("onnx_fuzz.onnx");
    const std::clock_t began = std::clock();
    std::string finding;
    try {
      run_model(bytes);
    } catch (const std::exception& error) {
      finding = error.what();
    }
    const double took = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    if (finding.empty() && took > kSlowSeconds) finding = "took " + std::to_string(took) + " seconds";
    if (finding.empty()) continue;
    ++findings;
    const std::string name = "onnx_fuzz_" + std::to_string(seed) + "_" + std::to_string(round) + ".onnx";
    keep(name);
    std::cout << "FOUND " << name << ": " << finding << std::endl;
  }
  std::cout << rounds << " mutations of " << models.size() << " models, " << findings << " findings\n";
  return findings > 0;
}
