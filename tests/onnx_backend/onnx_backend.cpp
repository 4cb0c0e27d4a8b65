#include "onnx_backend/onnx_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "exec/interpreter.h"
#include "io/onnx.h"
#include "lower/lower.h"
#include "onnx_backend/backend_case.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

struct CasesBecause {
  std::string_view pattern, reason;
};
// Cases that are not asked of what runs models: they count in the first total and not in the second.
constexpr std::array kNotInference = {
    CasesBecause{"*test_adagrad*", "an optimizer's step"},
    CasesBecause{"*test_adam*", "an optimizer's step"},
    CasesBecause{"*test_momentum*", "an optimizer's step"},
    CasesBecause{"*test_nesterov_momentum*", "an optimizer's step"},
    CasesBecause{"*test_gradient_of_*", "gradients"},
    CasesBecause{"*test_nllloss_*", "a training loss"},
    CasesBecause{"*test_sce_*", "a training loss"},
    CasesBecause{"*test_training_dropout*", "dropout while training, which is random"},
    CasesBecause{"*test_batchnorm_*_training_mode", "batch norm while training"},
    CasesBecause{"*test_bernoulli*", "random numbers, which cannot be compared"},
};

// Whether the text matches the pattern, in which * stands for any characters and ? for one.
bool matches(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return matches(text, pattern.substr(1)) || (!text.empty() && matches(text.substr(1), pattern));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && matches(text.substr(1), pattern.substr(1));
}

// Cases whose arrays are not what the operator's text says, where ONNX Runtime gives qdq's answer.
constexpr std::array kDisputed = {
    CasesBecause{"*test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
                 "the divisor counts what lies beyond the padding, which is no padding"},
    CasesBecause{"*test_resize_downsample_scales_linear_align_corners",
                 "the length of the result is taken as scale * length, without rounding"},
    CasesBecause{"*test_resize_downsample_scales_cubic_align_corners",
                 "the length of the result is taken as scale * length, without rounding"},
    CasesBecause{"*test_dft_inverse*", "zeros were written as the rounding errors of float sums, 2e-7"},
    CasesBecause{"*test_image_decoder_decode_jpeg_?*", "decoders of JPEG round their sums differently, by 2 at most"},
    CasesBecause{"*test_qlinearmatmul_?D_int8_float*", "integers beyond int8 wrap around instead of saturating"},
};

template <size_t N> bool any_matches(const std::array<CasesBecause, N>& table, const std::string& name) {
  return std::any_of(table.begin(), table.end(),
                     [&](const CasesBecause& entry) { return matches(name, entry.pattern); });
}

enum class Outcome { kPassed, kRefused, kDiffers, kDisputed };

struct Result {
  std::string name, op;
  Outcome outcome = Outcome::kPassed;
  std::string reason;  // of what did not pass
};

// Thrown where an output is not ONNX's.
class Difference : public std::exception {
 public:
  explicit Difference(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

template <class T> bool is_close(T found, T wanted, double& difference) {
  if (found == wanted) return true;
  if constexpr (std::is_integral_v<T>) {
    difference = std::fabs(static_cast<double>(found) - static_cast<double>(wanted));
    return false;
  } else {
    const double f = static_cast<double>(found), w = static_cast<double>(wanted);
    if (std::isnan(f) && std::isnan(w)) return true;
    difference = f == w ? 0 : std::fabs(f - w);
    // One unit of bfloat16: the bits that NumPy wrote were cut off where they are to be rounded.
    const double relative = std::is_same_v<T, BF16> ? 1.0 / 128 : 1e-3;
    return std::isfinite(f) && std::isfinite(w) && difference <= 1e-7 + relative * std::fabs(w);
  }
}

void compare(const std::string& what, const Tensor& found, const Tensor& wanted) {
  if (!found.defined()) throw Difference(what + " is missing");
  if (found.dtype() != wanted.dtype())
    throw Difference(concat(what, " has dtype ", to_string(found.dtype()), ", ONNX's has ", to_string(wanted.dtype())));
  if (found.sizes() != wanted.sizes())
    throw Difference(concat(what, " has shape ", to_string(found.sizes()), ", ONNX's has ", to_string(wanted.sizes())));
  if (is_float8(wanted.dtype())) return compare(what, found.to(DType::kF32), wanted.to(DType::kF32));
  const Tensor dense = found.contiguous();
  if (wanted.dtype() == DType::kString) {
    const std::vector<std::string_view> f = texts_of(dense), w = texts_of(wanted);
    for (size_t i = 0; i < w.size(); ++i)
      if (f[i] != w[i]) throw Difference(concat(what, "[", i, "] is '", f[i], "', ONNX's is '", w[i], "'"));
    return;
  }
  visit_dtype(wanted.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::span<const T> f = dense.span<T>(), w = wanted.span<T>();
    size_t count = 0, first = 0;
    double largest = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      double difference = 0;
      if (is_close(f[i], w[i], difference)) continue;
      if (count++ == 0) first = i;
      if (!(difference <= largest)) largest = difference;
    }
    if (count == 0) return;
    throw Difference(concat(what, "[", first, "] is ", static_cast<double>(f[first]), ", ONNX's is ",
                            static_cast<double>(w[first]), "; ", count, " of ", w.size(), " elements differ, by up to ",
                            largest));
  });
}

// As programs take and give them.
std::vector<Value> values_of(const std::vector<BackendValue>& values) {
  std::vector<Value> out;
  for (const BackendValue& value : values) {
    if (value.kind == BackendValue::Kind::kTensor) out.emplace_back(value.tensors.at(0));
    else if (value.kind == BackendValue::Kind::kSequence)
      out.emplace_back(Value::List(value.tensors.begin(), value.tensors.end()));
    else out.emplace_back();
  }
  return out;
}

// A way to run a program, by name.
struct Runner {
  std::string_view name;
  std::function<std::vector<Value>(std::span<const Value>)> run;
};

// `is_bound`: with inputs but the first as constants of the model.
void run_case(const BackendCase& c, bool is_bound) {
  std::vector<BackendDataSet> data_sets = c.data_sets();
  const Program program = load_onnx(is_bound ? c.model_with_constants() : c.model());
  if (is_bound) data_sets.at(0).inputs.resize(1);
  Session session = lower(program);
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Interpreter portable(program, {simd.get()}), reference(program, {});
  std::vector<Runner> runners = {
      {"session", [&](std::span<const Value> inputs) { return session.run_values(inputs); }},
      {"simd", [&](std::span<const Value> inputs) { return portable.run_values(inputs); }},
      {"reference", [&](std::span<const Value> inputs) { return reference.run_values(inputs); }}};
  if (c.is_light()) runners.pop_back();  // a network of full size takes the reference loops minutes
  for (const BackendDataSet& data : data_sets) {
    const std::vector<Value> inputs = values_of(data.inputs);
    // A sequence whose length the model has comes out as several tensors.
    const std::vector<Tensor> wanted = flat_tensors(values_of(data.outputs));
    for (const Runner& runner : runners) {
      const std::vector<Tensor> found = flat_tensors(runner.run(inputs));
      if (found.size() != wanted.size())
        throw Difference(concat(runner.name, " gives ", found.size(), " outputs, ONNX has ", wanted.size()));
      for (size_t i = 0; i < wanted.size(); ++i)
        compare(concat("output ", i, " of the ", runner.name), found[i], wanted[i]);
    }
  }
}

// The operator that a case is about: the only one of its model, or of the model that this one spells out.
std::string operator_of(const std::string& path, const BackendCase& c, Files& files) {
  const auto only_one = [](std::vector<std::string> operators) {
    std::erase(operators, "Constant");
    return operators.size() == 1 ? operators[0] : std::string();
  };
  std::string out;
  const std::string whole = path.substr(0, path.find("_expanded"));
  if (whole.size() < path.size() && files.is_file(whole + "/model.onnx"))
    out = only_one(BackendCase(whole, files).operators());
  else out = only_one(c.operators());
  if (!out.empty()) return out;
  const size_t end = path.rfind('/'), begin = path.rfind('/', end - 1) + 1;
  return "(several, of " + path.substr(begin, end - begin) + ")";
}

Result result_of(const std::string& name, const std::string& path, bool binds_constants, Files& files) {
  Result out;
  out.name = name;
  out.op = "(unknown)";
  const auto stop = [&](Outcome outcome, std::string reason) {
    out.outcome = outcome == Outcome::kDiffers && any_matches(kDisputed, name) ? Outcome::kDisputed : outcome;
    out.reason = std::move(reason);
    std::replace(out.reason.begin(), out.reason.end(), '\n', ' ');
  };
  try {
    const BackendCase c(path, files);
    out.op = operator_of(path, c, files);
    try {
      run_case(c, false);
    } catch (const Error& error) {
      if (!binds_constants || error.code != ErrorCode::kUnsupported || c.is_light()) throw;
      try {
        run_case(c, true);
      } catch (const Error&) {
        throw error;  // the reason for which the model is refused as it is
      }
    }
  } catch (const Error& error) {
    stop(error.code == ErrorCode::kInternal ? Outcome::kDiffers : Outcome::kRefused,
         concat(to_string(error.code), ": ", error.message));
  } catch (const Difference& difference) {
    stop(Outcome::kDiffers, difference.what());
  } catch (const std::exception& error) {
    stop(Outcome::kDiffers, concat("broke: ", error.what()));
  }
  return out;
}

std::string_view word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed: return "passed";
    case Outcome::kRefused: return "refused";
    case Outcome::kDiffers: return "differs";
    case Outcome::kDisputed: return "disputed";
  }
  return {};
}

std::string line_of(const Result& result) {
  return result.outcome == Outcome::kPassed ? result.name
                                            : concat(result.name, ": ", word(result.outcome), ": ", result.reason);
}

struct Counts {
  std::array<int64_t, 4> of{};
  void add(const Result& result) { ++of[static_cast<size_t>(result.outcome)]; }
  int64_t total() const { return of[0] + of[1] + of[2] + of[3]; }
};

std::string line_of(const std::string& what, const Counts& counts) {
  char text[160];
  std::snprintf(text, sizeof text, "%-34s %5lld passed, %4lld refused, %4lld differing, %d disputed  (%.1f %%)\n",
                what.c_str(), static_cast<long long>(counts.of[0]), static_cast<long long>(counts.of[1]),
                static_cast<long long>(counts.of[2]), static_cast<int>(counts.of[3]),
                counts.total() == 0 ? 0 : 100.0 * static_cast<double>(counts.of[0]) / counts.total());
  return text;
}

// Every operator with what became of its cases; below it each reason with the first case that has it.
void print_table(const std::vector<Result>& results, std::ostream& out) {
  std::map<std::string, std::vector<const Result*>> by_operator;
  for (const Result& result : results) by_operator[result.op].push_back(&result);
  for (const auto& [op, of_operator] : by_operator) {
    Counts counts;
    std::map<std::string, std::vector<const Result*>> reasons;
    for (const Result* result : of_operator) {
      counts.add(*result);
      if (result->outcome != Outcome::kPassed)
        reasons[concat(word(result->outcome), ": ", result->reason)].push_back(result);
    }
    out << line_of(op, counts);
    for (const auto& [reason, of_reason] : reasons) {
      out << "    " << of_reason[0]->name;
      if (of_reason.size() > 1) out << " and " << of_reason.size() - 1 << " more";
      out << ": " << reason << "\n";
    }
  }
}

void print_totals(const std::vector<Result>& results, std::ostream& out) {
  Counts all, inference;
  std::map<std::string_view, Counts> folders;
  for (const Result& result : results) {
    all.add(result);
    folders[std::string_view(result.name).substr(0, result.name.find('/'))].add(result);
    if (!any_matches(kNotInference, result.name)) inference.add(result);
  }
  for (const auto& [folder, counts] : folders) out << line_of(concat("in ", folder), counts);
  out << line_of("all", all) << line_of("all but training and random numbers", inference);
}

// The names at the beginning of the lines of a list of failing cases.
std::set<std::string> read_expected(const std::string& path, Files& files) {
  const std::vector<std::byte> bytes = files.read(path);
  std::string_view text = format::text_of(bytes);
  std::set<std::string> out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty() && line[0] != '#') out.emplace(line.substr(0, line.find(':')));
  }
  return out;
}

// Prints where the failing cases are others than expected, and the counts as GoogleTest has them, in which an expected
// failure is a skipped test. Returns how many are unexpected.
int64_t compare_expected(const std::vector<Result>& results, const std::set<std::string>& expected, std::ostream& out) {
  int64_t as_wanted = 0, listed = 0, wrong = 0;
  for (const Result& result : results) {
    const bool passed = result.outcome == Outcome::kPassed;
    if (passed != expected.contains(result.name)) {
      ++(passed ? as_wanted : listed);
      continue;
    }
    ++wrong;
    if (passed) out << "error: " << result.name << " passes, but is listed as failing: take it from the list\n";
    else out << "error: " << line_of(result) << "\n";
  }
  out << "[  PASSED  ] " << as_wanted << " tests\n[  SKIPPED ] " << listed << " tests\n";
  if (wrong > 0) out << "[  FAILED  ] " << wrong << " tests\n";
  return wrong;
}

bool is_listed(Outcome outcome, const std::string& list) {
  switch (outcome) {
    case Outcome::kPassed: return list == "passed";
    case Outcome::kRefused: return list == "refused" || list == "failing";
    case Outcome::kDiffers: return list == "differing" || list == "failing";
    case Outcome::kDisputed: return list == "disputed" || list == "failing";
  }
  return false;
}

}  // namespace

int run_backend_tests(const BackendTestOptions& options, Files& files, std::ostream& out) {
  std::vector<Result> results;
  for (std::string folder : options.folders) {
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    for (const std::string& path : find_backend_cases(folder, files)) {
      const std::string name = path == folder ? path.substr(path.rfind('/') + 1) : path.substr(folder.size() + 1);
      if (matches(name, options.only)) results.push_back(result_of(name, path, options.binds_constants, files));
    }
  }
  if (results.empty()) {
    out << "no case was found\n";
    return 1;
  }
  if (!options.list.empty()) {
    for (const Result& result : results)
      if (is_listed(result.outcome, options.list)) out << line_of(result) << "\n";
  } else {
    print_table(results, out);
  }
  if (options.list.empty() || !options.expected.empty()) print_totals(results, out);
  if (!options.expected.empty()) return compare_expected(results, read_expected(options.expected, files), out) > 0;
  return std::any_of(results.begin(), results.end(),
                     [](const Result& result) { return result.outcome == Outcome::kDiffers; });
}

}  // namespace qdq
