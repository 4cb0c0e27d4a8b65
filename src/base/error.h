// The one exception type of qdq, and the checks that throw it.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

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

// One part of a message: a text or a number, whose kind is told apart from it. Texts are looked at when the message is
// put together, not before.
union MessagePart {
  MessagePart(const char* text) : c_string(text) {}  // Implicit, as an operand of <<
  MessagePart(const std::string& text) : string(&text) {}
  MessagePart(const std::string_view& text) : view(&text) {}
  MessagePart(char character) : character(character) {}
  MessagePart(double number) : real(number) {}
  template <std::signed_integral T> MessagePart(T number) : integer(number) {}
  template <std::unsigned_integral T> MessagePart(T number) : natural(number) {}

  const char* c_string;
  const std::string* string;
  const std::string_view* view;
  char character;
  double real;
  int64_t integer;
  uint64_t natural;
};
enum class PartKind : char { kEnd, kCString, kString, kView, kCharacter, kReal, kInteger, kNatural };

template <class T> consteval PartKind part_kind() {
  if constexpr (std::is_same_v<T, std::string>) return PartKind::kString;
  else if constexpr (std::is_same_v<T, std::string_view>) return PartKind::kView;
  else if constexpr (std::is_same_v<T, char>) return PartKind::kCharacter;
  else if constexpr (std::is_floating_point_v<T>) return PartKind::kReal;
  else if constexpr (std::signed_integral<T>) return PartKind::kInteger;
  else if constexpr (std::unsigned_integral<T>) return PartKind::kNatural;
  else if constexpr (std::is_convertible_v<const T&, const char*>) return PartKind::kCString;
}
// One array for all messages of the same kinds.
template <PartKind... kinds> inline constexpr PartKind kPartKinds[] = {kinds..., PartKind::kEnd};

// The parts one after the other, numbers as printf writes them by %lld, %llu and %g. The callers' code is an array of
// parts and one call, since there are hundreds of callers: a page downloads it all.
std::string concat_parts(const PartKind* kinds, const MessagePart* parts);
[[noreturn]] void fail_with(ErrorCode code, const PartKind* kinds, const MessagePart* parts);

template <class... Parts> [[gnu::always_inline]] inline std::string concat(const Parts&... parts) {
  const MessagePart list[] = {MessagePart(parts)...};
  return concat_parts(kPartKinds<part_kind<Parts>()...>, list);
}
template <class... Parts> [[noreturn, gnu::always_inline]] inline void fail(ErrorCode code, const Parts&... parts) {
  const MessagePart list[] = {MessagePart(parts)...};
  fail_with(code, kPartKinds<part_kind<Parts>()...>, list);
}

}  // namespace qdq

// Throws Error{code} with the parts of the message unless the condition holds.
// QDQ_CHECK(n >= 0, kInvalidArgument, "the batch size is ", n, ", it must not be negative");
#define QDQ_CHECK(condition, code, ...)                                 \
  do {                                                                  \
    if (!(condition)) ::qdq::fail(::qdq::ErrorCode::code, __VA_ARGS__); \
  } while (false)
