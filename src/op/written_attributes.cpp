#include "op/written_attributes.h"

#include "op/shared_storage.h"

namespace qdq {

WrittenAttributes written_attributes(const Program& program) {
  WrittenAttributes out;
  for (const BufferMutation& mutation : program.buffer_mutations) out.insert(mutation.buffer);
  const SharedStorage storage(*program.graph);
  for (const Node* node : program.graph->nodes()) {
    for (const Node* written : written_by(*node)) {
      const Node* root = storage.root_of(written);
      if (root->op() == Node::Op::kGetAttr) out.insert(root->target());
    }
  }
  return out;
}

}  // namespace qdq
