#include "graph/dead_code.h"

#include <unordered_set>

namespace qdq {

bool eliminate_dead_code(Program& program) {
  std::unordered_set<std::string> written;
  for (const BufferMutation& mutation : program.buffer_mutations) written.insert(mutation.node);
  return program.graph->eliminate_dead_code([&](const Node* node) { return written.count(node->name()) != 0; });
}

}  // namespace qdq
