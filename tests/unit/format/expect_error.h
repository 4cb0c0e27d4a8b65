// Expects a qdq::Error with a code and words in its message.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "base/error.h"

namespace qdq {

template <class Body> void expect_error(ErrorCode code, std::string_view words, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "nothing was refused; expected an error that says: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code), to_string(code)) << error.message;
    EXPECT_NE(error.message.find(words), std::string::npos)
        << "the message is: " << error.message << "\nexpected: " << words;
  }
}

}  // namespace qdq
