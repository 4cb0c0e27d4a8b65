// Throws wrong arguments at every operator: calls of the golden data with arguments exchanged, reshaped, retyped, left
// out. Whatever comes, an operator either refuses it with a clear error or gives exactly the shapes and dtypes that it
// infers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "contract/op_golden.h"
#include "unit/base/limited_memory.h"

namespace qdq {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }

  // A golden tensor, seen through another shape, dtype or stride now and then.
  Tensor tensor() {
    Tensor out = golden().tensor(below(golden().json()["tensors"].size()));
    switch (below(8)) {
      case 0: {
        const DType dtype = kTypes[below(std::size(kTypes))];
        return is_complex(out.dtype()) ? out : out.to(dtype);
      }
      case 1: return out.dim() > 0 ? out.slice(static_cast<int64_t>(below(out.sizes().size())), 0, 0) : out;
      case 2: return out.unsqueeze(0);
      case 3: return out.dim() > 1 ? out.transpose(0, -1) : out;
      case 4: return out.numel() > 0 ? out.reshape({out.numel()}).select(0, 0) : out;
      case 5: return out.dim() > 0 && out.size(0) > 0 ? out.select(0, 0) : out;
      default: return out;
    }
  }
  Value value(const Value& old) {
    switch (below(10)) {
      case 0: return {};
      case 1: return kIntegers[below(std::size(kIntegers))];
      case 2: return kNumbers[below(std::size(kNumbers))];
      case 3: return below(2) == 0;
      case 4: return kTypes[below(std::size(kTypes))];
      case 5: return "reflect";
      default: break;
    }
    if (const auto* list = old.get_if<Value::List>()) {
      Value::List out = *list;
      if (!out.empty() && below(4) != 0) out[below(out.size())] = value(out[below(out.size())]);
      if (!out.empty() && below(4) == 0) out.pop_back();
      if (below(4) == 0) out.push_back(value(out.empty() ? Value() : out[0]));
      return out;
    }
    if (old.is_tensor()) return tensor();
    if (old.is<int64_t>()) return static_cast<int64_t>(below(9)) - 4;
    return tensor();
  }

 private:
  static constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16,  DType::kBF16, DType::kS64, DType::kS32,
                                     DType::kS8,  DType::kU8,  DType::kBool, DType::kU16,  DType::kC64};
  static constexpr int64_t kIntegers[] = {0,
                                          1,
                                          -1,
                                          2,
                                          3,
                                          5,
                                          -7,
                                          127,
                                          65536,
                                          int64_t{1} << 31,
                                          int64_t{1} << 62,
                                          std::numeric_limits<int64_t>::max(),
                                          std::numeric_limits<int64_t>::min()};
  static constexpr double kNumbers[] = {
      0, 1, -1, 0.5, 1e-30, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
  std::mt19937_64 random_;
};

// The number of elements that inference promises; 0 if it cannot be said.
double elements_of(const MetaValue& value) {
  if (const TensorMeta* meta = value.get_if<TensorMeta>()) {
    double count = 1;
    for (const SymInt& size : meta->sizes) count *= static_cast<double>(size.constant().value_or(0));
    return count;
  }
  double sum = 0;
  if (const auto* list = value.get_if<MetaValue::List>())
    for (const MetaValue& element : *list) sum += elements_of(element);
  return sum;
}

// Runs one mutated call; returns what is wrong with its outcome, or "".
std::string outcome(const Json& entry, Mutator& mutator) {
  const OpDef& op = *find_op(entry["op"].get<std::string>());
  Arguments given(entry);
  for (size_t turns = 1 + mutator.below(2); turns > 0; --turns) {
    if (given.args.empty()) break;
    Value& victim = given.args[mutator.below(given.args.size())];
    victim = mutator.value(victim);
  }
  if (!given.kwargs.empty() && mutator.below(3) == 0) {
    Value& victim = given.kwargs[mutator.below(given.kwargs.size())].second;
    victim = mutator.value(victim);
  }
  try {
    MetaValue inferred;
    bool has_shape = true;
    try {
      inferred = given.infer(op, Json::object(), nullptr);
    } catch (const Error& error) {
      if (error.code == ErrorCode::kInternal) throw;
      has_shape = false;
    }
    constexpr double kMost = 1e5;
    if (elements_of(inferred) > kMost) return "";
    const Value found = op.eval(Call<Tensor>(op, given.args, given.kwargs));
    // Of a tensor given for a number, inference cannot tell the value.
    return has_shape && inferred.is_tensor() ? difference(inferred, found, 0) : "";
  } catch (const Error& error) {
    return error.code == ErrorCode::kInternal ? error.message : "";
  } catch (const std::exception& error) {
    return concat("a foreign exception: ", error.what());
  }
}

TEST(OpContract, WrongArgumentsAreRefused) {
  // QDQ_SEED repeats a failure, QDQ_FUZZ_ROUNDS looks further.
  const char* given = std::getenv("QDQ_SEED");
  const char* rounds = std::getenv("QDQ_FUZZ_ROUNDS");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1;
  const uint64_t count = rounds ? std::strtoull(rounds, nullptr, 10) : given ? 1 : 20000;
  const Json& cases = golden().json()["cases"];
  const LimitedMemory limited(1 << 28);      // some calls ask for more than a machine has, and are refused
  std::map<std::string, std::string> wrong;  // one outcome for each operator
  for (uint64_t i = 0; i < count; ++i) {
    Mutator mutator(seed + i);
    const Json& entry = cases[mutator.below(cases.size())];
    const std::string what = outcome(entry, mutator);
    if (!what.empty())
      wrong.emplace(entry["op"].get<std::string>(), concat(what, "; QDQ_SEED=", seed + i, " repeats it"));
  }
  for (const auto& [op, what] : wrong) ADD_FAILURE() << op << ": " << what;
}

}  // namespace
}  // namespace qdq
