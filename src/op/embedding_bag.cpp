// embedding_bag in the forms that exported programs have.
#include "op/elements.h"
#include "op/families.h"
#include "op/infer.h"
namespace qdq {

namespace {

// embedding_bag: sums (0), means (1) or maxima (2) of the rows of the weight that each bag lists. `indices` [n] are
// bags one behind the other, `offsets` their beginnings, and their end with include_last_offset. Results beside the
// first serve PyTorch's backward pass: the bag of every index, the sizes of the bags, and which row was the largest.
struct BagForm {
  int64_t mode, padding;
  bool includes_last;
};
template <class T> BagForm read_bags(const Call<T>& call) {
  BagForm form{call.integer(4), -1, call.boolean(7)};
  if (call.size() > 8 && !call.is_none(8)) form.padding = call.integer(8);
  QDQ_CHECK(form.mode >= 0 && form.mode <= 2, kInvalidArgument, call.op().target, " got the mode ", form.mode);
  QDQ_CHECK(form.mode == 0 || call.is_none(6), kInvalidArgument, call.op().target,
            " takes weights of samples for sums alone");
  return form;
}
// Sums have neither sizes of bags nor largest rows, and no bags of indices unless an index is left out.
bool lists_bags(const BagForm& form) { return form.mode != 0 || form.padding >= 0; }
MetaValue infer_embedding_bag(const Call<TensorMeta>& call) {
  const TensorMeta &weight = call.tensor(0), &indices = call.tensor(1), &offsets = call.tensor(2);
  const BagForm form = read_bags(call);
  check_index_dtype(call.op(), indices.dtype);
  check_index_dtype(call.op(), offsets.dtype);
  QDQ_CHECK(
      is_floating(weight.dtype) && weight.sizes.size() == 2 && indices.sizes.size() == 1 && offsets.sizes.size() == 1,
      kInvalidArgument, call.op().target, " needs a float matrix and two lists, found ", to_string(weight.sizes), ", ",
      to_string(indices.sizes), " and ", to_string(offsets.sizes));
  if (const TensorMeta* scales = call.optional_tensor(6))
    QDQ_CHECK(
        scales->dtype == weight.dtype && scales->sizes.size() == 1 && may_be_equal(scales->sizes[0], indices.sizes[0]),
        kInvalidArgument, call.op().target, " needs a weight of each sample, found ", to_string(scales->dtype), " ",
        to_string(scales->sizes));
  const SymInt bags = form.includes_last ? offsets.sizes[0] - SymInt(1) : offsets.sizes[0];
  QDQ_CHECK(!bags.is_constant() || *bags.constant() >= 0, kInvalidArgument, call.op().target, " got no offset");
  // The forms for inference alone count the last offset among the bags here.
  const bool counts_last = form.includes_last && form.mode == 0 && call.op().schema->name != "_embedding_bag";
  const SymInt counted = counts_last ? offsets.sizes[0] : bags;
  SymShape largest{counted};
  if (form.mode == 2) largest.push_back(weight.sizes[1]);
  return MetaValue::List{tensor_meta(weight.dtype, {bags, weight.sizes[1]}),
                         tensor_meta(indices.dtype, {lists_bags(form) ? indices.sizes[0] : SymInt(0)}),
                         tensor_meta(indices.dtype, {counted}), tensor_meta(indices.dtype, largest)};
}
Value eval_embedding_bag(const Call<Tensor>& call) {
  const MetaValue metas = infer_call(call);
  const BagForm form = read_bags(call);
  std::vector<Tensor> results;
  for (const MetaValue& one : *metas.get_if<MetaValue::List>()) {
    const TensorMeta& meta = *one.get_if<TensorMeta>();
    results.push_back(Tensor::empty(constant_shape(meta.sizes), results.empty() ? DType::kF64 : DType::kS64));
  }
  const Tensor &weight = call.tensor(0), indices = call.tensor(1).to(DType::kS64).contiguous(),
               offsets = call.tensor(2).to(DType::kS64).contiguous();
  for (const int64_t index : indices.span<int64_t>())
    QDQ_CHECK(index >= 0 && index < weight.size(0), kInvalidArgument, call.op().target, " got index ", index, " for ",
              weight.size(0), " rows");
  // Of a large table only the rows that are read are converted.
  const Value read = run_op<Tensor>("index_select", {weight, 0, indices});
  const Tensor rows = read.get_if<Tensor>()->to(DType::kF64).contiguous();
  const Tensor scales = call.is_none(6) ? Tensor() : call.tensor(6).to(DType::kF64).contiguous();
  const int64_t n = indices.numel(), bags = results[0].size(0), width = weight.size(1);
  for (int64_t bag = 0; bag < bags; ++bag) {
    const int64_t begin = offsets.data<int64_t>()[bag],
                  end = bag + 1 < offsets.numel() ? offsets.data<int64_t>()[bag + 1] : n;
    QDQ_CHECK(begin >= 0 && begin <= end && end <= n && (bag > 0 || begin == 0), kInvalidArgument, call.op().target,
              " got a bag from ", begin, " to ", end, " of ", n, " indices");
    double* sum = results[0].data<double>() + bag * width;
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = indices.data<int64_t>()[i];
      if (lists_bags(form)) results[1].data<int64_t>()[i] = bag;
      if (index == form.padding) continue;
      const double* row = rows.data<double>() + i * width;
      const double scale = scales.defined() ? scales.data<double>()[i] : 1;
      for (int64_t c = 0; c < width; ++c) {
        if (form.mode != 2) {
          sum[c] += scale * row[c];
        } else if (count == 0 || row[c] > sum[c]) {
          sum[c] = row[c];
          results[3].data<int64_t>()[bag * width + c] = index;
        }
      }
      ++count;
    }
    for (int64_t c = 0; form.mode == 1 && count > 0 && c < width; ++c) sum[c] /= static_cast<double>(count);
    if (form.mode != 0) results[2].data<int64_t>()[bag] = count;
    if (form.mode == 1) results[3].data<int64_t>()[bag] = count;
  }
  Value::List out{results[0].to(call.tensor(0).dtype())};
  for (size_t i = 1; i < results.size(); ++i) out.push_back(results[i].to(call.tensor(1).dtype()));
  return out;
}

}  // namespace

void add_bag_ops(std::vector<OpDef>& ops) {
  const std::string bags =
      "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
      "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False";
  const std::string four = ") -> (Tensor, Tensor, Tensor, Tensor)";
  for (const std::string& line :
       {"aten::embedding_bag" + bags + four, "aten::_embedding_bag" + bags + ", int padding_idx=-1" + four,
        "aten::_embedding_bag_forward_only" + bags + ", int padding_idx=-1" + four,
        "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int "
        "mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx" +
            four})
    ops.push_back(define(line, infer_embedding_bag, eval_embedding_bag, Roles{.weight = 0}));
}

}  // namespace qdq
