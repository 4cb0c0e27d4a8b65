// What the steps on oneDNN are made of: one primitive with its memories, packed weights, post-ops.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lower/step_backend.h"
#include "lower/backend/onednn.h"
#include "lower/backend/onednn_openmp.h"

namespace qdq::onednn {

dnnl::memory::data_type data_type(DType dtype);
dnnl::memory::desc desc_of(const PlanBuffer& buffer);
// Images that are frames, [N * D, C, H, W], as the volumes [N, C, D, H, W] of so many frames each.
dnnl::memory::desc volumes_of(const dnnl::memory::desc& images, int64_t frames);
// Rows and columns of padding that a window [N, C, H, W] -> [N, C', H', W'] needs behind the last ones; negative where
// it does not reach them.
dnnl::memory::dims padding_behind(const Window2d& window, const Shape& in, const Shape& out);
// A convolution's weights as oneDNN sees them, [groups, OC / groups, C / groups, kH, kW] for several groups.
dnnl::memory::dims weight_dims(const PlanStep::Convolution& step);
// Whether a convolution of images has other sums in oneDNN 3.6 than it should (brg_conv_fwd on AVX-512): one input
// channel in each group, and either one column of results where a stride passes over columns, or windows that lie in
// the padding alone. `weights` and `dilation` are as oneDNN has them; FuzzDifferential of the tests found it.
bool has_wrong_sums(const dnnl::memory::dims& weights, const dnnl::memory::dims& out, const dnnl::memory::dims& strides,
                    const dnnl::memory::dims& dilation, const dnnl::memory::dims& padding,
                    const dnnl::memory::dims& padding_end);
bool has_wrong_sums(const Plan& plan, const PlanStep& step, const PlanStep::Convolution& conv);
inline constexpr const char* kWrongSums = "oneDNN's sums of one channel are wrong for this window";
// Moves on to an implementation without AMX where that has other sums than it should. oneDNN 3.7 lays the columns of a
// window of few channels side by side (brg_conv_fwd), and mixes them up where they fill several rows of a tile; and it
// errs where strides leave one column of results.
void avoid_wrong_tiles(dnnl::convolution_forward::primitive_desc& desc);
// Constant operands.
dnnl::memory constants(const std::vector<float>& values);
dnnl::memory constant(int32_t value);

// Copies `from` into the layout of `to`, which may be blocks with padding. oneDNN 3.7's own reorder leaves rows of
// padded weights zero on some processors (an AMD of family 1Ah in a virtual machine whose CPUID tells no cache sizes),
// so that what is padded is moved by a plain loop. The stream must be waited for.
void reorder(dnnl::memory from, dnnl::memory to);

// Weights in the layouts of primitives, one copy for all sizes of a session.
class PackedWeights {
 public:
  dnnl::memory get(const Tensor& weight, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted) {
    auto [begin, end] = packed_.equal_range(weight.raw());
    for (auto at = begin; at != end; ++at)
      if (at->second.memory.get_desc() == wanted) return at->second.memory;
    dnnl::memory from(plain, engine(), weight.raw()), to(wanted, engine());
    reorder(from, to);
    stream().wait();
    packed_.emplace(weight.raw(), Packed{weight, to});
    return to;
  }

 private:
  struct Packed {
    Tensor owner;  // keeps the address taken
    dnnl::memory memory;
  };
  std::unordered_multimap<const std::byte*, Packed> packed_;
};

// One primitive with its memories; those of inputs, output and scratchpad get their addresses at every run.
class PrimitiveStep : public CompiledStep {
 public:
  PrimitiveStep(dnnl::primitive primitive, const std::string& implementation, const dnnl::memory::desc& scratchpad)
      : primitive_(std::move(primitive)), implementation_(implementation), scratchpad_(scratchpad, engine(), nullptr) {
    scratch_bytes_ = scratchpad.get_size();
    if (scratch_bytes_ > 0) bind(DNNL_ARG_SCRATCHPAD, scratchpad_);
  }

  void bind(int argument, const dnnl::memory& value) {
    kept_.push_back(value);
    arguments_.push_back({argument, value.get()});
  }
  void bind_input(int argument, size_t input, const dnnl::memory::desc& desc) {
    dnnl::memory value(desc, engine(), nullptr);
    bind(argument, value);
    inputs_.emplace_back(input, value);
  }
  void bind_output(const dnnl::memory::desc& desc) {
    output_ = dnnl::memory(desc, engine(), nullptr);
    bind(DNNL_ARG_DST, output_);
  }
  // The primitive adds to what the output holds: this input, copied there unless it already lies there.
  void set_accumulated_input(size_t input, size_t bytes) {
    accumulated_ = static_cast<int64_t>(input);
    accumulated_bytes_ = bytes;
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string description() const override { return implementation_; }

  void run(std::span<const std::byte* const> inputs, std::byte* output, std::byte* scratch) override {
    const OpenMpRegions regions(threads_of(implementation_));
    guarded([&] {
      if (accumulated_ >= 0 && inputs[static_cast<size_t>(accumulated_)] != output)
        std::memcpy(output, inputs[static_cast<size_t>(accumulated_)], accumulated_bytes_);
      for (auto& [input, value] : inputs_) value.set_data_handle(const_cast<std::byte*>(inputs[input]));
      output_.set_data_handle(output);
      if (scratch_bytes_ > 0) scratchpad_.set_data_handle(scratch);
      dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                     static_cast<int>(arguments_.size()), arguments_.data()),
                              "a primitive could not be executed");
    });
  }

 private:
  dnnl::primitive primitive_;
  std::string implementation_;
  size_t scratch_bytes_ = 0;
  dnnl::memory scratchpad_, output_;
  std::vector<std::pair<size_t, dnnl::memory>> inputs_;
  std::vector<dnnl::memory> kept_;
  std::vector<dnnl_exec_arg_t> arguments_;
  int64_t accumulated_ = -1;
  size_t accumulated_bytes_ = 0;
};

template <class Primitive> std::unique_ptr<PrimitiveStep> step_of(const typename Primitive::primitive_desc& desc) {
  return std::make_unique<PrimitiveStep>(Primitive(desc), desc.impl_info_str(), desc.scratchpad_desc());
}

// Scratch memory comes from the caller.
dnnl::primitive_attr plain_attr();
void append_activation(dnnl::post_ops& ops, const Activation& activation);

}  // namespace qdq::onednn
