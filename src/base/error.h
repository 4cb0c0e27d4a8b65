// The one exception type of qdq, and the checks that throw it.
#pragma once

#include <exception>
#include <sstream>
#include <string>
#include <string_view>

namespace qdq {

// What kind of thing went wrong. JavaScript sees the name without the k, as QdqError.code ("BadFile").
enum class ErrorCode {
  kInvalidArgument,  // a caller's value is wrong: a recipe field, a shape, a data type, an option
  kBadFile,          // bytes that are not what their format says
  kUnsupported,      // well-formed input that qdq cannot handle: an operator, a version, a layout
  kNotCalibrated,    // qparams were asked of an observer that has seen no data
  kOutOfMemory,      // the work cannot fit
  kCancelled,        // the caller asked to stop
  kIo,               // a file could not be read or written
  kInternal,         // a bug in qdq
};

std::string_view to_string(ErrorCode code);

// An error with one clear sentence: what, where, found, wanted, remedy. `node` and `op` name the graph node and the
// operator it happened in, or are empty.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::string node = {}, std::string op = {})
      : code(code), message(std::move(message)), node(std::move(node)), op(std::move(op)) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorCode code;
  std::string message;
  std::string node;
  std::string op;
};

// The parts written one after the other, as by operator<<.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

}  // namespace qdq

// Throws Error{code} with the parts of the message unless the condition holds.
// QDQ_CHECK(n >= 0, kInvalidArgument, "the batch size is ", n, ", it must not be negative");
#define QDQ_CHECK(condition, code, ...)                               \
  do {                                                                \
    if (!(condition)) ::qdq::fail(::qdq::ErrorCode::code, __VA_ARGS__); \
  } while (false)
