// The steps of a plan on the portable kernels: the bytes of lower/plan.h's formulas, natively and in WASM.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/parallel.h"
#include "kernel/conv_int8.h"
#include "kernel/pointwise_int8.h"
#include "kernel/rows.h"
#include "lower/backend/simd_steps.h"
#include "lower/lower.h"

namespace qdq {
kernel::Requantize simd::requantize_of(const Requantization& from, const PlanBuffer& out) {
  kernel::Requantize to;
  to.multiplier = from.multiplier;
  to.offset = from.offset;
  to.residual_multiplier = from.residual_multiplier;
  if (from.activation.kind != Activation::Kind::kNone)
    to.activation = [activation = from.activation](const float* x, int64_t n, float* y) {
      kernel::activate_f32(activation, x, n, y);
    };
  to.curve = from.activation;
  // The kernels take t for a number there.
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (to.curve.kind == Activation::Kind::kNearSilu &&
      !(std::all_of(to.multiplier.begin(), to.multiplier.end(), is_finite) &&
        std::all_of(to.offset.begin(), to.offset.end(), is_finite)))
    to.curve = {};
  to.out_is_float = out.dtype == DType::kF32;
  to.inverse_scale = from.inverse_scale;
  to.zero_point = from.zero_point;
  to.low = from.low;
  to.high = from.high;
  return to;
}

namespace {

using Kind = PlanStep::Kind;
using simd::Compiled, simd::made, simd::u8, simd::f32, simd::requantize_of;

kernel::RealRows rows_of(const PlanBuffer& buffer, int64_t row_stride = 0) {
  return {nullptr, buffer.dtype == DType::kF32, buffer.qparams.zero_point, row_stride};
}

// finish(real(q) * multiplier) of every byte: what converts a u8 operand.
Tensor table_of(const PlanBuffer& in, float multiplier, const Requantization& requantization, const PlanBuffer& out) {
  const kernel::Requantize to = requantize_of(requantization, out);
  std::array<uint8_t, 256> bytes;
  for (size_t q = 0; q < 256; ++q) bytes[q] = static_cast<uint8_t>(q);
  kernel::RealRows x = rows_of(in);
  x.data = reinterpret_cast<const std::byte*>(bytes.data());
  const Tensor table = Tensor::empty({256}, out.dtype);
  kernel::convert_row(x, multiplier, 256, to, table.raw());
  return table;
}

// Extents of a buffer in the order in which its elements are stored.
Shape stored_sizes(const PlanBuffer& buffer) {
  const Shape& s = buffer.sizes;
  return buffer.channels_last ? Shape{s[0], s[2], s[3], s[1]} : s;
}

class SimdSteps : public StepBackend {
 public:
  std::string_view name() const override { return "simd"; }
  bool has(PlanStep::Kind) const override { return true; }

  Compiled compile(const Plan& plan, const PlanStep& step) override {
    const auto is_bf16 = [&](size_t buffer) { return plan.buffers[buffer].dtype == DType::kBF16; };
    if (is_bf16(step.output) || std::any_of(step.inputs.begin(), step.inputs.end(), is_bf16))
      return "it computes no bfloat16";
    if (has_float_weight(step)) return "its weights are float32";
    switch (step.kind()) {
      case Kind::kQuantize:
      case Kind::kDequantize: return convert(plan, step);
      case Kind::kConvolution:
      case Kind::kLinear: return product(plan, step);
      case Kind::kMaxPool: return max_pool(plan, step);
      case Kind::kAveragePool: return average_pool(plan, step);
      case Kind::kAdd:
      case Kind::kMul: return binary(plan, step);
      case Kind::kPrelu: return prelu(plan, step);
      case Kind::kConcat: return concatenation(plan, step);
      case Kind::kMap: return map(plan, step);
      case Kind::kCopy: return copy(plan, step);
      case Kind::kArrange: return simd::arrange(plan, step);
      case Kind::kGroupLinear:
      case Kind::kDynamicLinear:
      case Kind::kDynamicConvolution:
      case Kind::kDynamicRound:
      case Kind::kLayerNorm:
      case Kind::kAttention:
      case Kind::kRotary: return simd::compile_sequence_step(plan, step);
    }
    return "an unknown kind of step";
  }

 private:
  static Compiled convert(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    const Requantization requantization = qdq::requantization(plan, step);
    const float multiplier = requantization.multiplier[0];
    const int64_t count = numel_of(out.sizes);
    const bool same_order = in.channels_last == out.channels_last;
    if (same_order && in.dtype == DType::kF32) {
      return made("convert", [=, x = rows_of(in), to = requantize_of(requantization, out)](
                                 auto inputs, std::byte* output, std::byte*) {
        kernel::RealRows row = x;
        row.data = inputs[0];
        kernel::convert_row(row, multiplier, count, to, output);
      });
    }
    if (in.dtype == DType::kF32 && out.dtype == DType::kF32 && step.activation.kind == Activation::Kind::kNone)
      return simd::arrange(plan, step);  // no more than another order
    const int64_t channels = same_order ? 1 : out.sizes[1], pixels = same_order ? count : out.sizes[2] * out.sizes[3];
    const int64_t images = same_order ? 1 : out.sizes[0];
    if (in.dtype == DType::kU8 && out.dtype == DType::kF32 && !out.channels_last) {
      return made("table", [=, table = table_of(in, multiplier, requantization, out)](auto inputs, std::byte* output,
                                                                                      std::byte*) {
        if (channels == 1)
          return kernel::map_u8(u8(inputs[0]), images * pixels, table.template data<float>(), f32(output));
        for (int64_t n = 0; n < images; ++n) {
          const int64_t at = n * channels * pixels;
          kernel::map_to_planes_u8(u8(inputs[0]) + at, channels, pixels, table.template data<float>(),
                                   f32(output) + at);
        }
      });
    }
    if (in.dtype == DType::kF32 && out.dtype == DType::kU8 && out.channels_last) {
      const auto run = [=, x = rows_of(in), to = requantize_of(requantization, out)](auto inputs, std::byte* output,
                                                                                     std::byte* scratch) {
        kernel::RealRows row = x;
        for (int64_t n = 0; n < images; ++n) {
          const int64_t at = n * channels * pixels;
          row.data = inputs[0] + at * 4;
          kernel::convert_row(row, multiplier, channels * pixels, to, scratch);
          kernel::interleave_planes_u8(u8(scratch), channels, pixels, u8(output) + at);
        }
      };
      return made("convert, then interleave", run, static_cast<size_t>(channels * pixels));
    }
    return concat("from ", to_string(in.dtype), " to ", to_string(out.dtype), " in another storage order");
  }

  static Compiled product(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    kernel::Requantize requantize = requantize_of(requantization(plan, step), out);
    if (step.inputs.size() > 1) {
      const PlanBuffer& residual = plan.buffers[step.inputs[1]];
      requantize.has_residual = true;
      requantize.residual_is_float = residual.dtype == DType::kF32;
      requantize.residual_zero_point = residual.qparams.zero_point;
    }
    const auto found = simd::int8_product_of(plan, step);
    if (const std::string* reason = std::get_if<std::string>(&found)) return *reason;
    const simd::Int8Product& product = *std::get_if<simd::Int8Product>(&found);
    const Tensor& weights = step.weights()->values;
    const Tensor turned = product.interleaves_frames ? weights.transpose(1, 2).contiguous() : weights.contiguous();
    const auto packed = kernel::pack_conv2d_int8(product.conv, turned.data<int8_t>(), in.qparams.zero_point,
                                                 std::move(requantize), product.images);
    const int64_t frames = product.images.frames.kernel;
    const std::string description =
        concat(packed.description(), frames > 1 ? concat(", of ", frames, " frames") : std::string());
    return made(description, [packed, images = product.images](auto inputs, std::byte* output, std::byte*) {
      kernel::ConvInt8Images call = images;
      call.x = u8(inputs[0]);
      if (inputs.size() > 1) call.residual = inputs[1];
      call.out = output;
      kernel::conv2d_int8(packed, call);
    });
  }

  static Compiled max_pool(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    if (!in.channels_last || !out.channels_last) return "images that are not stored channels last";
    if (in.dtype != DType::kU8) return "an image in float32";
    const Window2d& w = step.as<PlanStep::MaxPool>().window;
    kernel::Pool2d pool{1,          in.sizes[2], in.sizes[3], out.sizes[2], out.sizes[3], w.kernel_h,  w.kernel_w,
                        w.stride_h, w.stride_w,  w.pad_h,     w.pad_w,      w.dilation_h, w.dilation_w};
    return made("max pool",
                [pool, batch = in.sizes[0], channels = in.sizes[1]](auto inputs, std::byte* output, std::byte*) {
                  kernel::max_pool2d_u8(u8(inputs[0]), batch, channels, pool, u8(output));
                });
  }

  static Compiled average_pool(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    if (!in.channels_last || !out.channels_last) return "images that are not stored channels last";
    const PlanStep::AveragePool& pool = step.as<PlanStep::AveragePool>();
    struct PoolOutput {
      AverageWindow window;
      float multiplier;
    };
    std::vector<PoolOutput> places;
    std::map<int64_t, float> multipliers;
    const int64_t out_h = out.sizes[2], out_w = out.sizes[3];
    for (int64_t oh = 0; oh < out_h; ++oh) {
      for (int64_t ow = 0; ow < out_w; ++ow) {
        const AverageWindow window = average_window(pool, in.sizes, oh, ow);
        const auto [at, is_new] = multipliers.try_emplace(window.divisor, 0.0f);
        if (is_new) at->second = requantization(plan, step, window.divisor).multiplier[0];
        places.push_back({window, at->second});
      }
    }
    const int64_t images = in.sizes[0], channels = in.sizes[1], row = in.sizes[3] * channels, image = in.sizes[2] * row;
    const int64_t out_bytes = static_cast<int64_t>(size_of(out.dtype)), count = out_h * out_w;
    const bool rounds = pool.rounding.has_value(), is_float = in.dtype == DType::kF32 && !rounds;
    const kernel::Requantize rounding = rounds ? requantize_of(rounding_to(*pool.rounding), {}) : kernel::Requantize();
    return made(rounds ? "round, then average pool" : "average pool",
                [=, zero_point = in.qparams.zero_point, to = requantize_of(requantization(plan, step), out)](
                    auto inputs, std::byte* output, std::byte*) {
                  const int64_t grain = std::max<int64_t>(1, 65536 * count / std::max<int64_t>(image, 1));
                  parallel_for(images * count, grain, [&](int64_t begin, int64_t end) {
                    std::vector<int32_t> sums(static_cast<size_t>(is_float ? 0 : channels));
                    std::vector<float> reals(static_cast<size_t>(is_float ? channels : 0));
                    for (int64_t i = begin; i < end; ++i) {
                      const auto& [window, multiplier] = places[static_cast<size_t>(i % count)];
                      const int64_t at = i / count * image + window.row_begin * row + window.column_begin * channels;
                      const int64_t rows = window.row_end - window.row_begin,
                                    columns = window.column_end - window.column_begin;
                      std::byte* to_pixel = output + i * channels * out_bytes;
                      if (is_float) {
                        kernel::sum_pixels_f32(reinterpret_cast<const float*>(inputs[0]) + at, rows, row, columns,
                                               channels, channels, reals.data());
                        kernel::convert_row({reinterpret_cast<const std::byte*>(reals.data()), true, 0, 0}, multiplier,
                                            channels, to, to_pixel);
                      } else if (rounds) {
                        kernel::sum_rounded_pixels_f32(reinterpret_cast<const float*>(inputs[0]) + at, rows, row,
                                                       columns, channels, channels, rounding, sums.data());
                        kernel::requantize_sums(sums.data(), channels, multiplier, to, to_pixel);
                      } else {
                        kernel::sum_pixels_u8(u8(inputs[0]) + at, rows, row, columns, channels, channels, zero_point,
                                              sums.data());
                        kernel::requantize_sums(sums.data(), channels, multiplier, to, to_pixel);
                      }
                    }
                  });
                });
  }

  // How an operand of a binary step is repeated along the output's elements as they are stored: the output is [outer,
  // rows, n], the operand [outer, 1 or rows, n]. Nothing if it is not of that form.
  struct Repetition {
    int64_t outer = 1, rows = 1, n = 1;
    bool repeats = false;
  };
  static std::optional<Repetition> repetition(const PlanBuffer& operand, const PlanBuffer& out) {
    const size_t rank = out.sizes.size(), missing = rank - operand.sizes.size();
    Shape own(missing, 1), order(rank);
    own.insert(own.end(), operand.sizes.begin(), operand.sizes.end());
    const bool several_axes = std::count_if(own.begin(), own.end(), [](int64_t size) { return size != 1; }) > 1;
    if (several_axes && operand.channels_last != out.channels_last) return std::nullopt;
    for (size_t axis = 0; axis < rank; ++axis) order[axis] = static_cast<int64_t>(axis);
    if (out.channels_last) order = {0, 2, 3, 1};
    Repetition found;
    int part = 0;  // outer, rows, n
    for (const int64_t axis : order) {
      const int64_t extent = out.sizes[static_cast<size_t>(axis)];
      if (extent == 1) continue;
      const bool repeats = own[static_cast<size_t>(axis)] == 1;
      if (repeats && part == 0) part = 1;
      if (!repeats && part == 1) part = 2;
      if (repeats && part == 2) return std::nullopt;
      (part == 0 ? found.outer : part == 1 ? found.rows : found.n) *= extent;
    }
    found.repeats = part > 0;
    if (!found.repeats) std::swap(found.outer, found.n);
    return found;
  }

  // How many rows of rows the repeated operand is written out for at once, 0 if the kernel repeats it: where it would
  // take a few elements at a time, as one number beside a row (the weights of a pool by attention), or few channels.
  static int64_t pieces_together(const Repetition& shape) {
    constexpr int64_t kShort = 64, kLong = 4096;
    const int64_t whole = shape.rows * shape.n;
    if (!shape.repeats || shape.rows == 1 || shape.n >= kShort) return 0;
    if (shape.n > 1 && (shape.outer == 1 || whole >= kLong)) return 0;
    return std::clamp<int64_t>(kLong / std::max<int64_t>(whole, 1), 1, std::max<int64_t>(shape.outer, 1));
  }

  // Writes each of `count` pieces `times` times.
  static void repeat_pieces(const std::byte* from, int64_t count, int64_t times, int64_t bytes, std::byte* to) {
    for (int64_t i = 0; i < count; ++i, from += bytes, to += times * bytes) {
      if (bytes == 1) {
        std::fill_n(to, times, *from);
        continue;
      }
      if (bytes == 4) {
        std::fill_n(f32(to), times, *f32(from));
        continue;
      }
      const auto filled = [&](int64_t done) { return static_cast<size_t>(std::min(done, times - done) * bytes); };
      std::memcpy(to, from, static_cast<size_t>(bytes));
      for (int64_t done = 1; done < times; done *= 2) std::memcpy(to + done * bytes, to, filled(done));
    }
  }

  static Compiled binary(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &a = plan.buffers[step.inputs[0]], &b = plan.buffers[step.inputs[1]],
                     &out = plan.buffers[step.output];
    const auto a_shape = repetition(a, out), b_shape = repetition(b, out);
    if (!a_shape || !b_shape) return "an operand repeated along scattered axes";
    if (a_shape->repeats && b_shape->repeats) return "two operands that are repeated";
    const Repetition shape = a_shape->repeats ? *a_shape : *b_shape;
    const Requantization requantization = qdq::requantization(plan, step);
    const PlanBuffer& repeated = a_shape->repeats ? a : b;
    const auto width = static_cast<int64_t>(size_of(repeated.dtype));
    const int64_t whole = shape.rows * shape.n, together = pieces_together(shape);
    const int64_t rows = together > 0 ? 1 : shape.rows;
    const kernel::RealRows x = rows_of(a, together == 0 && a_shape->repeats ? 0 : shape.n),
                           y = rows_of(b, together == 0 && b_shape->repeats ? 0 : shape.n);
    const int64_t x_step = (a_shape->repeats ? shape.n : whole) * static_cast<int64_t>(size_of(a.dtype));
    const int64_t y_step = (b_shape->repeats ? shape.n : whole) * static_cast<int64_t>(size_of(b.dtype));
    const int64_t out_step = whole * static_cast<int64_t>(size_of(out.dtype));
    const bool is_add = step.kind() == Kind::kAdd;
    const float first = requantization.multiplier[0], second = is_add ? requantization.multiplier[1] : 0.0f;
    return made(
        is_add ? "add" : "mul",
        [=, repeats_a = a_shape->repeats, to = requantize_of(requantization, out)](auto inputs, std::byte* output,
                                                                                   std::byte* scratch) {
          kernel::RealRows left = x, right = y;
          for (int64_t i = 0; i < shape.outer; i += std::max<int64_t>(together, 1)) {
            left.data = inputs[0] + i * x_step;
            right.data = inputs[1] + i * y_step;
            int64_t n = shape.n;
            if (together > 0) {
              const int64_t pieces = std::min(together, shape.outer - i);
              const std::byte*& piece = repeats_a ? left.data : right.data;
              repeat_pieces(piece, pieces, shape.rows, shape.n * width, scratch);
              piece = scratch;
              n = left.row_stride = right.row_stride = pieces * whole;
            }
            if (is_add) kernel::add_rows(left, first, right, second, rows, n, to, output + i * out_step);
            else kernel::mul_rows(left, right, first, rows, n, to, output + i * out_step);
          }
        },
        static_cast<size_t>(together * whole * width));
  }

  static Compiled prelu(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    const Tensor& slopes = step.as<PlanStep::Prelu>().slopes;
    const int64_t n = slopes.numel(), rows = n == 0 ? 0 : numel_of(out.sizes) / n;
    if (in.channels_last != out.channels_last || (out.sizes.size() != 2 && !out.channels_last))
      return "channels that are not stored last";
    const Requantization requantization = qdq::requantization(plan, step);
    return made("prelu", [=, multiplier = requantization.multiplier[0], x = rows_of(in, n),
                          to = requantize_of(requantization, out)](auto inputs, std::byte* output, std::byte*) {
      kernel::RealRows row = x;
      row.data = inputs[0];
      kernel::prelu_rows(row, multiplier, slopes.data<float>(), rows, n, to, output);
    });
  }

  // What a concatenation does with the rows of one input.
  struct ConcatInput {
    int64_t row = 0;                         // elements
    std::optional<kernel::ByteTable> bytes;  // neither of the tables: the elements are copied
    Tensor reals;
    std::optional<float> multiplier;  // of f32 that is not copied as it is
    int64_t size = 1;                 // of an element of the input
  };

  // Writes `rows` rows, which lie `stride` bytes apart in the output.
  static void join_rows(const ConcatInput& part, const std::byte* from, int64_t rows, const kernel::Requantize& to_out,
                        std::byte* to, int64_t stride) {
    const int64_t bytes = part.row * part.size;
    if (part.bytes) {
      map_rows(*part.bytes, u8(from), part.row, rows, to, stride);
    } else if (part.reals.defined()) {
      for (int64_t r = 0; r < rows; ++r)
        kernel::map_u8(u8(from + r * bytes), part.row, part.reals.data<float>(), f32(to + r * stride));
    } else if (part.multiplier) {
      for (int64_t r = 0; r < rows; ++r)
        kernel::convert_row({from + r * bytes, true, 0, 0}, *part.multiplier, part.row, to_out, to + r * stride);
    } else {
      kernel::copy_row_bytes(from, bytes, to, stride, bytes, rows);
    }
  }

  // Looks up as many rows at once as fit a block, because the vectors of a table are long.
  static void map_rows(const kernel::ByteTable& table, const uint8_t* from, int64_t row, int64_t rows, std::byte* to,
                       int64_t stride) {
    std::array<uint8_t, 4096> block;
    const int64_t together = static_cast<int64_t>(block.size()) / std::max<int64_t>(row, 1);
    if (together < 2) {
      for (int64_t r = 0; r < rows; ++r) kernel::map_u8(from + r * row, row, table, u8(to + r * stride));
      return;
    }
    for (int64_t r = 0; r < rows; r += together) {
      const int64_t some = std::min(together, rows - r);
      kernel::map_u8(from + r * row, some * row, table, block.data());
      kernel::copy_row_bytes(reinterpret_cast<const std::byte*>(block.data()), row, to + r * stride, stride, row, some);
    }
  }

  static Compiled concatenation(const Plan& plan, const PlanStep& step) {
    const PlanBuffer& out = plan.buffers[step.output];
    auto axis = static_cast<size_t>(step.as<PlanStep::Concat>().axis);  // as stored
    if (out.channels_last && axis > 0) axis = axis == 1 ? 3 : axis - 1;
    const Requantization requantization = qdq::requantization(plan, step);
    std::vector<ConcatInput> parts;
    const Shape sizes = stored_sizes(out);
    int64_t rows = 1, out_row = 0;
    for (size_t i = 0; i < axis; ++i) rows *= sizes[i];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const PlanBuffer& in = plan.buffers[step.inputs[i]];
      if (in.channels_last != out.channels_last) return "an input in another storage order";
      ConcatInput part;
      part.row = rows == 0 ? 0 : numel_of(in.sizes) / rows;
      part.size = static_cast<int64_t>(size_of(in.dtype));
      if (in.dtype == DType::kU8) {
        const Tensor table = table_of(in, requantization.multiplier[i], requantization, out);
        bool same = out.dtype == DType::kU8;
        for (size_t q = 0; same && q < 256; ++q) same = table.data<uint8_t>()[q] == q;
        if (out.dtype == DType::kF32) part.reals = table;
        else if (!same) part.bytes.emplace(table.data<uint8_t>());
      } else if (in.dtype == DType::kBF16 || out.dtype == DType::kBF16) {
        return "bfloat16";
      } else if (out.dtype != DType::kF32 || requantization.activation.kind != Activation::Kind::kNone) {
        part.multiplier = requantization.multiplier[i];
      }
      out_row += part.row;
      parts.push_back(std::move(part));
    }
    return made("copy rows", [=, size = static_cast<int64_t>(size_of(out.dtype)),
                              to_out = requantize_of(requantization, out)](auto inputs, std::byte* output, std::byte*) {
      parallel_for(rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(out_row, 1)), [&](int64_t begin, int64_t end) {
        int64_t offset = 0;
        for (size_t i = 0; i < parts.size(); ++i) {
          const ConcatInput& part = parts[i];
          join_rows(part, inputs[i] + begin * part.row * part.size, end - begin, to_out,
                    output + (begin * out_row + offset) * size, out_row * size);
          offset += part.row;
        }
      });
    });
  }

  static Compiled map(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    if (in.channels_last != out.channels_last) return "another storage order";
    const int64_t count = numel_of(out.sizes);
    const Tensor& all = step.as<PlanStep::Map>().table;
    if (all.dtype() == DType::kU8) {
      return made("table",
                  [=, table = kernel::ByteTable(all.data<uint8_t>())](auto inputs, std::byte* output, std::byte*) {
                    kernel::map_u8(u8(inputs[0]), count, table, u8(output));
                  });
    }
    return made("table", [=, table = all](auto inputs, std::byte* output, std::byte*) {
      kernel::map_u8(u8(inputs[0]), count, table.template data<float>(), f32(output));
    });
  }

  static Compiled copy(const Plan& plan, const PlanStep& step) {
    const PlanBuffer &in = plan.buffers[step.inputs[0]], &out = plan.buffers[step.output];
    // Where an image has one channel or one pixel, both storage orders are the same bytes.
    const auto in_c_order = [](const PlanBuffer& b) {
      return !b.channels_last || b.sizes[1] == 1 || b.sizes[2] * b.sizes[3] == 1;
    };
    if ((in_c_order(in) && in_c_order(out)) || (in.channels_last && out.channels_last && in.sizes == out.sizes)) {
      return made("copy", [bytes = static_cast<size_t>(out.bytes())](auto inputs, std::byte* output, std::byte*) {
        if (inputs[0] != output) std::memcpy(output, inputs[0], bytes);
      });
    }
    if (in.channels_last && in_c_order(out) && in.dtype == DType::kU8) {
      return made("planes", [=, images = in.sizes[0], channels = in.sizes[1], pixels = in.sizes[2] * in.sizes[3]](
                                auto inputs, std::byte* output, std::byte*) {
        for (int64_t n = 0; n < images; ++n) {
          const int64_t at = n * channels * pixels;
          kernel::interleave_planes_u8(u8(inputs[0]) + at, pixels, channels, u8(output) + at);
        }
      });
    }
    return "a reshape between storage orders";
  }
};

}  // namespace

std::string_view integer_products() { return kernel::dot_road_name(kernel::dot_road()); }

std::unique_ptr<StepBackend> make_simd_steps() { return std::make_unique<SimdSteps>(); }

}  // namespace qdq
