// Nodes on oneDNN: float convolutions, linear layers and matrix products on its primitives.
//
// Sums are taken in the order in which PyTorch 2.6 takes them on one thread, so that observers see the same last bits
// and a model calibrated here gets PyTorch's scales (measured by tests/beside/real_models.py):
//   convolutions  oneDNN's forward_training primitives, except those of images that PyTorch leaves to its BLAS
//                 (aten/src/ATen/native/Convolution.cpp, use_mkldnn): see runs_on_blas
//   linear layers addmm by the BLAS
// The BLAS is OpenBLAS, as under Debian's PyTorch; its kernels, and with them the order, depend on the processor, as
// PyTorch's do. It runs on one thread: with more, PyTorch would choose other kernels.
#include <cblas.h>
#include <dlfcn.h>
#include <omp.h>

#include <array>
#include <map>

#include "base/parallel.h"
#include "exec/convolution.h"
#include "exec/op_backend.h"
#include "exec/simd.h"
#include "kernel/gemm.h"
#include "lower/backend/onednn.h"
#include "lower/backend/onednn_primitive.h"
#include "lower/lower.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

using dnnl::memory;
using Dims = memory::dims;

using onednn::engine;
using onednn::guarded;
using onednn::OpenMpRegions;
using onednn::stream;

memory view(const Tensor& tensor, const Dims& dims, const Dims& strides) {
  return {memory::desc(dims, memory::data_type::f32, strides), engine(), tensor.raw()};
}

Dims strides_of(const Tensor& tensor) { return tensor.strides(); }

// `in` in the layout that a primitive wants: itself, or a reordered copy.
memory in_layout(memory in, const memory::desc& wanted) {
  if (in.get_desc() == wanted) return in;
  memory out(wanted, engine());
  onednn::reorder(in, out);
  return out;
}

bool is_f32(const Tensor* tensor) { return tensor == nullptr || tensor->dtype() == DType::kF32; }

// Weights reordered once into the layout of the primitive that uses them; made anew when another tensor comes.
class ReorderedWeight {
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

// OpenBLAS, loaded when a product first needs it: a program that links it starts a thread for every core, and these
// spin for 10 to 60 ms, which most runs of qdq would spend for nothing.
class OpenBlas {
 public:
  decltype(&cblas_sgemm) sgemm;

  // Throws Error{kUnsupported} if the system has no OpenBLAS.
  static const OpenBlas& get() {
    static const OpenBlas one;
    return one;
  }

 private:
  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    QDQ_CHECK(library != nullptr, kUnsupported,
              "the onednn backend computes this node with OpenBLAS, as PyTorch does, but libopenblas.so.0 ",
              "cannot be loaded (", dlerror(), "); install it, or choose the simd backend");
    sgemm = reinterpret_cast<decltype(sgemm)>(dlsym(library, "cblas_sgemm"));
    const auto set_num_threads =
        reinterpret_cast<decltype(&openblas_set_num_threads)>(dlsym(library, "openblas_set_num_threads"));
    QDQ_CHECK(sgemm != nullptr && set_num_threads != nullptr, kUnsupported,
              "libopenblas.so.0 has no cblas_sgemm or openblas_set_num_threads; ",
              "install OpenBLAS 0.3, or choose the simd backend");
    set_num_threads(1);
  }
};

// c[m, n] = a[m, depth] * b[depth, n], added to what c holds if `add`; rows of c are n apart. With `transposed_b`, b is
// [n, depth]. BLAS thinks in columns, and PyTorch gives it everything transposed: c^T = b^T a^T.
void blas_product(int64_t m, int64_t n, int64_t depth, const float* a, const float* b, bool transposed_b, bool add,
                  float* c) {
  OpenBlas::get().sgemm(CblasColMajor, transposed_b ? CblasTrans : CblasNoTrans, CblasNoTrans, static_cast<blasint>(n),
                        static_cast<blasint>(m), static_cast<blasint>(depth), 1.0f, b,
                        static_cast<blasint>(transposed_b ? depth : n), a, static_cast<blasint>(depth),
                        add ? 1.0f : 0.0f, c, static_cast<blasint>(n));
}

// Whether PyTorch on one thread runs this float convolution as im2col and a product by its BLAS, not by oneDNN. For
// volumes, which it treats alike, oneDNN is taken always: it is faster.
bool runs_on_blas(const Tensor& x, const FloatConvolution& conv) {
  if (conv.axes == 3) return false;
  const auto [depth, height, width] = conv.kernel;
  const FloatConvolution::Triple ones{1, 1, 1};
  if (conv.stride == ones && conv.dilation == ones && x.size(0) < 16 && height == 1 && width == 1) return true;
  return conv.groups == 1 && x.size(0) == 1 && (height <= 3 || width <= 3) && x.numel() <= 20480;
}

// The pixels under the kernel as a matrix [channels * kh * kw, output pixels] of one image; outside of the image there
// are zeros.
void im2col(const float* image, int64_t channels, const FloatConvolution& conv, float* columns) {
  const auto [depth, in_h, in_w] = conv.in;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kh = 0; kh < conv.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < conv.kernel[2]; ++kw)
        for (int64_t oh = 0; oh < conv.out[1]; ++oh) {
          const int64_t ih = oh * conv.stride[1] - conv.padding[1] + kh * conv.dilation[1];
          for (int64_t ow = 0; ow < conv.out[2]; ++ow) {
            const int64_t iw = ow * conv.stride[2] - conv.padding[2] + kw * conv.dilation[2];
            const bool inside = ih >= 0 && ih < in_h && iw >= 0 && iw < in_w;
            *columns++ = inside ? image[(c * in_h + ih) * in_w + iw] : 0.0f;
          }
        }
}

// out[n, oc, oh, ow] as PyTorch's slow_conv2d computes it; all tensors contiguous, bias may be null.
void blas_convolution(const Tensor& x, const Tensor& weight, const float* bias, const FloatConvolution& conv,
                      const Tensor& out) {
  const int64_t groups = conv.groups, pixels = conv.out[1] * conv.out[2], depth = weight.numel() / weight.size(0);
  const int64_t channels = out.size(1) / groups, input_pixels = conv.in[1] * conv.in[2], inputs = x.size(1) / groups;
  const bool is_pointwise =
      depth == inputs && pixels == input_pixels && conv.padding == FloatConvolution::Triple{0, 0, 0};
  std::vector<float> columns(is_pointwise ? 0 : static_cast<size_t>(depth * pixels));
  for (int64_t i = 0; i < x.size(0) * groups; ++i) {
    const float* image = x.data<float>() + i * inputs * input_pixels;
    const int64_t first = i % groups * channels;
    float* to = out.data<float>() + i * channels * pixels;
    if (!is_pointwise) im2col(image, inputs, conv, columns.data());
    for (int64_t c = 0; bias != nullptr && c < channels; ++c) std::fill_n(to + c * pixels, pixels, bias[first + c]);
    blas_product(channels, pixels, depth, weight.data<float>() + first * depth, is_pointwise ? image : columns.data(),
                 false, bias != nullptr, to);
  }
}

// A convolution or a transposed one as oneDNN names its sizes: an axis in space alone is an image's second.
struct Layer {
  Dims in, weight, weight_strides, out;
  Dims stride, dilation, padding, padding_behind;  // dilation 0: no gaps
};

Layer layer_of(const FloatConvolution& conv, const Tensor& x, const Tensor& weight, bool is_transposed) {
  const auto axes = static_cast<int64_t>(std::max<size_t>(conv.axes, 2));
  const auto dims = [&](const FloatConvolution::Triple& triple) { return Dims(triple.end() - axes, triple.end()); };
  const auto with = [](Dims first, const Dims& rest) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  };
  Layer out{with({x.size(0), x.size(1)}, dims(conv.in)),
            {},
            {},
            with({x.size(0), conv.sizes[1]}, dims(conv.out)),
            dims(conv.stride),
            dims(conv.dilation),
            dims(conv.padding),
            dims(conv.padding)};
  const Dims kernel = dims(conv.kernel), steps = contiguous_strides(with({1, 1}, kernel));
  const int64_t taps = numel_of(kernel), rows = weight.size(0) / conv.groups, columns = weight.size(1);
  out.weight = is_transposed ? with({columns, rows}, kernel) : with({rows, columns}, kernel);
  out.weight_strides = is_transposed ? Dims{taps, columns * taps} : Dims{columns * taps, taps};
  out.weight_strides.insert(out.weight_strides.end(), steps.begin() + 2, steps.end());
  if (conv.groups > 1) {
    out.weight.insert(out.weight.begin(), conv.groups);
    out.weight_strides.insert(out.weight_strides.begin(), rows * columns * taps);
  }
  for (size_t i = 0; i < out.stride.size(); ++i) {
    const size_t axis = 3 - out.stride.size() + i;
    if (is_transposed)  // what is not there of the whole result
      out.padding_behind[i] = (conv.in[axis] - 1) * conv.stride[axis] + conv.dilation[axis] * (conv.kernel[axis] - 1) +
                              1 - conv.padding[axis] - conv.out[axis];
    --out.dilation[i];  // oneDNN counts the gaps
  }
  return out;
}

// Runs a layer on the primitives of `Forward`, one for each size of the input, on weights that are reordered once.
template <class Forward> class FloatPrimitives {
 public:
  void run(const Layer& layer, const Tensor& x, const Tensor& weight, const Tensor* given_bias, const Tensor& out) {
    const OpenMpRegions regions(OpenMpRegions::Threads::kIndependent);
    guarded([&] {
      const Primitive& primitive = primitive_for(layer, given_bias != nullptr);
      std::unordered_map<int, memory> args{
          {DNNL_ARG_SRC, in_layout(view(x, layer.in, contiguous_strides(layer.in)), primitive.desc.src_desc())},
          {DNNL_ARG_WEIGHTS,
           packed_.get(weight, view(weight, layer.weight, layer.weight_strides), primitive.desc.weights_desc())},
      };
      Tensor bias;
      if (given_bias) {
        bias = given_bias->contiguous();
        args[DNNL_ARG_BIAS] = view(bias, bias.sizes(), strides_of(bias));
      }
      memory result = view(out, layer.out, contiguous_strides(layer.out));
      memory inner = result;
      if (result.get_desc() != primitive.desc.dst_desc()) inner = memory(primitive.desc.dst_desc(), engine());
      args[DNNL_ARG_DST] = inner;
      {
        const OpenMpRegions regions(onednn::threads_of(primitive.desc.impl_info_str()));
        primitive.run.execute(stream(), args);
      }
      if (inner != result) onednn::reorder(inner, result);
      stream().wait();
    });
  }

 private:
  struct Primitive {
    typename Forward::primitive_desc desc;
    Forward run;
  };

  const Primitive& primitive_for(const Layer& layer, bool has_bias) {
    const auto found = primitives_.find(layer.in);
    if (found != primitives_.end()) return found->second;
    const auto any = [](const Dims& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    const memory::desc bias =
        has_bias ? memory::desc({layer.out[1]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
    constexpr bool kIsTransposed = std::is_same_v<Forward, dnnl::deconvolution_forward>;
    const typename Forward::primitive_desc desc(
        engine(), dnnl::prop_kind::forward_training,
        kIsTransposed ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct, any(layer.in),
        any(layer.weight), bias, any(layer.out), layer.stride, layer.dilation, layer.padding, layer.padding_behind);
    return primitives_.emplace(layer.in, Primitive{desc, Forward(desc)}).first->second;
  }

  std::map<Dims, Primitive> primitives_;
  ReorderedWeight packed_;
};

class OneDnnConvolution : public CompiledOp {
 public:
  explicit OneDnnConvolution(bool general) : general_(general) {}

  Value run(const Call<Tensor>& call) override {
    const std::optional<FloatConvolution> conv = float_convolution(call, general_);
    if (!conv) return run_reference(call, "its numbers, sizes or dtypes are not those of a float convolution");
    const Tensor weight = call.tensor(1).contiguous(), x = call.tensor(0).contiguous();
    const Tensor* bias = call.optional_tensor(2);
    const Tensor out = Tensor::empty(conv->sizes, DType::kF32);
    const Layer layer = layer_of(*conv, x, weight, false);
    if (runs_on_blas(x, *conv) || onednn::has_wrong_sums(layer.weight, layer.out, layer.stride, layer.dilation,
                                                         layer.padding, layer.padding_behind)) {
      const Tensor biases = bias ? bias->contiguous() : Tensor();
      blas_convolution(x, weight, bias ? biases.data<float>() : nullptr, *conv, out);
    } else {
      primitives_.run(layer, x, weight, bias, out);
    }
    return out;
  }

 private:
  bool general_;
  FloatPrimitives<dnnl::convolution_forward> primitives_;
};

class OneDnnTransposedConvolution : public CompiledOp {
 public:
  explicit OneDnnTransposedConvolution(bool general) : general_(general) {}

  Value run(const Call<Tensor>& call) override {
    const std::optional<FloatConvolution> conv = float_transposed_convolution(call, general_);
    if (!conv)
      return run_reference(call, "its numbers, sizes or dtypes are not those of a float transposed convolution");
    const Tensor weight = call.tensor(1).contiguous(), x = call.tensor(0).contiguous();
    const Tensor out = Tensor::empty(conv->sizes, DType::kF32);
    primitives_.run(layer_of(*conv, x, weight, true), x, weight, call.optional_tensor(2), out);
    return out;
  }

 private:
  bool general_;
  FloatPrimitives<dnnl::deconvolution_forward> primitives_;
};

// aten.linear: out = bias, then the product is added, as PyTorch's addmm does.
class OneDnnLinear : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& given = call.tensor(0);
    const Tensor weight = call.tensor(1).contiguous();
    const Tensor* bias = call.optional_tensor(2);
    if (!is_f32(&given) || !is_f32(&weight) || !is_f32(bias) || weight.dim() != 2 || given.dim() < 1 ||
        given.numel() == 0 || weight.numel() == 0 || given.size(-1) != weight.size(1) ||
        (bias && bias->sizes() != Shape{weight.size(0)}))
      return run_reference(call, "an operand is empty, not float32, or does not fit the others");
    const int64_t depth = weight.size(1), columns = weight.size(0), rows = given.numel() / depth;
    Shape sizes = given.sizes();
    sizes.back() = columns;
    const Tensor x = given.contiguous(), out = Tensor::empty(sizes, DType::kF32);
    if (bias) {
      const Tensor shift = bias->contiguous();
      for (int64_t i = 0; i < rows; ++i) std::copy_n(shift.data<float>(), columns, out.data<float>() + i * columns);
    }
    blas_product(rows, columns, depth, x.data<float>(), weight.data<float>(), true, bias != nullptr, out.data<float>());
    return out;
  }
};

// aten.matmul and aten.bmm as one primitive per shape.
class OneDnnMatmul : public CompiledOp {
  using Extents = std::array<int64_t, 4>;  // matrices, rows, depth, columns

 public:
  Value run(const Call<Tensor>& call) override {
    const Tensor& a = call.tensor(0);
    const Tensor& b = call.tensor(1);
    if (!is_f32(&a) || !is_f32(&b) || a.dim() < 2 || b.dim() < 2 || a.numel() == 0 || b.numel() == 0 ||
        a.size(-1) != b.size(-2))
      return run_reference(call, "an operand is empty, a vector, not float32, or does not fit the other");
    const Shape batch =
        broadcast_shapes(Shape(a.sizes().begin(), a.sizes().end() - 2), Shape(b.sizes().begin(), b.sizes().end() - 2));
    Shape sizes = batch;
    sizes.insert(sizes.end(), {a.size(-2), b.size(-1)});
    const Tensor out = uninitialized(sizes, DType::kF32);
    const int64_t count = numel_of(batch);
    const auto spread = [&](const Tensor& t) {
      Shape full = batch;
      full.insert(full.end(), t.sizes().end() - 2, t.sizes().end());
      return t.sizes() == full ? t : t.expand(full);
    };
    if (a.size(-2) == 1 && b.stride(-2) == 1 && b.size(-1) > 1) {
      // One row by columns that lie one after the other: a copy of them would take longer than their product.
      const auto flat = [&](const Tensor& t) { return spread(t).reshape({count, t.size(-2), t.size(-1)}); };
      const Tensor x = flat(a), y = flat(b);
      kernel::matmul_f32(count, 1, y.size(2), y.size(1), {x.data<float>(), x.stride(1), x.stride(2)}, x.stride(0),
                         {y.data<float>(), y.stride(1), y.stride(2)}, y.stride(0), out.data<float>());
      return out;
    }
    const Tensor x = spread(a).contiguous(), y = spread(b).contiguous();
    guarded([&] { primitive_for({count, a.size(-2), a.size(-1), b.size(-1)}).run(x, y, out); });
    return out;
  }

 private:
  // The product of matrices [m, k] and [k, n] for some sizes, with its memories, whose addresses every run sets.
  struct Matmul {
    dnnl::matmul product;
    OpenMpRegions::Threads threads = {};
    memory x, y, z;

    explicit Matmul(const Extents& of) {
      const auto [count, m, k, n] = of;
      const auto dense = [count = count](int64_t rows, int64_t columns) {
        return memory::desc({count, rows, columns}, memory::data_type::f32, Dims{rows * columns, columns, 1});
      };
      const dnnl::matmul::primitive_desc desc(engine(), dense(m, k), dense(k, n), dense(m, n));
      product = dnnl::matmul(desc);
      threads = onednn::threads_of(desc.impl_info_str());
      x = memory(desc.src_desc(), engine(), nullptr);
      y = memory(desc.weights_desc(), engine(), nullptr);
      z = memory(desc.dst_desc(), engine(), nullptr);
    }
    void run(const Tensor& left, const Tensor& right, const Tensor& out) const {
      x.set_data_handle(left.raw());
      y.set_data_handle(right.raw());
      z.set_data_handle(out.raw());
      const dnnl_exec_arg_t arguments[] = {
          {DNNL_ARG_SRC, x.get()}, {DNNL_ARG_WEIGHTS, y.get()}, {DNNL_ARG_DST, z.get()}};
      const OpenMpRegions regions(threads);
      dnnl::error::wrap_c_api(dnnl_primitive_execute(product.get(), stream().get(), 3, arguments),
                              "a matrix product could not be executed");
      stream().wait();
    }
  };

  const Matmul& primitive_for(const Extents& sizes) {
    const auto found = primitives_.find(sizes);
    return found != primitives_.end() ? found->second : primitives_.emplace(sizes, sizes).first->second;
  }

  std::map<Extents, Matmul> primitives_;
};

// Layers whose copies in the primitive's layout take longer than the portable kernels: measured on volumes of a U-Net
// of 8 to 64 channels, and on transposed convolutions.
bool has_few_channels(const SymShape& weight, int64_t groups) {
  const auto few = [](const SymInt& channels) { return channels.constant().value_or(0) < 16; };
  return weight.size() < 3 || few(weight[0].floor_div(groups)) || few(weight[1]);
}

class OneDnnOps : public OpBackend {
 public:
  std::string_view name() const override { return "onednn"; }

  std::variant<std::unique_ptr<CompiledOp>, std::string> compile(const Node& node, const WrittenAttributes&) override {
    omp_set_num_threads(num_threads());  // Debian's oneDNN runs on OpenMP
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta != nullptr && meta->dtype != DType::kF32)
      return concat("the result is ", to_string(meta->dtype), ", not float32");
    const Node* weight = node.arg(1).node();
    const bool constant = weight != nullptr && weight->op() == Node::Op::kGetAttr;
    if (is_a(node, Family::kConvolution) || is_a(node, Family::kTransposedConvolution)) {
      if (!constant) return "the weight is not a constant";
      return compile_convolution(node, *weight);
    }
    if (node.is(op::kLinear)) {
      if (!constant) return "the weight is not a constant";
      return std::make_unique<OneDnnLinear>();
    }
    if (is_a(node, Family::kMatmul) && node.args().size() == 2) {
      for (const Node* operand : {static_cast<const Node*>(node.arg(0).node()), weight})
        if (const TensorMeta* one = operand != nullptr ? operand->meta.val.tensor() : nullptr;
            one != nullptr && one->sizes.size() < 2)
          return "an operand is a vector";
      return std::make_unique<OneDnnMatmul>();
    }
    return "the operator is no convolution, linear layer or matrix product";
  }

 private:
  static std::variant<std::unique_ptr<CompiledOp>, std::string> compile_convolution(const Node& node,
                                                                                    const Node& weight) {
    const bool general = node.is(op::kConvolution);
    if (node.arg(4).is<std::string>()) return "its padding is a word";
    const bool is_transposed =
        general ? node.arg(6).integer().value_or(0) != 0 : is_a(node, Family::kTransposedConvolution);
    const TensorMeta* meta = weight.meta.val.tensor();
    const SymShape sizes = meta != nullptr ? meta->sizes : SymShape();
    if (!is_transposed && sizes.size() == 3) return "a convolution over one axis";
    const size_t groups_at = general ? 8 : 6;
    if ((is_transposed || sizes.size() > 4) &&
        has_few_channels(sizes, std::max<int64_t>(1, node.arg(groups_at).integer().value_or(1))))
      return "it has few channels, whose copies in the primitive's layout take longer";
    if (is_transposed) return std::make_unique<OneDnnTransposedConvolution>(general);
    return std::make_unique<OneDnnConvolution>(general);
  }
};

}  // namespace

std::unique_ptr<OpBackend> make_onednn_ops() { return std::make_unique<OneDnnOps>(); }

}  // namespace qdq
