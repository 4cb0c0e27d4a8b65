// Golden cases made by PyTorch: `./dev conformance FOLDER`. Each folder with a case.json is one case.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "quant/observers/observer.h"
#include "tensor/tensor.h"

namespace qdq {

// Runs every case in a folder (of one case, of cases, or of folders of cases, in order of their names). Prints a line
// per failing case, which says what differed first, and at the end "N passed, M failed". A case of a category that no
// runner knows counts as failed. Returns 1 if any failed or there was none, else 0. Throws Error{kIo} if the folder
// cannot be read.
int run_conformance(const std::string& folder, Files& files, std::ostream& out);

// One case: its case.json and the files beside it.
class ConformanceCase {
 public:
  ConformanceCase(std::string folder, Files& files);

  const std::string& folder() const { return folder_; }
  const nlohmann::json& json() const { return json_; }
  std::vector<std::byte> read(const std::string& file) const { return files_->read(folder_ + "/" + file); }
  // The array of that name in an .npz file of the case ("calib.npz"); the file is kept after the first use. Throws
  // Mismatch if it is missing.
  const Tensor& array(const std::string& file, const std::string& name) const;
  bool has_array(const std::string& file, const std::string& name) const;

 private:
  const std::map<std::string, Tensor>& arrays(const std::string& file) const;

  std::string folder_;
  Files* files_;
  nlohmann::json json_;
  mutable std::map<std::string, std::map<std::string, Tensor>> arrays_;
};

// What a runner throws at the first difference: the message says what was found and what PyTorch had.
class Mismatch : public std::exception {
 public:
  explicit Mismatch(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

template <class... Parts> [[noreturn]] void differ(const Parts&... parts) { throw Mismatch(concat(parts...)); }

// A runner compares one case with what this build computes and throws Mismatch (or lets an Error through) if they
// differ.
using CaseRunner = void (*)(const ConformanceCase& c);
void run_observers_case(const ConformanceCase& c);
void run_quantize_ops_case(const ConformanceCase& c);
void run_pt2e_case(const ConformanceCase& c);  // pt2e_xnnpack, pt2e_x86, annotation
void run_zoo_case(const ConformanceCase& c);
void run_qat_case(const ConformanceCase& c);
void run_fx_case(const ConformanceCase& c);

// Runs the body on each element of a list of entries that stand for themselves (each has an "id") and throws one
// Mismatch for the first failure, with the number of entries that failed.
void for_each_entry(const nlohmann::json& entries, const std::function<void(const nlohmann::json& entry)>& body);

// Batches "<letter><n>_i<input>" of an .npz file, floats multiplied by 1 + `move`.
std::vector<std::vector<Tensor>> batches_of(const ConformanceCase& c, const std::string& file,
                                            const std::string& letter, double move = 0);

// Runs a comparison that rounds in the middle of a network. A rounding that falls to the other side there moves all
// behind it by more than any limit, and which side that is can hang on the order of a sum: PyTorch's own numbers change
// so where its inputs are moved by a bit. So the body may agree in the whole for inputs that are as given, or moved by
// a few bits; else the mismatch of the inputs as given is thrown.
void run_moved(const std::function<void(double move)>& body);

// Throws Mismatch unless the tensor is as near to the expected one as an entry of "limits" allows, in units of the
// quantizer that it comes from.
void expect_within_limits(const std::string& what, const Tensor& found, const Tensor& expected, double unit,
                          const nlohmann::json& limits);

// The largest distance between elements of two tensors of one shape; infinite where one is NaN.
double largest_difference(const Tensor& a, const Tensor& b);

// Numbers of case.json, where infinities and NaN are {"float": "inf"}; a list of them, or one number as a list of
// length 1.
double number_of(const nlohmann::json& value);
std::vector<double> numbers_of(const nlohmann::json& value);
// The elements as doubles in C order (int64 beyond 2^53 are rounded).
std::vector<double> numbers_of(const Tensor& tensor);

// Throws Mismatch unless lengths are equal and |actual - expected| <= absolute + relative * |expected| everywhere;
// equal infinities match, and NaN matches NaN. With both tolerances 0 this compares exactly (and -0 equals 0).
void expect_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                  double relative, double absolute);
// The same for tensors, whose dtypes and shapes must be equal.
void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected, double relative = 0,
                  double absolute = 0);

// Throws Mismatch unless every setting that the JSON has ("dtype", "qscheme", "eps", ...; see the README of the cases)
// is that of the observer.
void expect_settings(const Observer& observer, const nlohmann::json& expected);

}  // namespace qdq
