// How far fused steps are from the graph that they stand for, step by step. The graph is run node by node; every step
// gets the graph's own integers as inputs, and its result is held against the graph's, and both against the same
// formula in double precision, rounded once. The last column lets the steps run on their own results instead, and so
// shows how single differences grow.
// usage: step_differences MODEL.int8.pt2 INPUTS.npz [--images 4] [--graph simd|onednn] [--steps onednn|simd|reference]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "exec/interpreter.h"
#include "format/npz.h"
#include "io/pt2.h"
#include "lower/compiled_plan.h"
#include "lower/fuse.h"
#include "lower/lower.h"

namespace {

using namespace qdq;
using Kind = PlanStep::Kind;

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

uint8_t rounded(double steps, const PlanQParams& q) {
  const double low = q.qmin - q.zero_point, high = q.qmax - q.zero_point;
  return static_cast<uint8_t>(static_cast<int32_t>(std::clamp(std::nearbyint(steps), low, high)) + q.zero_point);
}

// What the graph's node holds, as the buffer of its name stores it, in C order.
Tensor as_buffer(const Tensor& value, const PlanBuffer& buffer) {
  const Tensor from = value.contiguous();
  if (from.dtype() == buffer.dtype) return from;
  const Tensor out = Tensor::empty(from.sizes(), buffer.dtype);
  for (int64_t i = 0; i < from.numel(); ++i) {
    if (buffer.dtype == DType::kF32) {
      const int32_t q = from.dtype() == DType::kS8 ? from.data<int8_t>()[i] + 128 : from.data<uint8_t>()[i];
      out.data<float>()[i] =
          static_cast<float>(q - buffer.qparams.zero_point) * static_cast<float>(buffer.qparams.scale);
    } else if (from.dtype() == DType::kS8) {
      out.data<uint8_t>()[i] = static_cast<uint8_t>(from.data<int8_t>()[i] + 128);
    } else {  // dequantized integers that a view or a pool passed on
      out.data<uint8_t>()[i] =
          rounded(static_cast<double>(from.data<float>()[i]) / buffer.qparams.scale, buffer.qparams);
    }
  }
  return out;
}

// A step on the graph's values, in double precision.
struct Exact {
  const Plan& plan;
  const PlanStep& step;
  const std::vector<Tensor>& inputs;
  const PlanBuffer& out = plan.buffers[step.output];

  const PlanBuffer& buffer(size_t input) const { return plan.buffers[step.inputs[input]]; }
  double real(size_t input, int64_t i) const {
    const Tensor& x = inputs[input];
    if (x.dtype() == DType::kF32) return static_cast<double>(x.data<float>()[i]);
    const PlanQParams& q = buffer(input).qparams;
    return (x.data<uint8_t>()[i] - q.zero_point) * static_cast<double>(static_cast<float>(q.scale));
  }

  // The reals before they are rounded; nothing for kinds that move bytes, stay in float or have a curve behind them.
  std::vector<double> values() const {
    using Act = Activation::Kind;
    if (step.activation.kind != Act::kNone && step.activation.kind != Act::kClamp) return {};
    const bool is_product =
        (step.kind() == Kind::kConvolution || step.kind() == Kind::kLinear) && !has_float_weight(step);
    const bool is_sum = step.kind() == Kind::kAdd && inputs[0].sizes() == out.sizes && inputs[1].sizes() == out.sizes;
    if (!is_product && !is_sum && step.kind() != Kind::kAveragePool) return {};
    std::vector<double> t(static_cast<size_t>(numel_of(out.sizes)));
    for (int64_t at = 0; at < static_cast<int64_t>(t.size()); ++at) {
      double& value = t[static_cast<size_t>(at)];
      value = is_product ? product(at) : is_sum ? real(0, at) + real(1, at) : average(at);
      if (step.activation.kind == Act::kClamp)
        value = std::min(std::max(value, step.activation.low), step.activation.high);
    }
    return t;
  }

  double product(int64_t at) const {
    const PlanStep::Convolution* conv = std::get_if<PlanStep::Convolution>(&step.form);
    const bool is_image = conv != nullptr;
    const ProductWeights& weights = *step.weights();
    const int64_t groups = is_image ? conv->groups : 1;
    const Shape& in = buffer(0).sizes;
    const int64_t oc = weights.channels(), depth = weights.values.size(1), channels = depth * groups;
    const int64_t h = is_image ? in[2] : 1, w = is_image ? in[3] : 1, oh = is_image ? out.sizes[2] : 1,
                  ow = is_image ? out.sizes[3] : 1;
    const int64_t column = at % ow, row = at / ow % oh, c = at / (ow * oh) % oc, n = at / (ow * oh * oc);
    const Window2d k = is_image ? conv->window : Window2d();
    int64_t sum = 0;
    for (int64_t d = 0; d < depth; ++d)
      for (int64_t i = 0; i < k.kernel_h; ++i)
        for (int64_t j = 0; j < k.kernel_w; ++j) {
          const int64_t y = row * k.stride_h - k.pad_h + i * k.dilation_h,
                        x = column * k.stride_w - k.pad_w + j * k.dilation_w;
          if (y < 0 || x < 0 || y >= h || x >= w) continue;
          const int64_t from = ((n * channels + c / (oc / groups) * depth + d) * h + y) * w + x;
          sum += (inputs[0].data<uint8_t>()[from] - buffer(0).qparams.zero_point) *
                 weights.values.data<int8_t>()[((c * depth + d) * k.kernel_h + i) * k.kernel_w + j];
        }
    const double bias = weights.bias.defined() ? static_cast<double>(weights.bias.data<float>()[c]) : 0;
    const double scale = static_cast<double>(static_cast<float>(buffer(0).qparams.scale)) *
                         static_cast<double>(weights.scales.data<float>()[c]);
    return static_cast<double>(sum) * scale + bias + (inputs.size() > 1 ? real(1, at) : 0);
  }
  double average(int64_t at) const {
    const Shape& in = buffer(0).sizes;
    const int64_t oh = out.sizes[2], ow = out.sizes[3];
    const AverageWindow window = average_window(step.as<PlanStep::AveragePool>(), in, at / ow % oh, at % ow);
    double sum = 0;
    for (int64_t y = window.row_begin; y < window.row_end; ++y)
      for (int64_t x = window.column_begin; x < window.column_end; ++x)
        sum += real(0, (at / (ow * oh) * in[2] + y) * in[3] + x);
    return sum / static_cast<double>(window.divisor);
  }
};

// Of one step's u8 results: how many elements there are, and how many differ.
struct Counts {
  std::string name, kind;
  int64_t elements = 0, from_graph = 0, own_from_graph = 0;
  // near_half: within 1e-5 of the middle between two integers
  int64_t checked = 0, graph_from_exact = 0, step_from_exact = 0, near_half = 0;
};

int64_t differing(const Tensor& a, const Tensor& b) {
  int64_t count = 0;
  for (int64_t i = 0; i < a.numel(); ++i) count += a.data<uint8_t>()[i] != b.data<uint8_t>()[i];
  return count;
}

class Comparison {
 public:
  Comparison(const Program& program, const std::string& graph, const std::string& steps)
      : program_(program), fused_(program.clone()), fusion_(fuse_program(fused_)),
        backend_(graph == "onednn" ? make_onednn_ops() : make_simd_ops()) {
    if (steps == "onednn") backends_.push_back(make_onednn_steps());
    if (steps != "reference") backends_.push_back(make_simd_steps());
    backends_.push_back(make_reference_steps());
    for (const SymInt& size : program.graph->placeholders()[0]->meta.val.tensor()->sizes)
      if (!size.is_constant()) symbols_[size.to_string()] = 1;
  }

  void add(const Tensor& image) {
    std::map<std::string, Tensor> values{{program_.graph->placeholders()[0]->name(), image}};
    Interpreter graph(program_, {backend_.get()});
    graph.set_node_hook([&](const Node& node, const Value& value) {
      if (const Tensor* tensor = value.get_if<Tensor>()) values[node.name()] = tensor->clone();
    });
    graph.run(std::vector<Tensor>{image});
    const std::vector<std::vector<Tensor>> own = results_of_steps(image);
    for (size_t p = 0; p < fusion_.plans.size(); ++p) {
      const Plan plan = specialize(fusion_.plans[p], symbols_);
      for (size_t s = 0; s < plan.steps.size(); ++s) compare(plan, plan.steps[s], values, own[p][s]);
    }
  }

  void print() const {
    std::printf("%-44s %-13s %9s %9s %9s %9s %9s %9s %9s\n", "step", "kind", "elements", "differ", "checked", "graph",
                "step", "near half", "own");
    Counts all;
    all.name = "all";
    for (const Counts& c : table_) {
      print(c);
      all.elements += c.elements, all.from_graph += c.from_graph, all.own_from_graph += c.own_from_graph,
          all.checked += c.checked;
      all.graph_from_exact += c.graph_from_exact, all.step_from_exact += c.step_from_exact,
          all.near_half += c.near_half;
    }
    print(all);
    const auto per = [](int64_t count, int64_t of) { return static_cast<double>(count) / static_cast<double>(of); };
    std::printf("differ: %.1e of the elements; from double precision: graph %.1e, steps %.1e\n",
                per(all.from_graph, all.elements), per(all.graph_from_exact, all.checked),
                per(all.step_from_exact, all.checked));
  }

 private:
  static void print(const Counts& c) {
    const auto n = [](int64_t count) { return static_cast<long long>(count); };
    std::printf("%-44s %-13s %9lld %9lld %9lld %9lld %9lld %9lld %9lld\n", c.name.c_str(), c.kind.c_str(),
                n(c.elements), n(c.from_graph), n(c.checked), n(c.graph_from_exact), n(c.step_from_exact),
                n(c.near_half), n(c.own_from_graph));
  }

  // Every step's result where each takes what the ones before it made.
  std::vector<std::vector<Tensor>> results_of_steps(const Tensor& image) {
    std::vector<std::vector<Tensor>> results(fusion_.plans.size());
    Interpreter session(fused_, {backend_.get()});
    session.set_module_handler([&](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
      const size_t p = std::stoul(node.target().substr(5));
      Plan open = specialize(fusion_.plans[p], symbols_);
      open.outputs.clear();
      for (PlanStep& step : open.steps) {
        step.in_place_input = -1;
        if (open.buffers[step.output].location == PlanBuffer::Location::kArena)
          open.buffers[step.output].location = PlanBuffer::Location::kOutput;
        open.outputs.push_back(step.output);
      }
      std::vector<Tensor> given;
      for (const Value& value : args) given.push_back(*value.get_if<Tensor>());
      results[p] = CompiledPlan(open, backends_, workspace_).run(given);
      Value::List wanted;
      for (const size_t output : fusion_.plans[p].outputs)
        wanted.push_back(results[p][static_cast<size_t>(std::find(open.outputs.begin(), open.outputs.end(), output) -
                                                        open.outputs.begin())]);
      return Value(wanted);
    });
    session.run(std::vector<Tensor>{image});
    return results;
  }

  void compare(const Plan& plan, PlanStep step, const std::map<std::string, Tensor>& values, const Tensor& own) {
    if (plan.buffers[step.output].dtype != DType::kU8) return;
    Plan alone = plan;
    alone.inputs.clear();
    std::vector<Tensor> inputs;
    for (const size_t input : step.inputs) {
      if (plan.buffers[input].location == PlanBuffer::Location::kView) return;
      inputs.push_back(as_buffer(values.at(plan.buffers[input].name), plan.buffers[input]));
      alone.buffers[input].location = PlanBuffer::Location::kInput;
      alone.inputs.push_back(input);
    }
    step.in_place_input = -1;
    alone.steps = {step};
    alone.buffers[step.output].location = PlanBuffer::Location::kOutput;
    alone.outputs = {step.output};
    const Tensor result = CompiledPlan(alone, backends_, workspace_).run(inputs)[0].contiguous();
    const Tensor expected = as_buffer(values.at(plan.buffers[step.output].name), plan.buffers[step.output]);
    const auto [row, is_new] = row_of_.emplace(step.name, table_.size());
    if (is_new) table_.push_back({step.name, std::string(to_string(step.kind()))});
    Counts& counts = table_[row->second];
    counts.elements += result.numel();
    counts.from_graph += differing(result, expected);
    counts.own_from_graph += differing(own.contiguous(), expected);
    const PlanQParams& q = plan.buffers[step.output].qparams;
    const std::vector<double> reals = Exact{plan, step, inputs}.values();
    counts.checked += static_cast<int64_t>(reals.size());
    for (size_t i = 0; i < reals.size(); ++i) {
      const double steps = reals[i] * static_cast<double>(static_cast<float>(1.0 / q.scale));
      counts.graph_from_exact += rounded(steps, q) != expected.data<uint8_t>()[i];
      counts.step_from_exact += rounded(steps, q) != result.data<uint8_t>()[i];
      counts.near_half += std::abs(steps - std::floor(steps) - 0.5) < 1e-5 && steps > q.qmin - q.zero_point &&
                          steps < q.qmax - q.zero_point;
    }
  }

  const Program& program_;
  Program fused_;
  Fusion fusion_;
  std::unique_ptr<OpBackend> backend_;
  std::vector<std::shared_ptr<StepBackend>> backends_;
  Workspace workspace_;
  std::map<std::string, int64_t> symbols_;
  std::vector<Counts> table_;
  std::map<std::string, size_t> row_of_;
};

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--images", "4"}, {"--graph", "simd"}, {"--steps", "onednn"}};
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: step_differences MODEL.int8.pt2 INPUTS.npz [--images 4] [--graph simd|onednn] [--steps "
                 "onednn|simd|reference]\n");
    return 2;
  }
  for (int i = 3; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const Program program = load_pt2(read_file(argv[1]));
  const Tensor images = format::read_npz(read_file(argv[2])).front().tensor;
  Comparison comparison(program, options["--graph"], options["--steps"]);
  for (int64_t i = 0; i < std::min<int64_t>(images.size(0), std::atoll(options["--images"].c_str())); ++i)
    comparison.add(images.slice(0, i, i + 1).contiguous());
  comparison.print();
}
