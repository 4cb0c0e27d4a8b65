// Errors of the words on the command line, which end qdq with status 2; all other errors end it with 1.
#pragma once

#include <utility>

#include "base/error.h"

namespace qdq {

// Options that do not fit each other, or not the kind of file or samples that they are given with.
struct WrongUsage : Error {
  explicit WrongUsage(std::string message) : Error(ErrorCode::kInvalidArgument, std::move(message)) {}
};

template <class... Parts> [[noreturn]] void fail_usage(const Parts&... parts) { throw WrongUsage(concat(parts...)); }

}  // namespace qdq

// Throws WrongUsage with the parts of the message unless the condition holds.
#define QDQ_CHECK_USAGE(condition, ...)               \
  do {                                                \
    if (!(condition)) ::qdq::fail_usage(__VA_ARGS__); \
  } while (false)
