// The one exception type of qdq, and the checks that throw it.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
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

// One part of a message: a text or a number. Texts are looked at when the message is put together, not before.
class MessagePart {
 public:
  MessagePart(const char* text) : kind_(Kind::kCString), c_string_(text) {}  // Implicit, as an operand of <<
  MessagePart(const std::string& text) : kind_(Kind::kString), string_(&text) {}
  MessagePart(std::string_view text) : kind_(Kind::kView), view_{text.data(), text.size()} {}
  MessagePart(char character) : kind_(Kind::kCharacter), character_(character) {}
  MessagePart(double number) : kind_(Kind::kReal), real_(number) {}
  template <std::signed_integral T> MessagePart(T number) : kind_(Kind::kSigned), signed_(number) {}
  template <std::unsigned_integral T> MessagePart(T number) : kind_(Kind::kUnsigned), unsigned_(number) {}

  // Numbers as printf writes them by %lld, %llu and %g.
  void append_to(std::string& out) const;

 private:
  enum class Kind { kCString, kString, kView, kCharacter, kReal, kSigned, kUnsigned };
  struct View {
    const char* data;
    size_t size;
  };
  Kind kind_;
  union {
    const char* c_string_;
    const std::string* string_;
    View view_;
    char character_;
    double real_;
    int64_t signed_;
    uint64_t unsigned_;
  };
};

// The parts one after the other. The callers' code is a list of parts and one call, since there are hundreds of
// callers.
std::string concat(std::initializer_list<MessagePart> parts);
[[noreturn]] void fail(ErrorCode code, std::initializer_list<MessagePart> parts);

template <class... Parts> [[gnu::always_inline]] inline std::string concat(const Parts&... parts) {
  return concat({MessagePart(parts)...});
}
template <class... Parts> [[noreturn, gnu::always_inline]] inline void fail(ErrorCode code, const Parts&... parts) {
  fail(code, {MessagePart(parts)...});
}

}  // namespace qdq

// Throws Error{code} with the parts of the message unless the condition holds.
// QDQ_CHECK(n >= 0, kInvalidArgument, "the batch size is ", n, ", it must not be negative");
#define QDQ_CHECK(condition, code, ...)                                 \
  do {                                                                  \
    if (!(condition)) ::qdq::fail(::qdq::ErrorCode::code, __VA_ARGS__); \
  } while (false)
