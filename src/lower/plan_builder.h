// Plans while fusion makes them: buffers, views, what crosses a plan's border, and at the end the rewriting of the
// graph.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lower/fuse.h"
#include "lower/fuse_nodes.h"

namespace qdq {

// Where a plan holds a value.
struct PlanValue {
  size_t plan, buffer;
  auto operator<=>(const PlanValue&) const = default;
};

SymShape c_order(const SymShape& sizes);
SymShape image_order(const SymShape& sizes);
SymShape strides_of(const PlanBuffer& buffer);
bool is_in_c_order(const PlanBuffer& buffer);

// A value that a plan holds is known by its buffer, which stands for the real value of the node: a u8 buffer for what a
// quantize node rounded, an f32 buffer for what it did not. New steps go into the open plan, the last one.
class PlanBuilder {
 public:
  explicit PlanBuilder(Program& program) : program_(program), writers_(values_with_writers(*program.graph)) {}

  Program& program() { return program_; }

  // Made of constants alone: folded later, if anybody still needs it.
  static bool is_constant(const Node& node);
  // Who writes to a value that the node reads or makes, so that no plan takes it; null: nobody.
  const Node* writer_beside(const Node& node) const;
  bool is_held(const Node* node) const { return node != nullptr && real_.count(node) != 0; }
  bool is_held_u8(const Node* node) const { return is_held(node) && held(node).dtype == DType::kU8; }
  // The buffer of a held value, of whatever plan.
  const PlanBuffer& held(const Node* node) const;
  // Whether a step may read the node's value: a plan has it, or it is an f32 tensor of the graph.
  bool is_readable(const Node* node) const;

  // Readers give the index of a buffer of the open plan that holds the real value of `node`; buffer() is that buffer.
  // In the order it comes in.
  size_t read_as_is(Node* node);
  size_t read_in_c_order(Node* node);
  // In a storage order that every step knows: images channels last, all else in C order.
  size_t read(Node* node);
  // The same in f32.
  size_t read_floats(Node* node);
  // With a dense last axis.
  size_t read_rows(Node* node);
  // The same in f32.
  size_t read_float_rows(Node* node);
  // Rows of its last axis: a value [A, B, C, D] as [A, B * C, D] in C order, every other as read() gives it.
  size_t read_sequence(Node* node);
  // Whether a value of rank 4 is no image: a plan has it with a dense last axis.
  bool is_sequence(const Node* node) const;
  // A buffer of the open plan, in f32.
  size_t in_floats(size_t at);
  // A buffer of the open plan in the other storage order.
  size_t arranged(size_t at, bool channels_last);
  // A copy of a buffer of the open plan whose axes are these, in C order.
  size_t permuted_copy(size_t at, const std::vector<size_t>& axes);
  // A copy of a buffer of the open plan that is repeated along axes of one element, in the order that every step knows.
  size_t expanded_copy(size_t at, const SymShape& sizes);
  const PlanBuffer& buffer(size_t at) { return open().plan.buffers[at]; }

  // A buffer of the node's shape for add_step.
  static PlanBuffer buffer_like(const Node& node, DType dtype, PlanQParams qparams = {});
  // Appends a step that does the work of `nodes` and writes `out`, the value of `last`.
  void add_step(PlanStep step, PlanBuffer out, const Node& last, const std::vector<Node*>& nodes);
  // The same for a step whose inputs read_sequence() gave: where `out` has rank 4, it is written as rows, too.
  void add_sequence_step(PlanStep step, PlanBuffer out, const Node& last, const std::vector<Node*>& nodes);
  // `node` is what lies behind the buffer `from` at the strides, from `offset` elements on.
  void add_view(Node& node, size_t from, SymInt offset, SymShape strides);
  // The value of `node` is that of `x`, which is held; nothing moves.
  void hold_same(const Node& node, const Node& x);
  // The integers of this quantize node are those that already stand for `x`.
  void hold_same_integers(const Node& quantize, const Node& x);
  // The value of a dequantize node; false if no plan holds the integers of `quantize`.
  bool hold_dequantized(const Node& dequantize, const Node* quantize);
  // The value of a dequantize node whose integers, of all their dtype's values, the graph brings.
  void hold_given_integers(const Node& dequantize, Node* integers, PlanQParams qparams);
  // This node's work is done by the step that does the other's.
  void share_step(const Node& node, const Node& of);
  // `node` is a list of parts of `x`, which is held; users take the parts one by one.
  void pass_over(const Node& node, const Node& x);
  bool is_fused(const Node* node) const;

  // `node` stays in the graph, and why; it reads what plans hold as f32 in C order.
  void leave(Node& node, std::string refusal);
  void need_inputs(Node& node);

  // Drops plans that are not worth it and puts the others into the graph. `nodes` are all that there were, in order.
  Fusion finish(const std::vector<Node*>& nodes);

 private:
  // A plan while it is made.
  struct Open {
    Plan plan;
    Node* before = nullptr;                            // its call goes in front of this node; null: the plan is open
    std::vector<std::variant<Node*, PlanValue>> args;  // who brings its inputs: a node of the graph, or an earlier plan
    std::unordered_map<const Node*, size_t> from_graph;
    std::map<PlanValue, size_t> from_plans;
    // (buffer, channels last) -> the same, in that order or in C order
    std::map<std::pair<size_t, bool>, size_t> reordered;
    std::map<size_t, size_t> plain;   // buffer -> f32 in C order
    std::map<size_t, size_t> floats;  // u8 buffer -> the same in f32
    std::map<size_t, size_t> rows;    // buffer [A, B, C, D] in C order -> the same bytes as [A, B * C, D]
    bool is_idle = true;              // only moves numbers between u8 and f32
    bool is_imported = false;         // a later plan reads from it
  };
  struct Use {
    Node* user;
    Node* value;
    PlanValue place;
  };

  Open& open();
  size_t open_index();
  size_t last_step(size_t plan) const;
  void set_fate(const Node& node, size_t plan, size_t step);

  size_t add_buffer(PlanBuffer buffer);
  // A buffer of the open plan through other sizes and strides.
  size_t viewed(size_t at, SymShape sizes, SymShape strides);
  void add_input(PlanBuffer buffer, std::variant<Node*, PlanValue> source);
  size_t imported(PlanValue place);
  static void append_copy(Open& plan, PlanStep::Form form, size_t from, bool channels_last, DType dtype);
  void make_output(PlanValue place);
  PlanValue plain(PlanValue place);

  void drop_idle_plans();
  void rewrite();

  Program& program_;
  std::unordered_map<const Node*, const Node*> writers_;
  std::vector<Open> plans_;
  // The result of the last step is the value of `last`.
  void hold_result(const Node& last, size_t buffer);

  std::unordered_map<const Node*, PlanValue> real_;     // who holds a node's real value
  std::unordered_map<const Node*, PlanValue> rounded_;  // who holds a quantize node's integers
  std::vector<Use> uses_;                               // of plans' values by nodes that stay
  std::unordered_map<const Node*, NodeFate> fates_;
};

}  // namespace qdq
