#include "op/custom.h"

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "op/families.h"
#include "op/infer.h"

namespace qdq {
namespace {

struct CustomDef : OpDef {
  CustomOperator custom;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const OpDef>> by_target;
  OpResolver resolve = nullptr;
};

// Entries stay for good: graphs and sessions point to them.
Registry& registry() {
  static Registry all;
  return all;
}

const CustomOperator& custom_of(const OpDef& op) { return static_cast<const CustomDef&>(op).custom; }

MetaValue infer_custom(const Call<TensorMeta>& call) { return custom_of(call.op()).infer(call); }

// Whoever reads the result counts on what was inferred.
void check_result(const OpDef& op, const Value& value, const MetaValue& wanted) {
  if (const auto* metas = wanted.get_if<MetaValue::List>()) {
    const auto* values = value.get_if<Value::List>();
    QDQ_CHECK(values && values->size() == metas->size(), kInvalidArgument, op.target, " gave ",
              values ? values->size() : 1, " results, its shape function says ", metas->size());
    for (size_t i = 0; i < metas->size(); ++i) check_result(op, (*values)[i], (*metas)[i]);
    return;
  }
  const TensorMeta* meta = wanted.get_if<TensorMeta>();
  if (meta == nullptr) return;
  const Tensor* tensor = value.get_if<Tensor>();
  QDQ_CHECK(tensor && tensor->defined(), kInvalidArgument, op.target, " gave no tensor, its shape function says ",
            to_string(meta->dtype), to_string(meta->sizes));
  bool fits = tensor->dtype() == meta->dtype && tensor->sizes().size() == meta->sizes.size();
  for (size_t i = 0; fits && i < meta->sizes.size(); ++i)
    fits = may_be_equal(meta->sizes[i], SymInt(tensor->sizes()[i]));
  QDQ_CHECK(fits, kInvalidArgument, op.target, " gave ", to_string(tensor->dtype()), to_string(tensor->sizes()),
            ", its shape function says ", to_string(meta->dtype), to_string(meta->sizes));
}

Value eval_custom(const Call<Tensor>& call) {
  Value out = custom_of(call.op()).evaluate(call);
  check_result(call.op(), out, infer_call(call));
  return out;
}

}  // namespace

const OpDef* find_custom_op(std::string_view target) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_target.find(std::string(target));
  if (found != all.by_target.end()) return found->second.get();
  if (all.resolve == nullptr) return nullptr;
  std::optional<OpDef> made = all.resolve(target);
  if (!made) return nullptr;
  return all.by_target.emplace(std::string(target), std::make_shared<const OpDef>(std::move(*made)))
      .first->second.get();
}

void set_op_resolver(OpResolver resolve) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.resolve = resolve;
}

void register_operator(CustomOperator op) {
  QDQ_CHECK(op.infer && op.evaluate, kInvalidArgument, "the operator ", op.schema,
            " lacks its shape function or its evaluation");
  auto def = std::make_unique<CustomDef>();
  try {
    static_cast<OpDef&>(*def) = define(op.schema, infer_custom, eval_custom);
    (void)*def->schema;  // parsed now, not when a model calls it
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidArgument, "the schema '", op.schema, "' cannot be read, wanted one like ",
         "'my_domain::blur(Tensor x, float sigma=1.0) -> Tensor': ", error.message);
  }
  QDQ_CHECK(find_op(def->target) == nullptr, kInvalidArgument, "there is an operator ", def->target, " already");
  def->takes_strings = def->takes_complex = true;  // whoever brings an operator knows
  def->custom = std::move(op);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::string target = def->target;
  all.by_target.emplace(std::move(target), std::move(def));
}

}  // namespace qdq
