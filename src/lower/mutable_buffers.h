// Buffers that a program writes to, as the cache of a decoder: who owns them, and how they are written.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "graph/program.h"

namespace qdq {

// The attributes that the program writes to, by a mutation of its signature or by an operator in place, in order.
std::vector<std::string> written_buffers(const Program& program);

// The nodes whose values share elements with one that operators write to in place: they may differ between two reads. A
// buffer is all nodes that read it.
std::unordered_set<const Node*> written_values(const Program& program);

// Operators in place that write to buffers become the functional ones, with a mutation in the signature, as
// torch.export's run_decompositions has it, and views that change nothing go. A program that cannot be rewritten so (a
// part of a buffer is read through a view that is older than a write) stays as it is.
//   index_copy_(cache, 2, place, k)   becomes   new = index_copy(cache, 2, place, k); cache := new
void make_functional(Program& program);

// Makes the values that buffers get outputs behind those that the program has, so that what rewrites the graph keeps
// them; end_as_outputs takes them back, with the nodes that give them by then.
void make_outputs_of_mutations(Program& program);
void end_as_outputs(Program& program);

// The other way round, for programs that are about to run: where nobody reads the old value of a buffer behind the
// operator that makes the new one, and no output is the new one, the operator writes into it, and copies nothing.
void write_in_place(Program& program);

}  // namespace qdq
