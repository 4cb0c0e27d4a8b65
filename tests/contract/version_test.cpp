// One version: what the header says, what CMake exports and what npm publishes.
#include "base/version.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "source_dir.h"

namespace qdq {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(kSourceDir) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Version, IsTheSameEverywhere) {
  const std::string numbers = concat(QDQ_VERSION_MAJOR, ".", QDQ_VERSION_MINOR, ".", QDQ_VERSION_PATCH);
  EXPECT_EQ(QDQ_VERSION, numbers);
  EXPECT_NE(text_of("CMakeLists.txt").find(concat("project(qdq VERSION ", numbers, " ")), std::string::npos);
  EXPECT_NE(text_of("package.json").find(concat("\"version\": \"", numbers, "\"")), std::string::npos);
}

}  // namespace
}  // namespace qdq
