#include "tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "base/disk_blocks.h"
#include "base/large_blocks.h"
#include "base/memory.h"
#include "tensor/complex.h"
#include "tensor/strided_copy.h"

namespace qdq {

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

int64_t numel_of(const Shape& shape) {
  int64_t product = 1;
  bool zero = false;
  for (int64_t size : shape) {
    QDQ_CHECK(size >= 0, kInvalidArgument, "the shape ", to_string(shape), " has a negative size");
    zero = zero || size == 0;
    QDQ_CHECK(size == 0 || product <= std::numeric_limits<int64_t>::max() / 16 / size, kInvalidArgument, "the shape ",
              to_string(shape), " has too many elements");
    product *= size == 0 ? 1 : size;
  }
  return zero ? 0 : product;
}

Shape contiguous_strides(const Shape& shape) {
  numel_of(shape);  // refuses sizes whose strides overflow, of empty tensors too
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

int64_t wrap_axis(int64_t axis, int64_t rank) {
  const int64_t range = std::max<int64_t>(rank, 1);
  QDQ_CHECK(axis >= -range && axis < range, kInvalidArgument, "axis ", axis, " is out of range for ", rank,
            " dimensions");
  return axis < 0 ? axis + range : axis;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    QDQ_CHECK(x == y || x == 1 || y == 1, kInvalidArgument, "the shapes ", to_string(a), " and ", to_string(b),
              " do not broadcast: ", x, " against ", y, " in dimension ", i);
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Storage::Storage(size_t bytes) : size_(bytes) {
  // A margin of 64 bytes lets vector loops read a whole register at the end.
  const size_t rounded = bytes + 64;
  QDQ_CHECK(rounded > bytes, kOutOfMemory, "a tensor of ", bytes, " bytes does not fit into ", memory_in_words());
  if (goes_to_disk(rounded)) {
    data_ = static_cast<std::byte*>(take_disk_block(rounded));
    return;
  }
  take_memory(rounded);
  try {
    data_ = static_cast<std::byte*>(take_block(rounded));
  } catch (const std::bad_alloc&) {
    give_memory_back(rounded);
    fail(ErrorCode::kOutOfMemory, "a tensor of ", bytes, " bytes does not fit into ", memory_in_words());
  }
  std::memset(data_ + bytes, 0, rounded - bytes);
}

Storage::~Storage() {
  if (is_on_disk(data_)) {
    give_disk_block(data_);
    return;
  }
  give_block(data_, size_ + 64);
  give_memory_back(size_ + 64);
}

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape sizes, Shape strides, int64_t offset)
    : storage_(std::move(storage)), dtype_(dtype), sizes_(std::move(sizes)), strides_(std::move(strides)),
      offset_(offset) {
  QDQ_CHECK(storage_ != nullptr, kInternal, "a tensor was made without a storage");
  QDQ_CHECK(sizes_.size() == strides_.size(), kInvalidArgument, "a tensor has ", sizes_.size(), " sizes but ",
            strides_.size(), " strides");
  numel_ = numel_of(sizes_);
  const int64_t capacity = static_cast<int64_t>(storage_->size() / size_of(dtype_));
  if (numel_ == 0) offset_ = std::min(offset_, capacity);  // nothing is read, wherever a view of nothing begins
  int64_t last = offset_;
  bool inside = offset_ >= 0 && offset_ <= capacity;
  for (size_t i = 0; inside && i < sizes_.size() && numel_ > 0; ++i) {
    inside = strides_[i] >= 0 && (sizes_[i] == 1 || strides_[i] <= capacity / (sizes_[i] - 1));
    if (inside && sizes_[i] > 1) last += (sizes_[i] - 1) * strides_[i];
    inside = inside && last <= capacity;
  }
  QDQ_CHECK(inside && (numel_ == 0 || last < capacity), kInvalidArgument, "a tensor of shape ", to_string(sizes_),
            ", strides ", to_string(strides_), " and offset ", offset_, " reaches outside its storage of ", capacity,
            " elements");
}

namespace {
// The integer that a double stands for, or the nearest one of 64 bits, whose lower bits narrow types have.
template <class T> T integer_near(double value) {
  if constexpr (std::is_same_v<T, uint64_t>)
    if (value >= 0x1p63) return value < 0x1p64 ? static_cast<T>(value) : std::numeric_limits<T>::max();
  if (!(value > -0x1p63)) return static_cast<T>(value == value ? std::numeric_limits<int64_t>::min() : 0);
  return static_cast<T>(value < 0x1p63 ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::max());
}

// For those who write every element.
Tensor uninitialized(const Shape& sizes, DType dtype) {
  const auto count = static_cast<uint64_t>(numel_of(sizes));
  // Where addresses are short the product must not wrap.
  QDQ_CHECK(count <= std::numeric_limits<size_t>::max() / size_of(dtype), kOutOfMemory, "a tensor of shape ",
            to_string(sizes), " has ", count, " elements of ", size_of(dtype), " bytes, which do not fit into memory");
  return Tensor(std::make_shared<Storage>(static_cast<size_t>(count) * size_of(dtype)), dtype, sizes,
                contiguous_strides(sizes), 0);
}
}  // namespace

Tensor Tensor::empty(const Shape& sizes, DType dtype) {
  Tensor out = uninitialized(sizes, dtype);
  std::memset(out.raw(), 0, out.nbytes());
  return out;
}

Tensor Tensor::full(const Shape& sizes, DType dtype, double value) {
  Tensor out = uninitialized(sizes, dtype);
  if (is_float8(dtype)) {
    std::memset(out.raw(), float8_bits(dtype, static_cast<float>(value)), out.nbytes());
    return out;
  }
  if (is_complex(dtype)) {
    std::fill_n(out.data<Complex64>(), out.numel(), Complex64{static_cast<float>(value), 0});
    return out;
  }
  visit_dtype(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    T element;
    if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) element = T(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, bool>) element = value != 0;
    else if constexpr (std::is_integral_v<T>) element = integer_near<T>(value);
    else element = static_cast<T>(value);
    std::fill_n(out.data<T>(), out.numel(), element);
  });
  return out;
}

size_t Tensor::index_of(int64_t axis) const {
  QDQ_CHECK(!sizes_.empty(), kInvalidArgument, "axis ", axis, " was asked of a tensor without axes");
  return static_cast<size_t>(wrap_axis(axis, dim()));
}

void Tensor::refuse_to_be_read_as(DType dtype) const {
  fail(ErrorCode::kInternal, "a ", defined() ? to_string(dtype_) : "undefined", " tensor was read as ",
       to_string(dtype));
}

bool Tensor::is_contiguous() const {
  if (numel_ == 0) return true;
  int64_t stride = 1;
  for (size_t i = sizes_.size(); i-- > 0;) {
    if (sizes_[i] == 1) continue;
    if (strides_[i] != stride) return false;
    stride *= sizes_[i];
  }
  return true;
}

double Tensor::item() const {
  QDQ_CHECK(defined() && numel_ == 1, kInvalidArgument, "one number was wanted, found a tensor of shape ",
            to_string(sizes_));
  if (is_float8(dtype_)) return to(DType::kF32).item();
  return visit_dtype(dtype_, [&](auto type) { return static_cast<double>(*data<typename decltype(type)::type>()); });
}

int64_t Tensor::item_int() const {
  QDQ_CHECK(defined() && numel_ == 1, kInvalidArgument, "one number was wanted, found a tensor of shape ",
            to_string(sizes_));
  if (is_float8(dtype_)) return to(DType::kF32).item_int();
  QDQ_CHECK(dtype_ != DType::kU64 || *data<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
            kInvalidArgument, "the uint64 ", *data<uint64_t>(), " is more than an int64 holds");
  if (is_floating(dtype_)) {
    const double value = item();
    QDQ_CHECK(value >= -0x1p63 && value < 0x1p63, kInvalidArgument, "an integer was wanted, found the ",
              qdq::to_string(dtype_), " ", value);
  }
  return visit_dtype(dtype_, [&](auto type) { return static_cast<int64_t>(*data<typename decltype(type)::type>()); });
}

Tensor Tensor::as_strided(Shape sizes, Shape strides, int64_t offset) const {
  return Tensor(storage_, dtype_, std::move(sizes), std::move(strides), offset);
}

Tensor Tensor::permute(const std::vector<int64_t>& axes) const {
  QDQ_CHECK(axes.size() == sizes_.size(), kInvalidArgument, "permute got ", axes.size(), " axes for a tensor of shape ",
            to_string(sizes_));
  Shape sizes, strides;
  std::vector<bool> seen(axes.size(), false);
  for (int64_t axis : axes) {
    const size_t a = static_cast<size_t>(wrap_axis(axis, dim()));
    QDQ_CHECK(!seen[a], kInvalidArgument, "permute got axis ", axis, " twice");
    seen[a] = true;
    sizes.push_back(sizes_[a]);
    strides.push_back(strides_[a]);
  }
  return as_strided(std::move(sizes), std::move(strides), offset_);
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  a = wrap_axis(a, dim());
  b = wrap_axis(b, dim());
  if (dim() == 0) return *this;
  Shape sizes = sizes_, strides = strides_;
  std::swap(sizes[static_cast<size_t>(a)], sizes[static_cast<size_t>(b)]);
  std::swap(strides[static_cast<size_t>(a)], strides[static_cast<size_t>(b)]);
  return as_strided(std::move(sizes), std::move(strides), offset_);
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t end, int64_t step) const {
  const size_t a = static_cast<size_t>(wrap_axis(axis, dim()));
  QDQ_CHECK(!sizes_.empty() && 0 <= start && start <= end && end <= sizes_[a] && step >= 1, kInvalidArgument, "slice ",
            start, ":", end, ":", step, " of axis ", axis, " does not fit a tensor of shape ", to_string(sizes_));
  Shape sizes = sizes_, strides = strides_;
  sizes[a] = (end - start + step - 1) / step;
  const int64_t offset = sizes[a] == 0 ? offset_ : offset_ + start * strides_[a];
  strides[a] *= step;
  return as_strided(std::move(sizes), std::move(strides), offset);
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  const size_t a = static_cast<size_t>(wrap_axis(axis, dim()));
  QDQ_CHECK(!sizes_.empty() && index >= -sizes_[a] && index < sizes_[a], kInvalidArgument, "index ", index,
            " is out of range in axis ", axis, " of a tensor of shape ", to_string(sizes_));
  if (index < 0) index += sizes_[a];
  Shape sizes = sizes_, strides = strides_;
  const int64_t offset = offset_ + index * strides_[a];
  sizes.erase(sizes.begin() + static_cast<int64_t>(a));
  strides.erase(strides.begin() + static_cast<int64_t>(a));
  return as_strided(std::move(sizes), std::move(strides), offset);
}

Tensor Tensor::unsqueeze(int64_t axis) const {
  const int64_t a = wrap_axis(axis, dim() + 1);
  Shape sizes = sizes_, strides = strides_;
  const int64_t stride = a < dim() ? sizes_[static_cast<size_t>(a)] * strides_[static_cast<size_t>(a)] : 1;
  sizes.insert(sizes.begin() + a, 1);
  strides.insert(strides.begin() + a, stride);
  return as_strided(std::move(sizes), std::move(strides), offset_);
}

Tensor Tensor::expand(const Shape& sizes) const {
  QDQ_CHECK(sizes.size() >= sizes_.size(), kInvalidArgument, "a tensor of shape ", to_string(sizes_),
            " does not expand to ", to_string(sizes));
  const size_t added = sizes.size() - sizes_.size();
  Shape strides(sizes.size(), 0);
  for (size_t i = added; i < sizes.size(); ++i) {
    const int64_t own = sizes_[i - added];
    QDQ_CHECK(own == sizes[i] || own == 1, kInvalidArgument, "a tensor of shape ", to_string(sizes_),
              " does not expand to ", to_string(sizes));
    strides[i] = own == 1 && sizes[i] != 1 ? 0 : strides_[i - added];
  }
  return as_strided(sizes, std::move(strides), offset_);
}

namespace {
// Strides under which `tensor` reads as `sizes` without a copy (ATen's computeStride); false if there are none.
bool view_strides(const Tensor& tensor, const Shape& sizes, Shape& strides) {
  strides.assign(sizes.size(), 1);
  if (tensor.numel() == 0) {
    strides = contiguous_strides(sizes);
    return true;
  }
  int64_t to = static_cast<int64_t>(sizes.size()) - 1;
  const Shape& old_sizes = tensor.sizes();
  const Shape& old_strides = tensor.strides();
  int64_t chunk_stride = old_sizes.empty() ? 1 : old_strides.back();
  int64_t chunk = 1, placed = 1;
  for (int64_t from = tensor.dim() - 1; from >= 0; --from) {
    const size_t f = static_cast<size_t>(from);
    chunk *= old_sizes[f];
    if (from == 0 || (old_sizes[f - 1] != 1 && old_strides[f - 1] != chunk * chunk_stride)) {
      while (to >= 0 && (placed < chunk || sizes[static_cast<size_t>(to)] == 1)) {
        strides[static_cast<size_t>(to)] = placed * chunk_stride;
        placed *= sizes[static_cast<size_t>(to)];
        --to;
      }
      if (placed != chunk) return false;
      if (from > 0) {
        chunk_stride = old_strides[f - 1];
        chunk = placed = 1;
      }
    }
  }
  return to < 0 || old_sizes.empty();
}
}  // namespace

Tensor Tensor::reshape(const Shape& sizes) const {
  QDQ_CHECK(numel_of(sizes) == numel_, kInvalidArgument, "a tensor of shape ", to_string(sizes_), " has ", numel_,
            " elements and does not take the shape ", to_string(sizes));
  Shape strides;
  if (view_strides(*this, sizes, strides)) return as_strided(sizes, std::move(strides), offset_);
  const Tensor copy = clone();
  return copy.as_strided(sizes, contiguous_strides(sizes), 0);
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

namespace {
// Of a copy in a scratch file, and what it was made of, nothing stays in memory.
void release_both(const Tensor& source, const Tensor& copy) {
  if (!is_on_disk(copy.storage()->data())) return;
  for (const Tensor& tensor : {source, copy}) release_pages({tensor.storage()->data(), tensor.storage()->size()});
}
}  // namespace

Tensor Tensor::clone() const {
  Tensor out = uninitialized(sizes_, dtype_);
  if (is_contiguous()) {
    if (numel_ > 0) std::memcpy(out.raw(), raw(), nbytes());
  } else {
    out.copy_from(*this);
  }
  release_both(*this, out);
  return out;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out = uninitialized(sizes_, dtype);
  out.copy_from(*this);
  release_both(*this, out);
  return out;
}

RowWalk::RowWalk(const Shape& shape, std::span<const int64_t* const> strides) : shape_(shape), strides_(strides) {
  empty_ = std::find(shape.begin(), shape.end(), 0) != shape.end();
  size_t outer = shape.size();
  for (bool begun = false; outer > 0; --outer) {
    const size_t axis = outer - 1;
    if (shape[axis] == 1) continue;
    bool goes_on = true;
    for (size_t n = 0; n < strides.size(); ++n) {
      if (!begun) step_[n] = strides[n][axis];
      goes_on = goes_on && strides[n][axis] == step_[n] * extent_;
    }
    if (begun && !goes_on) break;
    begun = true;
    extent_ *= shape[axis];
  }
  index_.assign(outer, 0);
}

bool RowWalk::next() {
  if (!begun_) {
    begun_ = true;
    return !empty_;
  }
  for (size_t axis = index_.size(); axis-- > 0;) {
    const bool wraps = ++index_[axis] == shape_[axis];
    if (wraps) index_[axis] = 0;
    for (size_t n = 0; n < strides_.size(); ++n) offset_[n] += strides_[n][axis] * (wraps ? 1 - shape_[axis] : 1);
    if (!wraps) return true;
  }
  return false;
}

namespace {

// Every element goes through the widest type of its kind, which holds it exactly: all dtypes in and all out rather than
// all pairs. An uint64 is the int64 with its bits.
template <class Wide, class From> Wide widen(From value) {
  if constexpr (std::is_class_v<From>) return static_cast<float>(value);
  else return static_cast<Wide>(value);
}
template <class To, class Wide> To narrow(Wide value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_class_v<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<Wide>) {
    // Outside of the integers the C++ conversion is undefined; x86's gives the smallest one, of int32 for types that
    // are narrower than int64, of int64 for uint32, and so do we.
    constexpr bool is_narrow = sizeof(To) < 8 && !std::is_same_v<To, uint32_t>;
    constexpr double low = is_narrow ? -2147483649.0 : -9223372036854775808.0;
    constexpr double high = is_narrow ? 2147483648.0 : 9223372036854775808.0;
    const auto number = static_cast<double>(value);
    // For uint64 it takes 2^63 off first, beyond which all the bits are 0.
    if constexpr (std::is_same_v<To, uint64_t>)
      if (number >= high) return number < 2 * high ? static_cast<To>(number) : 0;
    if (!(number > low && number < high))
      return static_cast<To>(is_narrow ? int64_t{std::numeric_limits<int32_t>::min()}
                                       : std::numeric_limits<int64_t>::min());
    return static_cast<To>(static_cast<int64_t>(number));
  } else {
    return static_cast<To>(value);
  }
}

// Elements at `step` elements from each other <-> consecutive numbers.
template <class Wide> void read_row(DType dtype, const std::byte* from, int64_t step, Wide* out, int64_t n) {
  if (is_float8(dtype)) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<Wide>(float8_value(dtype, static_cast<uint8_t>(from[i * step])));
    return;
  }
  visit_dtype(dtype, [&](auto type) {
    using From = typename decltype(type)::type;
    const From* in = reinterpret_cast<const From*>(from);
    for (int64_t i = 0; i < n; ++i) out[i] = widen<Wide>(in[i * step]);
  });
}
template <class Wide> void write_row(DType dtype, const Wide* in, std::byte* to, int64_t step, int64_t n) {
  if (is_float8(dtype)) {
    for (int64_t i = 0; i < n; ++i)
      to[i * step] = static_cast<std::byte>(float8_bits(dtype, static_cast<float>(in[i])));
    return;
  }
  visit_dtype(dtype, [&](auto type) {
    using To = typename decltype(type)::type;
    To* out = reinterpret_cast<To*>(to);
    for (int64_t i = 0; i < n; ++i) out[i * step] = narrow<To>(in[i]);
  });
}
template <class Wide>
void convert_row(DType from_dtype, const std::byte* from, int64_t from_step, DType to_dtype, std::byte* to,
                 int64_t to_step, int64_t n) {
  constexpr int64_t kBlock = 256;
  Wide wide[kBlock];
  const auto from_bytes = static_cast<int64_t>(size_of(from_dtype)) * from_step,
             to_bytes = static_cast<int64_t>(size_of(to_dtype)) * to_step;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    read_row(from_dtype, from + i * from_bytes, from_step, wide, count);
    write_row(to_dtype, wide, to + i * to_bytes, to_step, count);
  }
}

// An uint64 is rounded once: to float, whose halves and bytes are those of PyTorch, or to double.
void uint64_to_floats(const std::byte* from, int64_t from_step, DType to_dtype, std::byte* to, int64_t to_step,
                      int64_t n) {
  const auto* in = reinterpret_cast<const uint64_t*>(from);
  const auto to_bytes = static_cast<int64_t>(size_of(to_dtype)) * to_step;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t value = in[i * from_step];
    const double number = to_dtype == DType::kF64 ? static_cast<double>(value) : static_cast<float>(value);
    write_row(to_dtype, &number, to + i * to_bytes, to_step, 1);
  }
}

template <class Element>
void copy_elements(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t n) {
  const Element* in = reinterpret_cast<const Element*>(from);
  Element* out = reinterpret_cast<Element*>(to);
  for (int64_t i = 0; i < n; ++i) out[i * to_step] = in[i * from_step];
}
void copy_row(size_t size, const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t n) {
  if (from_step == 1 && to_step == 1) {
    std::memmove(to, from, static_cast<size_t>(n) * size);
    return;
  }
  switch (size) {
    case 1: return copy_elements<uint8_t>(from, from_step, to, to_step, n);
    case 2: return copy_elements<uint16_t>(from, from_step, to, to_step, n);
    case 4: return copy_elements<uint32_t>(from, from_step, to, to_step, n);
    default: return copy_elements<uint64_t>(from, from_step, to, to_step, n);
  }
}

}  // namespace

namespace {
// Whether elements of these sizes and strides lie behind each other in some order of the axes, so that no two share a
// place.
bool are_apart(const Shape& sizes, const Shape& strides) {
  int64_t count = 1, remaining = 0;
  for (const int64_t size : sizes) remaining += size != 1;
  for (bool found = true; remaining > 0 && found; remaining -= found) {
    found = false;
    for (size_t i = 0; i < sizes.size() && !found; ++i)
      if (sizes[i] > 1 && strides[i] == count) {
        count *= sizes[i];
        found = true;
      }
  }
  return remaining == 0;
}
}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  if (is_complex(dtype_) && !is_complex(source.dtype())) {
    real_part(*this).copy_from(source);
    return imag_part(*this).copy_from(Tensor::scalar(0.0f));
  }
  QDQ_CHECK(is_complex(dtype_) || !is_complex(source.dtype()), kUnsupported, "a complex64 tensor is converted to ",
            to_string(dtype_), ", which would lose its imaginary parts; take real, imag or abs of it");
  const Tensor from = source.expand(sizes_);
  const bool flat = is_contiguous() && from.is_contiguous();
  if (!flat && dtype_ == from.dtype() && storage_ != from.storage() && are_apart(sizes_, strides_))
    return copy_strided(sizes_, size_of(dtype_), from.raw(), from.strides(), raw(), strides_);
  const Shape one_row{numel_}, unit{1};
  const std::array steps{(flat ? unit : strides_).data(), (flat ? unit : from.strides()).data()};
  RowWalk row(flat ? one_row : sizes_, steps);
  const auto in_bytes = static_cast<int64_t>(size_of(from.dtype())), out_bytes = static_cast<int64_t>(size_of(dtype_));
  while (row.next()) {
    std::byte* out = raw() + row.offset(0) * out_bytes;
    const std::byte* in = from.raw() + row.offset(1) * in_bytes;
    if (dtype_ == from.dtype()) copy_row(size_of(dtype_), in, row.step(1), out, row.step(0), row.extent());
    else if (is_floating(from.dtype()))
      convert_row<double>(from.dtype(), in, row.step(1), dtype_, out, row.step(0), row.extent());
    else if (from.dtype() == DType::kU64 && is_floating(dtype_))
      uint64_to_floats(in, row.step(1), dtype_, out, row.step(0), row.extent());
    else convert_row<int64_t>(from.dtype(), in, row.step(1), dtype_, out, row.step(0), row.extent());
  }
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.raw(), y.raw(), x.nbytes()) == 0;
}

}  // namespace qdq
