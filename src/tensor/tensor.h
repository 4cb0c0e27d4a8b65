// Tensors: views of shared bytes by dtype, sizes, strides and offset, as in PyTorch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace qdq {

using Shape = std::vector<int64_t>;

// "[2, 3, 224, 224]"
std::string to_string(const Shape& shape);
// The product of the sizes. Throws Error{kInvalidArgument} if a size is negative or the product overflows.
int64_t numel_of(const Shape& shape);
// C-order strides in elements.
Shape contiguous_strides(const Shape& shape);
// An axis counted from either end, as an index from the front. Throws Error{kInvalidArgument} if it is out of range.
int64_t wrap_axis(int64_t axis, int64_t rank);
// The shape that NumPy and PyTorch broadcast both to. Throws Error{kInvalidArgument} if they do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b);

// The bytes behind tensors, 64-byte aligned. Code that makes one without Tensor::empty must write all bytes.
class Storage {
 public:
  // Throws Error{kOutOfMemory} if there is not enough memory.
  explicit Storage(size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A strided view of a storage. Copying a Tensor shares the bytes; clone() copies them. A default-constructed Tensor is
// undefined (defined() is false) and stands for PyTorch's None.
class Tensor {
 public:
  Tensor() = default;
  // A view. Throws Error{kInvalidArgument} if an element would lie outside the storage.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape sizes, Shape strides, int64_t offset);

  static Tensor empty(const Shape& sizes, DType dtype);  // the bytes are zero
  static Tensor full(const Shape& sizes, DType dtype, double value);
  template <class T> static Tensor of(const Shape& sizes, std::span<const T> values);
  template <class T> static Tensor of(const Shape& sizes, std::initializer_list<T> values) {
    return of<T>(sizes, std::span<const T>(values.begin(), values.size()));
  }
  template <class T> static Tensor scalar(T value) { return of<T>({}, {value}); }

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& sizes() const { return sizes_; }
  const Shape& strides() const { return strides_; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t size(int64_t axis) const { return sizes_[index_of(axis)]; }
  int64_t stride(int64_t axis) const { return strides_[index_of(axis)]; }
  int64_t numel() const { return numel_; }
  size_t nbytes() const { return static_cast<size_t>(numel_) * size_of(dtype_); }
  int64_t storage_offset() const { return offset_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool is_contiguous() const;

  // The first element. Tensors are views of mutable bytes, so const does not reach through. Throws Error{kInternal} if
  // T is not the dtype.
  template <class T> T* data() const {
    if (!defined() || DTypeOf<T>::value != dtype_) refuse_to_be_read_as(DTypeOf<T>::value);
    return reinterpret_cast<T*>(raw());
  }
  std::byte* raw() const { return storage_->data() + static_cast<size_t>(offset_) * size_of(dtype_); }
  // The elements of a contiguous tensor.
  template <class T> std::span<T> span() const {
    QDQ_CHECK(is_contiguous(), kInternal, "a strided tensor was read as a contiguous one");
    return {data<T>(), static_cast<size_t>(numel_)};
  }

  // The only element as a double (integers beyond 2^53 are rounded) or as an integer (floats lose their fraction).
  // Throws Error{kInvalidArgument} if there is not exactly one, or if int64 does not hold what is wanted as an integer.
  double item() const;
  int64_t item_int() const;

  // Same bytes, other view.
  Tensor as_strided(Shape sizes, Shape strides, int64_t offset) const;
  Tensor permute(const std::vector<int64_t>& axes) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor slice(int64_t axis, int64_t start, int64_t end, int64_t step = 1) const;  // 0 <= start <= end <= size
  Tensor select(int64_t axis, int64_t index) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor expand(const Shape& sizes) const;  // broadcasts with zero strides
  // The same elements in C order under another shape: a view where strides allow it, else a copy.
  Tensor reshape(const Shape& sizes) const;

  Tensor contiguous() const;                   // this, or a C-order copy
  Tensor clone() const;                        // a C-order copy with bytes of its own
  Tensor to(DType dtype) const;                // this, or a C-order copy; floats to integers truncate, as in PyTorch
  void copy_from(const Tensor& source) const;  // elementwise, broadcasting, converting to this dtype

 private:
  size_t index_of(int64_t axis) const;
  [[noreturn]] void refuse_to_be_read_as(DType dtype) const;

  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::kF32;
  Shape sizes_;
  Shape strides_;
  int64_t offset_ = 0;
  int64_t numel_ = 0;
};

// Whether two tensors have equal dtype, shape and bytes (so NaN equals the same NaN).
bool bitwise_equal(const Tensor& a, const Tensor& b);

template <class T> Tensor Tensor::of(const Shape& sizes, std::span<const T> values) {
  Tensor out = empty(sizes, DTypeOf<T>::value);
  QDQ_CHECK(static_cast<int64_t>(values.size()) == out.numel(), kInvalidArgument, values.size(),
            " values were given for a tensor of shape ", to_string(sizes));
  std::copy(values.begin(), values.end(), out.data<T>());
  return out;
}

// Walks the rows of a shape in C order, for up to 4 operands. A row is the last axis and those before it along which
// all operands go on evenly.
class RowWalk {
 public:
  static constexpr size_t kMaxOperands = 4;
  // Strides of each operand in elements; both must outlive the walk.
  RowWalk(const Shape& shape, std::span<const int64_t* const> strides);
  // Goes to the first row, then to the next; false when there is none.
  bool next();
  int64_t extent() const { return extent_; }                         // elements of a row
  int64_t step(size_t operand) const { return step_[operand]; }      // from one element of a row to the next
  int64_t offset(size_t operand) const { return offset_[operand]; }  // of the row, from the operand's first element

 private:
  const Shape& shape_;
  std::span<const int64_t* const> strides_;
  std::vector<int64_t> index_;
  std::array<int64_t, kMaxOperands> offset_{}, step_{};
  int64_t extent_ = 1;
  bool begun_ = false, empty_ = false;
};

// Visits elements of up to N operands in C order; offsets in elements, relative to each operand's first element.
template <size_t N, class Body>
void for_each_index(const Shape& shape, const std::array<const int64_t*, N>& strides, Body&& body) {
  static_assert(N <= RowWalk::kMaxOperands);
  RowWalk row(shape, strides);
  while (row.next()) {
    std::array<int64_t, N> at;
    for (size_t n = 0; n < N; ++n) at[n] = row.offset(n);
    for (int64_t i = 0; i < row.extent(); ++i) {
      body(at);
      for (size_t n = 0; n < N; ++n) at[n] += row.step(n);
    }
  }
}

}  // namespace qdq
