// `qdq benchmark`: how fast models run, and where the time goes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <random>

#include "base/readable.h"
#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/json.h"
#include "io/model.h"
#include "lower/integer_layers.h"
#include "lower/lower.h"

namespace qdq {

namespace {

constexpr double kMilli = 1e3;

// Numbers as the model wants them: normal for floats, 0 for others. The first symbolic axis of the first input is the
// batch.
std::vector<Tensor> random_inputs(const Program& program, const std::string& model, int64_t batch) {
  std::map<std::string, int64_t> symbols = program.symbol_hints;
  const std::vector<Node*> placeholders = program.graph->placeholders();
  const TensorMeta* first = placeholders.empty() ? nullptr : placeholders[0]->meta.val.tensor();
  if (first != nullptr && !first->sizes.empty() && !first->sizes[0].is_constant())
    symbols[first->sizes[0].to_string()] = batch;
  else
    QDQ_CHECK(batch == 1 || (first != nullptr && !first->sizes.empty() && first->sizes[0] == SymInt(batch)),
              kInvalidArgument, model, " was exported for one batch size and cannot run with --batch ", batch,
              "; export it with a dynamic first axis");
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (const Node* placeholder : placeholders) {
    const TensorMeta* meta = placeholder->meta.val.tensor();
    QDQ_CHECK(meta != nullptr, kUnsupported, model, ": input ", placeholder->name(),
              " is not a tensor, and benchmark makes up tensors only");
    Shape sizes;
    for (const SymInt& size : meta->sizes) {
      const auto range = program.symbol_ranges.find(size.to_string());
      const int64_t least = range != program.symbol_ranges.end() ? range->second.min.value_or(1) : 1;
      sizes.push_back(size.evaluate(symbols).value_or(std::max<int64_t>(1, least)));
    }
    Tensor input = Tensor::empty(sizes, is_floating(meta->dtype) ? DType::kF32 : meta->dtype);
    if (input.dtype() == DType::kF32)
      for (float& x : input.span<float>()) x = normal(random);
    inputs.push_back(input.to(meta->dtype));
  }
  return inputs;
}

double quantile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  const double position = at * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const double part = position - static_cast<double>(below);
  return below + 1 < values.size() ? values[below] * (1 - part) + values[below + 1] * part : values[below];
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Contestant {
  std::string model;
  std::unique_ptr<Session> session;
  std::vector<Tensor> inputs;
  double prepare_seconds = 0, first_seconds = 0;  // lower(), and the first run, which compiles
  std::vector<double> wall, cpu;                  // seconds a run
  std::map<size_t, std::vector<double>> parts;    // seconds of each timing, by its place in a run
  std::vector<Session::Timing> timings;           // of the last run
  std::vector<Session::Timing> alone;             // every step repeated on its own
  IntegerLayers layers;                           // for --explain
};

Contestant prepare(const std::string& model, const BenchmarkOptions& options, Host& host) {
  Contestant one;
  one.model = model;
  const Program program = load_model(model, host.files).program;
  one.inputs = options.inputs.empty() ? random_inputs(program, model, options.batch)
                                      : open_samples(options.inputs, program, {}, host)->batch(0);
  if (options.explain) one.layers = integer_layers(program, one.inputs);
  double began = host.now_seconds();
  one.session = std::make_unique<Session>(open_session(program, options.session, host));
  one.prepare_seconds = host.now_seconds() - began;
  began = host.now_seconds();
  one.session->run(one.inputs);
  one.first_seconds = host.now_seconds() - began;
  return one;
}

// Models take turns, so that what else the machine does falls on all of them alike.
void measure(std::vector<Contestant>& contestants, const BenchmarkOptions& options, Host& host) {
  for (int64_t round = 0; round < options.runs; ++round)
    for (Contestant& one : contestants) {
      const double cpu = cpu_seconds(), wall = host.now_seconds();
      one.session->run(one.inputs);
      one.wall.push_back(host.now_seconds() - wall);
      one.cpu.push_back(cpu_seconds() - cpu);
    }
  if (!options.profile) return;
  for (int64_t round = 0; round < options.runs; ++round)
    for (Contestant& one : contestants) {
      one.timings.clear();
      one.session->run(one.inputs, one.timings);
      for (size_t i = 0; i < one.timings.size(); ++i) one.parts[i].push_back(one.timings[i].seconds);
    }
  constexpr size_t kRepeats = 15;
  for (Contestant& one : contestants) one.session->run_repeated(one.inputs, kRepeats, one.alone);
}

// Medians over all runs in milliseconds; how many times as fast as the first model each is.
std::string latency_table(const std::vector<Contestant>& contestants, int64_t batch) {
  size_t width = 5;
  for (const Contestant& one : contestants) width = std::max(width, one.model.size());
  std::string out = concat("model", std::string(width - 5, ' '),
                           "  median ms    p10 ms    p90 ms    p99 ms    CPU ms  samples/s  first run ms",
                           contestants.size() > 1 ? "   speed\n" : "\n");
  const double first = quantile(contestants[0].wall, 0.5);
  for (const Contestant& one : contestants) {
    const double median = quantile(one.wall, 0.5);
    char line[160];
    std::snprintf(line, sizeof line, "  %9.3f  %8.3f  %8.3f  %8.3f  %8.3f  %9.1f  %12.1f", kMilli * median,
                  kMilli * quantile(one.wall, 0.1), kMilli * quantile(one.wall, 0.9), kMilli * quantile(one.wall, 0.99),
                  kMilli * quantile(one.cpu, 0.5), median > 0 ? static_cast<double>(batch) / median : 0.0,
                  kMilli * (one.prepare_seconds + one.first_seconds));
    out += one.model + std::string(width - one.model.size(), ' ') + line;
    if (contestants.size() > 1) {
      std::snprintf(line, sizeof line, "  %5.2fx", median > 0 ? first / median : 0.0);
      out += line;
    }
    out += "\n";
  }
  return out;
}

struct Part {
  Session::Timing timing;
  double seconds;  // median
  double limit;    // of a product: its kernel alone, repeated on data in the cache; 0 for all else
};
std::vector<Part> parts_of(const Contestant& one) {
  std::vector<Part> parts;
  for (size_t i = 0; i < one.timings.size(); ++i) {
    const Session::Timing& timing = one.timings[i];
    parts.push_back({timing, quantile(one.parts.at(i), 0.5), timing.operations > 0 ? one.alone.at(i).seconds : 0});
  }
  return parts;
}

std::string profile_table(const Contestant& one) {
  std::vector<Part> parts = parts_of(one);
  double total = 0, products = 0, limit = 0, plain = 0;
  for (const Part& part : parts) {
    total += part.seconds;
    if (part.timing.backend == "reference") plain += part.seconds;
    limit += part.limit;
    if (part.limit > 0) products += part.seconds;
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  char line[256];
  std::snprintf(
      line, sizeof line,
      "\n%s: %.3f ms in %zu steps: products %.3f ms, whose limit is %.3f ms (%.0f%%), the rest %.3f ms, of it "
      "plain loops %.3f ms (%.1f%% of all)\n",
      one.model.c_str(), kMilli * total, parts.size(), kMilli * products, kMilli * limit,
      products > 0 ? 100 * limit / products : 0.0, kMilli * (total - products), kMilli * plain,
      total > 0 ? 100 * plain / total : 0.0);
  std::string out = concat(line, "     ms  share  limit  GOP/s  step\n");
  for (const Part& part : parts) {
    std::snprintf(line, sizeof line, "%7.3f  %4.1f%%  ", kMilli * part.seconds,
                  total > 0 ? 100 * part.seconds / total : 0.0);
    out += line;
    if (part.limit > 0 && part.seconds > 0)
      std::snprintf(line, sizeof line, "%4.0f%%  %5.0f  ", 100 * part.limit / part.seconds,
                    part.timing.operations / part.seconds * 1e-9);
    else std::snprintf(line, sizeof line, "%5s  %5s  ", "-", "-");
    out += concat(line, part.timing.what, " ", part.timing.name, " (", part.timing.backend,
                  part.timing.description.empty() ? "" : ", ", part.timing.description, ")\n");
  }
  return out;
}

// Reasons that many operators share are long: each gets a number.
std::string explanation(Contestant& one) {
  std::vector<std::pair<std::string, int64_t>> reasons;  // and of how many operators
  std::string lines;
  const auto number_of = [&](const std::string& reason) {
    const auto found =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) { return known.first == reason; });
    const size_t number = static_cast<size_t>(found - reasons.begin());
    if (found == reasons.end()) reasons.emplace_back(reason, 0);
    ++reasons[number].second;
    return number + 1;
  };
  for (const Session::Placement& placement : one.session->placements()) {
    lines += concat("  ", readable_name(placement.node), " ", readable_name(placement.target), ": ", placement.backend);
    if (!placement.step.empty()) lines += concat(", in step ", placement.step, " (", placement.description, ")");
    for (const auto& [backend, reason] : placement.refusals)
      lines += concat(", not by ", backend, " [", number_of(reason), "]");
    if (placement.fallbacks > 0)
      lines += concat("; ", placement.fallbacks, placement.fallbacks == 1 ? " run" : " runs",
                      " on the reference loops: ", placement.fallback_reason);
    lines += "\n";
  }
  std::string out = concat("\n", one.model, ":\n", float_layers_text(one.layers));
  for (size_t i = 0; i < reasons.size(); ++i)
    out += concat("  [", i + 1, "] ", reasons[i].first, " (", counted(reasons[i].second, "operators"), ")\n");
  return out + lines;
}

format::Json json_of_contestant(Contestant& one, const BenchmarkOptions& options) {
  format::Json out = {{"model", one.model}, {"batch", options.batch}, {"runs", one.wall.size()}};
  const auto add = [&](const char* name, const std::vector<double>& seconds) {
    out[name] = format::Json::object();
    for (const auto& [key, at] :
         {std::pair("median", 0.5), std::pair("p10", 0.1), std::pair("p90", 0.9), std::pair("p99", 0.99)})
      out[name][key] = quantile(seconds, at);
  };
  add("wall_seconds", one.wall);
  add("cpu_seconds", one.cpu);
  out["lower_seconds"] = one.prepare_seconds;
  out["first_run_seconds"] = one.first_seconds;
  if (options.profile) {
    out["steps"] = format::Json::array();
    for (const Part& part : parts_of(one))
      out["steps"].push_back({{"name", part.timing.name},
                              {"what", part.timing.what},
                              {"backend", part.timing.backend},
                              {"description", part.timing.description},
                              {"seconds", part.seconds},
                              {"operations", part.timing.operations},
                              {"limit_seconds", part.limit}});
  }
  if (options.explain) {
    out["float_layers"] = format::Json::array();
    for (const IntegerLayers::Float& layer : one.layers.in_float)
      out["float_layers"].push_back({{"node", layer.node}, {"target", layer.target}, {"reason", layer.reason}});
    out["nodes"] = format::Json::array();
    for (const Session::Placement& placement : one.session->placements()) {
      format::Json refusals = format::Json::array();
      for (const auto& [backend, reason] : placement.refusals)
        refusals.push_back({{"backend", backend}, {"reason", reason}});
      out["nodes"].push_back({{"node", placement.node},
                              {"target", placement.target},
                              {"step", placement.step},
                              {"backend", placement.backend},
                              {"description", placement.description},
                              {"refusals", refusals},
                              {"fallbacks", placement.fallbacks},
                              {"fallback_reason", placement.fallback_reason}});
    }
  }
  return out;
}

}  // namespace

void benchmark(const BenchmarkOptions& options, Host& host) {
  std::vector<Contestant> contestants;
  for (const std::string& model : options.models) contestants.push_back(prepare(model, options, host));
  measure(contestants, options, host);
  if (options.json) {
    format::Json out = format::Json::array();
    for (Contestant& one : contestants) out.push_back(json_of_contestant(one, options));
    host.print(format::print_json(out, 1) + "\n");
    return;
  }
  host.print(latency_table(contestants, options.batch));
  for (Contestant& one : contestants) {
    if (options.profile) host.print(profile_table(one));
    if (options.explain) host.print(explanation(one));
  }
}

void add_benchmark(CommandLine& line) {
  const auto options = std::make_shared<BenchmarkOptions>();
  CLI::App* verb =
      line.verb("benchmark", "measure how fast models run, and where the time goes",
                "qdq benchmark model.onnx model.int8.onnx", [options](Host& host) { benchmark(*options, host); });
  verb->add_option("MODEL", options->models, "the models (.pt2 or .onnx), run in turns")->required();
  CLI::Option* batch =
      verb->add_option("--batch", options->batch, "samples per run (1)")->type_name("N")->check(whole_number(1));
  verb->add_option("--inputs", options->inputs,
                   "the inputs of all models, .npz or .npy; their first batch is run (default: random numbers)")
      ->type_name("IN")
      ->excludes(batch);
  verb->add_option("--runs", options->runs, "runs of each model (50)")->type_name("N")->check(whole_number(1));
  add_session_options(*verb, options->session);
  verb->add_flag("--profile", options->profile,
                 "print the time of every step; for convolutions, linear layers and attention also the limit (their "
                 "kernel alone, on data in the cache) and operations per second");
  verb->add_flag("--explain", options->explain, "print which backend runs each node, which ones refused it, and why");
  verb->add_flag("--json", options->json, "print JSON");
}

}  // namespace qdq
