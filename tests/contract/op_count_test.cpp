// Holds docs/operators.md against the table: what it counts and lists of PyTorch's operators is what qdq has.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "contract/op_golden.h"
#include "op/facts.h"

namespace qdq {
namespace {

// The names of the first column of the document's tables: "aten.resize_.default".
std::set<std::string> listed(const std::string& text) {
  std::set<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t end = line.find(" |", 2);
    for (size_t at = line.find('`'); at < end; at = line.find('`', line.find('`', at + 1) + 1)) {
      const size_t close = line.find('`', at + 1);
      out.insert(line.substr(at + 1, close - at - 1));
    }
  }
  return out;
}

class Document : public testing::Test {
 protected:
  // Expects "N of the M" of these operators in the text, and a line for each that is missing.
  void expect_counted(const Json& operators) {
    size_t have = 0;
    for (const Json& target : operators) {
      const auto name = target.get<std::string>();
      if (find_op(name) != nullptr) ++have;
      else
        EXPECT_TRUE(missing_.contains(std::string(short_name(name)))) << "docs/operators.md lacks the missing " << name;
    }
    const std::string count = concat(have, " of the ", operators.size());
    EXPECT_NE(text_.find(count), std::string::npos) << "docs/operators.md does not say '" << count << "'";
  }

  const std::string text_{format::text_of(read_file(std::string(kSourceDir) + "/docs/operators.md"))};
  const std::set<std::string> missing_ = listed(text_);
};

TEST_F(Document, CountsTheCoreOperators) { expect_counted(golden().json()["core"]); }

TEST_F(Document, CountsWhatTheDecompositionTableLeaves) { expect_counted(golden().json()["decomposed"]); }

TEST_F(Document, CountsTheTable) {
  const auto is_aten = [](const OpDef& op) { return op.target.starts_with("torch.ops.aten."); };
  const std::string count = concat(std::count_if(all_ops().begin(), all_ops().end(), is_aten), " ATen operators");
  EXPECT_NE(text_.find(count), std::string::npos) << "docs/operators.md does not say '" << count << "'";
}

TEST_F(Document, ListsNothingAsMissingThatIsThere) {
  EXPECT_FALSE(missing_.empty());
  for (const std::string& name : missing_) EXPECT_EQ(find_op("torch.ops." + name), nullptr) << name;
}

}  // namespace
}  // namespace qdq
