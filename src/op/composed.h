// Defines operators that consist of others, once for shapes and tensors.
#pragma once

#include "op/infer.h"

namespace qdq {

template <class T> using ValueList = typename BasicValue<T>::List;

inline SymShape shape_of(const Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }
inline SymShape shape_of(const TensorMeta& meta) { return meta.sizes; }
template <class T> const T& tensor_of(const BasicValue<T>& value) {
  const T* tensor = value.template get_if<T>();
  QDQ_CHECK(tensor != nullptr, kInvalidArgument, "a tensor is wanted");
  return *tensor;
}
template <class T> SymShape shape_of(const BasicValue<T>& value) { return shape_of(tensor_of(value)); }
template <class T> BasicValue<T> list_of(const SymShape& sizes) { return ValueList<T>(sizes.begin(), sizes.end()); }
template <class T> BasicValue<T> reshaped(const BasicValue<T>& x, const SymShape& sizes) {
  return run_op<T>("reshape", {x, list_of<T>(sizes)});
}
template <class T> BasicValue<T> axis_in_front(const BasicValue<T>& x, int64_t axis) {
  return run_op<T>("unsqueeze", {x, axis});
}
template <class T> BasicValue<T> item(const BasicValue<T>& list, size_t i) {
  return list.template get_if<ValueList<T>>()->at(i);
}

}  // namespace qdq
