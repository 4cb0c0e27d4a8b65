// The only file that knows oneDNN: float convolutions, linear layers and matrix products on its primitives.
#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/parallel.h"
#include "lower/lower.h"

namespace qdq {
namespace {

using dnnl::memory;
using Dims = memory::dims;

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

memory view(const Tensor& tensor, const Dims& dims, const Dims& strides) {
  return {memory::desc(dims, memory::data_type::f32, strides), engine(), tensor.raw()};
}

Dims strides_of(const Tensor& tensor) { return tensor.strides(); }

// `in` in the layout that a primitive wants: itself, or a reordered copy.
memory in_layout(memory in, const memory::desc& wanted) {
  if (in.get_desc() == wanted) return in;
  memory out(wanted, engine());
  dnnl::reorder(in, out).execute(stream(), in, out);
  return out;
}

// Runs a oneDNN call; its errors become ours.
template <class Body>
auto guarded(Body&& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(error.status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
                concat("oneDNN refused: ", error.what()));
  }
}

bool is_f32(const Tensor* tensor) { return tensor == nullptr || tensor->dtype() == DType::kF32; }

// Weights reordered once into the layout of the primitive that uses them; made anew when another tensor comes.
class WeightCache {
 public:
  const memory& get(const Tensor& weight, const memory& plain, const memory::desc& wanted) {
    const bool same = tensor_.defined() && tensor_.storage() == weight.storage() && tensor_.raw() == weight.raw() &&
                      memory_.get_desc() == wanted;
    if (!same) {
      memory_ = in_layout(plain, wanted);
      tensor_ = weight;
    }
    return memory_;
  }

 private:
  Tensor tensor_;
  memory memory_;
};

class ConvolutionOp : public CompiledOp {
 public:
  explicit ConvolutionOp(bool general) : general_(general) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const Tensor weight = call.tensor(1).contiguous();
    const Tensor* given_bias = call.optional_tensor(2);
    const bool supported = is_f32(&given) && is_f32(&weight) && is_f32(given_bias) && weight.dim() == 4 && given.dim() == 4 &&
                           given.numel() > 0 && !(general_ && call.boolean(6));
    const int64_t groups = call.integer(general_ ? 8 : 6);
    if (!supported || groups < 1 || weight.size(0) % groups != 0 || given.size(1) != weight.size(1) * groups)
      return call.op().eval(call);
    const Tensor x = given.contiguous();
    const Dims stride = call.integers(3), padding = call.integers(4);
    Dims dilation = call.integers(5);
    Shape sizes{x.size(0), weight.size(0)};
    for (size_t i = 0; i < 2; ++i)
      sizes.push_back((x.sizes()[2 + i] + 2 * padding[i] - dilation[i] * (weight.sizes()[2 + i] - 1) - 1) / stride[i] + 1);
    for (int64_t& d : dilation) d -= 1;  // oneDNN counts the gaps
    const Tensor out = Tensor::empty(sizes, DType::kF32);
    guarded([&] {
      Dims weight_dims = weight.sizes();
      if (groups > 1) weight_dims = {groups, weight.size(0) / groups, weight.size(1), weight.size(2), weight.size(3)};
      const Primitive& primitive = primitive_for(x.sizes(), weight_dims, sizes, stride, dilation, padding, given_bias != nullptr);
      const memory plain_weight = view(weight, weight_dims, contiguous_strides(weight_dims));
      std::unordered_map<int, memory> args{
          {DNNL_ARG_SRC, in_layout(view(x, x.sizes(), strides_of(x)), primitive.desc.src_desc())},
          {DNNL_ARG_WEIGHTS, packed_.get(weight, plain_weight, primitive.desc.weights_desc())},
      };
      Tensor bias;
      if (given_bias) {
        bias = given_bias->contiguous();
        args[DNNL_ARG_BIAS] = view(bias, bias.sizes(), strides_of(bias));
      }
      memory result = view(out, out.sizes(), strides_of(out));
      memory inner = result;
      if (result.get_desc() != primitive.desc.dst_desc()) inner = memory(primitive.desc.dst_desc(), engine());
      args[DNNL_ARG_DST] = inner;
      primitive.run.execute(stream(), args);
      if (inner != result) dnnl::reorder(inner, result).execute(stream(), inner, result);
      stream().wait();
    });
    return out;
  }

 private:
  struct Primitive {
    dnnl::convolution_forward::primitive_desc desc;
    dnnl::convolution_forward run;
  };

  const Primitive& primitive_for(const Dims& x, const Dims& weight, const Dims& out, const Dims& stride, const Dims& dilation,
                                 const Dims& padding, bool has_bias) {
    const auto found = primitives_.find(x);
    if (found != primitives_.end()) return found->second;
    const auto any = [](const Dims& dims) { return memory::desc(dims, memory::data_type::f32, memory::format_tag::any); };
    const memory::desc bias = has_bias ? memory::desc({out[1]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
    const dnnl::convolution_forward::primitive_desc desc(engine(), dnnl::prop_kind::forward_inference,
                                                         dnnl::algorithm::convolution_direct, any(x), any(weight), bias, any(out),
                                                         stride, dilation, padding, padding);
    return primitives_.emplace(x, Primitive{desc, dnnl::convolution_forward(desc)}).first->second;
  }

  bool general_;
  std::map<Dims, Primitive> primitives_;
  WeightCache packed_;
};

// aten.linear, aten.matmul and aten.bmm as one matmul primitive per shape.
class MatmulOp : public CompiledOp {
 public:
  explicit MatmulOp(bool is_linear) : is_linear_(is_linear) {}

  Value run(const Call<Tensor>& call) override {
    const Tensor& a = call.tensor(0);
    const Tensor& given = call.tensor(1);
    const Tensor* bias = is_linear_ ? call.optional_tensor(2) : nullptr;
    if (!is_f32(&a) || !is_f32(&given) || !is_f32(bias) || a.dim() < 2 || given.dim() < 2 || (is_linear_ && given.dim() != 2) ||
        a.numel() == 0 || given.numel() == 0 || a.size(-1) != given.size(is_linear_ ? 1 : -2))
      return call.op().eval(call);
    const Tensor b = is_linear_ ? given.transpose(0, 1) : given;
    const Shape batch = is_linear_ ? Shape(a.sizes().begin(), a.sizes().end() - 2)
                                   : broadcast_shapes(Shape(a.sizes().begin(), a.sizes().end() - 2), Shape(b.sizes().begin(), b.sizes().end() - 2));
    Shape sizes = batch;
    sizes.insert(sizes.end(), {a.size(-2), b.size(-1)});
    const Tensor out = Tensor::empty(sizes, DType::kF32);
    const int64_t count = is_linear_ ? 1 : numel_of(batch);
    const auto flat = [&](const Tensor& t, int64_t rows) {
      if (is_linear_) return t.reshape({rows, t.size(-1)});
      Shape full = batch;
      full.insert(full.end(), t.sizes().end() - 2, t.sizes().end());
      return t.expand(full).reshape({count, t.size(-2), t.size(-1)}).contiguous();
    };
    const Tensor x = flat(a, a.numel() / a.size(-1)).contiguous();
    const Tensor y = is_linear_ ? b : flat(b, 0);
    const Tensor z = is_linear_ ? out.reshape({x.size(0), b.size(-1)}) : out.reshape({count, a.size(-2), b.size(-1)});
    guarded([&] {
      const memory xm = view(x, x.sizes(), strides_of(x)), zm = view(z, z.sizes(), strides_of(z));
      const memory ym = view(y, y.sizes(), strides_of(y));
      const Primitive& primitive = primitive_for(xm.get_desc(), y.sizes(), zm.get_desc(), bias, ym.get_desc());
      std::unordered_map<int, memory> args{{DNNL_ARG_SRC, xm}, {DNNL_ARG_DST, zm}};
      args[DNNL_ARG_WEIGHTS] = is_linear_ ? packed_.get(y, ym, primitive.desc.weights_desc()) : ym;
      Tensor shift;
      if (bias) {
        shift = bias->contiguous().reshape({1, bias->numel()});
        args[DNNL_ARG_BIAS] = view(shift, shift.sizes(), strides_of(shift));
      }
      primitive.run.execute(stream(), args);
      stream().wait();
    });
    return out;
  }

 private:
  struct Primitive {
    dnnl::matmul::primitive_desc desc;
    dnnl::matmul run;
  };

  const Primitive& primitive_for(const memory::desc& x, const Dims& y, const memory::desc& z, const Tensor* bias, const memory::desc& plain) {
    Dims key = x.get_dims();
    key.insert(key.end(), y.begin(), y.end());
    const auto found = primitives_.find(key);
    if (found != primitives_.end()) return found->second;
    const memory::desc weight = is_linear_ ? memory::desc(y, memory::data_type::f32, memory::format_tag::any) : plain;
    const memory::desc shift = bias ? memory::desc({1, bias->numel()}, memory::data_type::f32, memory::format_tag::ab) : memory::desc();
    const dnnl::matmul::primitive_desc desc = bias ? dnnl::matmul::primitive_desc(engine(), x, weight, shift, z)
                                                   : dnnl::matmul::primitive_desc(engine(), x, weight, z);
    return primitives_.emplace(key, Primitive{desc, dnnl::matmul(desc)}).first->second;
  }

  bool is_linear_;
  std::map<Dims, Primitive> primitives_;
  WeightCache packed_;
};

class OneDnnBackend : public Backend {
 public:
  std::string_view name() const override { return "onednn"; }

  std::variant<std::unique_ptr<CompiledOp>, std::string> compile(const Node& node, const Program&) override {
    omp_set_num_threads(num_threads());  // Debian's oneDNN runs on OpenMP
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta != nullptr && meta->dtype != DType::kF32) return concat("the result is ", to_string(meta->dtype), ", not float32");
    const Node* weight = node.arg(1).node();
    const bool constant = weight != nullptr && weight->op() == Node::Op::kGetAttr;
    if (node.is("torch.ops.aten.conv2d.default") || node.is("torch.ops.aten.convolution.default")) {
      if (!constant) return "the weight is not a constant";
      return std::make_unique<ConvolutionOp>(node.is("torch.ops.aten.convolution.default"));
    }
    if (node.is("torch.ops.aten.linear.default")) {
      if (!constant) return "the weight is not a constant";
      return std::make_unique<MatmulOp>(true);
    }
    if (node.is("torch.ops.aten.matmul.default") || node.is("torch.ops.aten.bmm.default")) return std::make_unique<MatmulOp>(false);
    return "the operator is not one of conv2d, convolution, linear, matmul, bmm";
  }
};

}  // namespace

std::unique_ptr<Backend> make_onednn_backend() { return std::make_unique<OneDnnBackend>(); }

}  // namespace qdq
