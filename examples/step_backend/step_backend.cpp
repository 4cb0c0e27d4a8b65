// A backend of one's own for fused steps: an imaginary accelerator that multiplies int8 matrices and leaves all else
// to qdq. Its backend config says what it can run, FX graph mode quantizes that alone, and lowering hands it the steps.
//   step_backend EXAMPLES/backend_quantizer [OUT.json]
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "qdq.h"

namespace {

// What the accelerator needs of a linear layer, copied once: weights and the numbers of the formulas in lower/plan.h.
class AcceleratorLinear : public qdq::CompiledStep {
 public:
  AcceleratorLinear(const qdq::Plan& plan, const qdq::PlanStep& step)
      : weights_(step.weights()->values.contiguous()), to_(qdq::requantization(plan, step)),
        zero_point_(plan.buffers[step.inputs[0]].qparams.zero_point),
        rows_(qdq::numel_of(plan.buffers[step.output].sizes) / step.weights()->channels()) {}

  std::string description() const override { return "matrix unit, int8"; }

  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte*) override {
    const auto* x = reinterpret_cast<const uint8_t*>(inputs[0]);
    auto* y = reinterpret_cast<uint8_t*>(output);
    const int64_t channels = weights_.size(0), depth = weights_.size(1);
    const auto* w = weights_.data<int8_t>();
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t oc = 0; oc < channels; ++oc) {
        int32_t acc = 0;
        for (int64_t k = 0; k < depth; ++k) acc += (x[row * depth + k] - zero_point_) * w[oc * depth + k];
        const auto c = static_cast<size_t>(oc);
        const float product = static_cast<float>(acc) * to_.multiplier[c];
        float t = product + to_.offset[c];
        qdq::kernel::activate_f32(to_.activation, &t, 1, &t);
        y[row * channels + oc] = qdq::quantize_result(t, to_);
      }
  }

 private:
  qdq::Tensor weights_;
  qdq::Requantization to_;
  int32_t zero_point_;
  int64_t rows_;
};

class Accelerator : public qdq::StepBackend {
 public:
  std::string_view name() const override { return "accelerator"; }
  bool has(qdq::PlanStep::Kind kind) const override { return kind == qdq::PlanStep::Kind::kLinear; }

  std::variant<std::unique_ptr<qdq::CompiledStep>, std::string> compile(const qdq::Plan& plan,
                                                                        const qdq::PlanStep& step) override {
    if (step.kind() != qdq::PlanStep::Kind::kLinear) return "it multiplies matrices and nothing else";
    if (step.weights()->is_float()) return "its weights are int8";
    if (step.inputs.size() > 1) return "it adds no residual";
    if (plan.buffers[step.output].dtype != qdq::DType::kU8) return "its results are integers";
    return std::make_unique<AcceleratorLinear>(plan, step);
  }
};

// Linear layers on quint8 with symmetric int8 weights, and a flatten that hands its numbers on.
qdq::BackendConfig accelerator_config() {
  const qdq::DTypeConfig linear{{.dtype = "quint8"},
                                {.dtype = "quint8"},
                                {.dtype = "qint8", .quant_min_lower_bound = -127, .quant_max_upper_bound = 127},
                                "float32"};
  qdq::BackendConfig out{"accelerator", {}};
  out.set_backend_pattern_config(
      {.pattern = {"torch.nn.Linear", {}}, .dtype_configs = {linear}, .root_module = "torch.nn.Linear"});
  out.set_backend_pattern_config({.pattern = {"torch.flatten", {}},
                                  .observation_type = qdq::ObservationType::kOutputShareObserverWithInput,
                                  .dtype_configs = {{{.dtype = "quint8"}, {.dtype = "quint8"}}}});
  return out;
}

qdq::QConfigMapping mapping() {
  const qdq::ObserverWithArgs activation{"MinMaxObserver", {{"dtype", std::string("quint8")}}, nullptr};
  const qdq::ObserverWithArgs weight{"PerChannelMinMaxObserver",
                                     {{"dtype", std::string("qint8")},
                                      {"qscheme", std::string("per_channel_symmetric")},
                                      {"quant_min", int64_t{-127}},
                                      {"quant_max", int64_t{127}}},
                                     nullptr};
  return qdq::QConfigMapping().set_global(qdq::QConfig{activation, weight});
}

int run(const std::filesystem::path& folder, const char* lowered) {
  qdq::QConfigMappingQuantizer quantizer(mapping());
  quantizer.set_backend_config(accelerator_config());
  qdq::Prepared prepared =
      qdq::prepare_pt2e(qdq::load_pt2(qdq::disk().read((folder / "model.pt2").string())), quantizer);
  const auto data = qdq::disk().read((folder / "calibration.f32").string());
  const qdq::Tensor batch = qdq::Tensor::empty({2, 3, 32, 32}, qdq::DType::kF32);
  for (size_t at = 0; at + batch.nbytes() <= data.size(); at += batch.nbytes()) {
    std::memcpy(batch.raw(), data.data() + at, batch.nbytes());
    prepared.run({batch});
  }
  const qdq::Program converted = qdq::convert_pt2e(prepared);

  qdq::LowerOptions options;
  options.backends = {"simd"};
  qdq::Session without = qdq::lower(converted, options);
  options.step_backends = {std::make_shared<Accelerator>()};
  qdq::Session with = qdq::lower(converted, options);
  const bool same = qdq::bitwise_equal(with.run({{batch}})[0], without.run({{batch}})[0]);
  size_t taken = 0;
  for (const qdq::Session::Placement& placement : with.placements()) {
    if (placement.backend != "accelerator") continue;
    ++taken;
    std::printf("%s runs on the accelerator: %s\n", placement.node.c_str(), placement.description.c_str());
  }
  std::printf("%zu nodes are delegated; the outputs %s those of qdq's own kernels\n", taken,
              same ? "equal" : "differ from");
  if (lowered != nullptr) qdq::save_lowered_graph(qdq::lowered_graph(with), lowered);
  return same && taken > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: step_backend EXAMPLES/backend_quantizer [OUT.json]\n");
    return 2;
  }
  try {
    return run(argv[1], argc == 3 ? argv[2] : nullptr);
  } catch (const qdq::Error& error) {
    std::fprintf(stderr, "step_backend: %s\n", error.message.c_str());
    return 1;
  }
}
