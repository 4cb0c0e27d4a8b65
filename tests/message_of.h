// What an error says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"

namespace qdq {

// The message of the Error that `body` throws, which has the code `code` if one is given; "" if it throws none.
inline std::string message_of(const std::function<void()>& body, std::optional<ErrorCode> code = {}) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code), to_string(code.value_or(error.code))) << error.message;
    return error.message;
  }
  return "";
}

}  // namespace qdq
