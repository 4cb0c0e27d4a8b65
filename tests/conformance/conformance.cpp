// Finds the golden cases in a folder, hands each to the runner of its category and counts.
#include "conformance/conformance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>

#include "format/npz.h"

namespace qdq {
namespace {

struct Category {
  std::string_view name;
  CaseRunner run;
};

// A category that is missing here fails with a message that says so.
constexpr std::array kCategories = {
    Category{"observers", run_observers_case},
    Category{"quantize_ops", run_quantize_ops_case},
    Category{"pt2e_xnnpack", run_pt2e_case},
    Category{"pt2e_x86", run_pt2e_case},
    Category{"annotation", run_pt2e_case},
    Category{"zoo", run_zoo_case},
    Category{"qat", run_qat_case},
    Category{"fx", run_fx_case},
};

CaseRunner runner_of(const ConformanceCase& c) {
  const std::string category = c.json().value("category", "");
  for (const Category& known : kCategories)
    if (known.name == category) return known.run;
  differ("no runner for the category \"", category, "\"");
}

// Appends the folders of cases at or under `folder`, in order of their names.
void find_cases(const std::string& folder, Files& files, std::vector<std::string>& cases) {
  if (files.is_file(folder + "/case.json")) {
    cases.push_back(folder);
    return;
  }
  std::vector<std::string> names = files.list(folder);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    if (files.is_folder(folder + "/" + name)) find_cases(folder + "/" + name, files, cases);
}

// Why the body fails, or nothing.
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    std::string where;
    if (!error.node.empty()) where += " (node " + error.node + ")";
    return concat(to_string(error.code), ": ", error.message, where);
  } catch (const nlohmann::json::exception& error) {
    return concat("BadFile: a JSON file of the case is not as cases have it: ", error.what());
  } catch (const std::out_of_range& error) {
    return concat("BadFile: something that the case names is not there: ", error.what());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.empty() ? "an exception without a message" : text;
  }
}

bool equal_or_close(double a, double b, double relative, double absolute) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= absolute + relative * std::fabs(b);
}

// Two outputs in units of the quantizer they come from.
struct Difference {
  double max_units = 0, fraction = 0, sqnr_db = std::numeric_limits<double>::infinity();
  int64_t differing = 0;
};

Difference difference_of(const std::vector<double>& found, const std::vector<double>& expected, double unit) {
  Difference out;
  double signal = 0, noise = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))
                                  ? 0
                                  : std::fabs(found[i] - expected[i]);
    const double units = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference / unit;
    out.max_units = std::max(out.max_units, units);
    out.differing += units > 0.01;
    signal += expected[i] * expected[i];
    noise += difference * difference;
  }
  out.fraction = expected.empty() ? 0 : static_cast<double>(out.differing) / static_cast<double>(expected.size());
  if (noise != 0) out.sqnr_db = 10 * std::log10(signal / noise);
  return out;
}

bool within(const Difference& d, const nlohmann::json& limits) {
  if (limits.contains("min_sqnr_db") && d.sqnr_db >= number_of(limits["min_sqnr_db"])) return true;
  if (d.max_units > number_of(limits.at("max_units"))) return false;
  return !limits.contains("fraction") || d.differing <= 2 || d.fraction <= number_of(limits["fraction"]);
}

}  // namespace

int run_conformance(const std::string& folder, Files& files, std::ostream& out) {
  std::string root = folder;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  std::vector<std::string> cases;
  find_cases(root, files, cases);
  int64_t failed = 0;
  for (const std::string& path : cases) {
    const std::string failure = failure_of([&] {
      const ConformanceCase c(path, files);
      runner_of(c)(c);
    });
    if (failure.empty()) continue;
    ++failed;
    const std::string name = path.size() > root.size() ? path.substr(root.size() + 1) : path;
    out << "FAIL " << name << ": " << failure << std::endl;
  }
  if (cases.empty()) out << "no folder with a case.json in " << folder << "\n";
  out << static_cast<int64_t>(cases.size()) - failed << " passed, " << failed << " failed\n";
  return failed > 0 || cases.empty() ? 1 : 0;
}

ConformanceCase::ConformanceCase(std::string folder, Files& files) : folder_(std::move(folder)), files_(&files) {
  const std::vector<std::byte> bytes = read("case.json");
  const char* text = reinterpret_cast<const char*>(bytes.data());
  try {
    json_ = nlohmann::json::parse(text, text + bytes.size());
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::kBadFile, folder_, "/case.json: ", error.what());
  }
}

const std::map<std::string, Tensor>& ConformanceCase::arrays(const std::string& file) const {
  const auto known = arrays_.find(file);
  if (known != arrays_.end()) return known->second;
  const std::vector<std::byte> bytes = read(file);
  std::map<std::string, Tensor>& out = arrays_[file];
  for (format::NamedTensor& array : format::read_npz(bytes, folder_ + "/" + file))
    out[array.name] = std::move(array.tensor);
  return out;
}

const Tensor& ConformanceCase::array(const std::string& file, const std::string& name) const {
  const auto& all = arrays(file);
  const auto found = all.find(name);
  if (found == all.end()) differ(file, " has no array ", name);
  return found->second;
}

bool ConformanceCase::has_array(const std::string& file, const std::string& name) const {
  return arrays(file).contains(name);
}

void for_each_entry(const nlohmann::json& entries, const std::function<void(const nlohmann::json& entry)>& body) {
  size_t failed = 0;
  std::string first;
  for (const auto& entry : entries) {
    const std::string failure = failure_of([&] { body(entry); });
    if (!failure.empty() && failed++ == 0) first = concat("entry ", entry.at("id").get<std::string>(), ": ", failure);
  }
  if (failed > 0) differ(first, " (", failed, " of ", entries.size(), " entries fail)");
}

double number_of(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_object() && value.contains("float")) {
    const std::string text = value["float"].get<std::string>();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  fail(ErrorCode::kBadFile, "case.json: a number was expected, found ", value.dump());
}

std::vector<double> numbers_of(const nlohmann::json& value) {
  if (!value.is_array()) return {number_of(value)};
  std::vector<double> out;
  out.reserve(value.size());
  for (const auto& element : value) out.push_back(number_of(element));
  return out;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> out;
  out.reserve(static_cast<size_t>(tensor.numel()));
  const Tensor values = tensor.contiguous();
  visit_dtype(values.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for (const T& value : values.span<T>()) out.push_back(static_cast<double>(value));
  });
  return out;
}

void expect_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                  double relative, double absolute) {
  if (actual.size() != expected.size())
    differ(what, " has ", actual.size(), " elements, PyTorch's has ", expected.size());
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    if (!equal_or_close(actual[i], expected[i], relative, absolute) && wrong++ == 0) first = i;
  if (wrong == 0) return;
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, " is %.17g, PyTorch has %.17g", actual[first], expected[first]);
  std::string text = what;
  if (actual.size() > 1) text += concat("[", first, "]");
  text += numbers;
  if (wrong > 1) text += concat(" (", wrong, " of ", actual.size(), " elements differ)");
  throw Mismatch(text);
}

void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected, double relative,
                  double absolute) {
  if (!actual.defined()) differ(what, " is missing");
  if (actual.dtype() != expected.dtype())
    differ(what, " has dtype ", to_string(actual.dtype()), ", PyTorch's has ", to_string(expected.dtype()));
  if (actual.sizes() != expected.sizes())
    differ(what, " has shape ", to_string(actual.sizes()), ", PyTorch's has ", to_string(expected.sizes()));
  expect_close(what, numbers_of(actual), numbers_of(expected), relative, absolute);
}

void run_moved(const std::function<void(double move)>& body) {
  constexpr double kBit = 1.0 / (1 << 22);
  std::optional<Mismatch> first;
  for (const int bits : {0, 1, -1, 2, -2, 3, -3, 4, -4}) {
    try {
      return body(bits * kBit);
    } catch (const Mismatch& mismatch) {
      if (!first) first = mismatch;
    }
  }
  throw *first;
}

std::vector<std::vector<Tensor>> batches_of(const ConformanceCase& c, const std::string& file,
                                            const std::string& letter, double move) {
  std::vector<std::vector<Tensor>> out;
  for (size_t n = 0;; ++n) {
    std::vector<Tensor> batch;
    for (size_t i = 0; c.has_array(file, concat(letter, n, "_i", i)); ++i) {
      batch.push_back(c.array(file, concat(letter, n, "_i", i)));
      if (move == 0 || batch.back().dtype() != DType::kF32) continue;
      batch.back() = batch.back().contiguous().clone();
      for (float& value : batch.back().span<float>()) value *= static_cast<float>(1 + move);
    }
    if (batch.empty()) return out;
    out.push_back(std::move(batch));
  }
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) differ("shapes ", to_string(a.sizes()), " and ", to_string(b.sizes()), " differ");
  return difference_of(numbers_of(a), numbers_of(b), 1).max_units;
}

void expect_within_limits(const std::string& what, const Tensor& found, const Tensor& expected, double unit,
                          const nlohmann::json& limits) {
  if (expected.sizes() != found.sizes() || expected.dtype() != found.dtype())
    differ(what, " is ", to_string(found.dtype()), " ", to_string(found.sizes()), ", PyTorch has ",
           to_string(expected.dtype()), " ", to_string(expected.sizes()));
  const Difference d = difference_of(numbers_of(found), numbers_of(expected), unit);
  if (!within(d, limits))
    differ(what, " is off by up to ", d.max_units, " units, ", d.fraction * 100, " % of the elements, ", d.sqnr_db,
           " dB; allowed is ", limits.dump());
}

}  // namespace qdq
