// What the exporters of ATen calls to ONNX share: the file so far, and one call with its arguments.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "format/onnx_file.h"
#include "io/onnx.h"
#include "op/op.h"

namespace qdq {

// Opsets: those that are written, and the first ones with some data types.
constexpr int64_t kFirstWritten = 17, kLastWritten = 21;
constexpr int64_t kFirstWithFloat8 = 19, kFirstWithBlocks = 21;

// Names and settings of a node; put in by functions, as lists of strings and attributes would be most of this room's
// code.
class OnnxNames {
 public:
  template <class... T> OnnxNames(const T&... names) { (add(names), ...); }  // Implicit, so that calls are short
  std::vector<std::string> list;

 private:
  void add(const std::string& name);
  void add(const char* name);
  void add(const std::vector<std::string>& names);  // each of them
};

class OnnxAttributes {
 public:
  // Names and values by turns: {"axis", 1, "mode", "linear"}.
  template <class... T> OnnxAttributes(const T&... names_and_values) { add_all(names_and_values...); }
  void add(const char* name, bool value) { add(name, int64_t{value}); }
  void add(const char* name, int value) { add(name, int64_t{value}); }
  void add(const char* name, int64_t value);
  void add(const char* name, double value);
  void add(const char* name, const char* value);
  void add(const char* name, const std::vector<int64_t>& value);
  void add(const char* name, const std::vector<float>& value);
  void add(const char* name, const std::vector<std::string>& value);
  void add(const char* name, const Tensor& value);
  void add(const char* name, std::shared_ptr<const format::OnnxGraph> value);
  std::vector<format::OnnxAttribute> list;

 private:
  void add_all() {}
  template <class V, class... T> void add_all(const char* name, const V& value, const T&... rest) {
    add(name, value);
    add_all(rest...);
  }
};

// A graph that is being written: that of the file, or one within another, which reads the values of those around it.
class OnnxExport {
 public:
  // `refused`: operators in place that write to what others read.
  OnnxExport(const OnnxOptions& options, int64_t opset, std::unordered_set<const Node*> refused);
  explicit OnnxExport(OnnxExport& around);
  // The whole file.
  format::OnnxFile run(const Program& program);

  int64_t opset() const { return file_->opset; }
  // Whether the opset that is written is `version` or later. Where none was asked for, it is: the file is then written
  // once more in that opset, `needed`.
  bool reaches(int64_t version);
  int64_t needed() const { return file_->needed; }
  bool has_blocks() const { return file_->has_blocks; }
  void note_blocks() { file_->has_blocks = file_->has_groups = true; }
  bool has_groups() const { return file_->has_groups; }
  void note_groups() { file_->has_groups = true; }
  // Calls that were written with ONNX operators which do not take their floats.
  const std::unordered_set<const Node*>& narrow() const { return file_->narrow; }
  const OnnxOptions& options() const { return file_->options; }
  const Program& program() const { return *program_; }  // that is being written
  // The name of a node's value; an attribute becomes an initializer when it is asked for.
  std::string value(const Node* node);
  // An initializer with a name like `name`. What layers share is written once: equal tensors by one name.
  std::string constant(const Tensor& tensor, const std::string& name);
  // The same of integers of four bits, int8 or uint8 here, as int4 or uint4.
  std::string four_bit_constant(const Tensor& tensor, const std::string& name);
  // One without axes; equal ones are written once.
  std::string scalar(double value, DType dtype);
  // The same of an argument that is a number; of an integer every bit.
  std::string scalar(const Argument& number, DType dtype);
  // A node with one output of this name, which is given back. Operators of other domains have that in their name:
  // "com.microsoft.QuantizeLinear".
  std::string emit(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                   std::string output);
  void emit_many(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes,
                 std::vector<std::string> outputs, const std::string& name = {});
  std::string fresh(const std::string& name);
  // What the value of a node is called: as in the file that the program was read from, else by the node's name. Asked
  // once for each value.
  std::string name_of(const Node* node);
  void set(const Node* node, std::string value) { values_[node] = std::move(value); }
  // The values of a node that gives several, and one of them.
  void set_items(const Node* node, std::vector<std::string> values) { items_[node] = std::move(values); }
  const std::string& item(const Node* node, size_t i) const;
  std::vector<std::string> name_items(const Node& node, size_t count);
  void use_domain(const std::string& domain, int64_t version);
  // An operator that gives all results of a node: its own, or items, which name their places.
  void emit_results(const Node& node, const std::string& op, const std::vector<std::string>& inputs,
                    const OnnxAttributes& attributes);

  // Writes the program's nodes, its inputs being these values, and gives those of its outputs.
  std::vector<std::string> write(const Program& program, const std::vector<std::string>& inputs);
  // Of a graph within another: an input like this value, and the end.
  std::string add_input(const std::string& name, const ValueMeta& meta);
  void add_output(const std::string& value, const ValueMeta& meta);
  std::shared_ptr<const format::OnnxGraph> finish();

 private:
  // What all graphs of a file share.
  struct File {
    OnnxOptions options;
    int64_t opset = 0, needed = 0;
    bool has_four_bits = false;                            // tensors of int4 or uint4
    bool has_blocks = false;                               // MatMulNBits
    bool has_groups = false;                               // weights in a form that OnnxOptions::groups names
    std::map<std::string, int64_t> taken, taken_by_nodes;  // name -> suffixes given
    std::map<std::string, std::string> symbols;            // s0 -> batch
    std::map<std::string, int64_t> domains;
    std::map<std::string, std::vector<std::string>> refusals;  // operator or reason -> nodes
    std::unordered_set<const Node*> narrow, refused;
    const Program* prepared = nullptr;
  };
  static std::string unique(std::map<std::string, int64_t>& taken, const std::string& name);
  format::OnnxValueInfo info_of(std::string name, const ValueMeta& value, bool is_inner);
  void keep_names(const Program& program);
  void write_call(const Node& node);
  void write_unknown(const Node& node);
  void eliminate_dead_code();

  std::shared_ptr<File> file_;
  format::OnnxGraph graph_;
  const Program* program_ = nullptr;
  const Node* written_ = nullptr;  // what is being written
  std::unordered_map<const Node*, std::string> names_, values_;
  std::unordered_map<const Node*, std::vector<std::string>> items_;
  std::unordered_map<std::string, std::vector<size_t>> constants_;  // initializers by the names that were asked for
  std::map<std::pair<DType, double>, std::string> scalars_;
};

// One ATen call.
class AtenCall {
 public:
  AtenCall(OnnxExport& file, const Node& node, const OpDef& op) : file_(file), node_(node), op_(op) {}

  const Node& node() const { return node_; }
  OnnxExport& file() { return file_; }
  std::string name() const;  // "conv2d.default", without the underscore of an in-place operator
  // The name in front of the overload, without what says how the result lies: "add.Tensor" -> "add",
  // "split_copy.Tensor" and "unsafe_split.Tensor" -> "split".
  std::string base() const;
  bool begins(std::string_view front) const { return name().starts_with(front); }
  template <class... Parts> [[noreturn]] void refuse(const Parts&... parts) const {
    const MessagePart list[] = {MessagePart(parts)...};
    refuse_because(kPartKinds<part_kind<Parts>()...>, list);
  }

  // Arguments by their place in the schema, defaults filled in.
  const Argument& arg(size_t i) const;
  bool is_none(size_t i) const { return i >= op_.schema->arguments.size() || arg(i).is_none(); }
  bool flag(size_t i) const { return arg(i).integer().value_or(0) != 0; }
  int64_t integer(size_t i) const;
  double number(size_t i) const;
  std::vector<int64_t> integers(size_t i, size_t count = 0) const;  // one number counts for all
  Tensor known(size_t i) const;                                     // a constant; refuses one that is computed
  std::vector<int64_t> known_integers(size_t i) const;              // the elements of one
  const TensorMeta& meta(size_t i) const;                           // of a tensor argument
  const TensorMeta& meta_of(const Node* node) const;
  const TensorMeta& result() const { return meta_of(&node_); }
  size_t rank(size_t i) const { return meta(i).sizes.size(); }
  int64_t axis(size_t i, size_t rank) const;
  std::vector<int64_t> axes(size_t i, size_t rank) const;

  std::string tensor(size_t i);
  std::string optional_tensor(size_t i) { return is_none(i) ? std::string() : tensor(i); }
  // A tensor or a number as a tensor of the data type.
  std::string operand(size_t i, DType dtype) { return operand(arg(i), dtype); }
  std::string operand(const Argument& argument, DType dtype);
  std::string scalar(double value, DType dtype) { return file_.scalar(value, dtype); }
  // The argument, a number.
  std::string scalar_of(size_t i, DType dtype);
  std::string integers_as_tensor(const std::vector<int64_t>& values);
  // A list of sizes, some of them nodes, as a vector; with `infers` a lone node becomes -1.
  std::string sizes(size_t i, bool infers) { return sizes(arg(i).list(), infers); }
  std::string sizes(const Argument::List& list, bool infers);
  // A list of ATen's pads (before and after the last axis, the one in front of it, ...) as ONNX wants them: all axes'
  // pads before, then all after.
  std::string pads(size_t i, size_t rank);
  // The data type that operands of different ones meet in.
  DType common_dtype(size_t i, size_t j) const;

  // A part of the node's computation.
  std::string emit(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes = {});
  // The same in another data type, if it is not in that one.
  std::string cast(const std::string& value, DType from, DType to);
  // A reduction over axes, all where there are none: attributes before opset 18, of sums an input since 13.
  std::string reduce(const std::string& op, const std::string& input, const std::vector<int64_t>& axes,
                     bool keeps_dims);
  // The node's result.
  void finish(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes = {});
  // The node's several results: a name for each, which some exporter then writes.
  std::vector<std::string> name_results(size_t count);
  // The name of the first of several results. Refuses a call of which others are read.
  std::string only_result();
  void same_as(const std::string& value) { file_.set(&node_, value); }

 private:
  [[noreturn]] void refuse_because(const PartKind* kinds, const MessagePart* parts) const;

  OnnxExport& file_;
  const Node& node_;
  const OpDef& op_;
};

// What a table says of a name, or null.
template <size_t N>
const char* onnx_name(const std::pair<std::string_view, const char*> (&table)[N], std::string_view name) {
  for (const auto& [known, op] : table)
    if (known == name) return op;
  return nullptr;
}

// Operators in place that write to what others read become functional ones, as far as values and their slices go, and
// what depends on constants alone and has no form in ONNX is computed. Buffers that are written, but that no output
// depends on, are left out. Returns the operators that still do so.
std::unordered_set<const Node*> prepare_to_write(Program& program);
// Whether nobody but the in-place operator sees what it writes to, in a program that was not prepared.
bool writes_alone(const Node* input);
// Adaptive pools over windows of any sizes.
void adaptive_pool(AtenCall& call);
// The mean of windows, rounded up in number, that count the padding. Where it counts padding, ONNX Runtime counts what
// is behind it, too, and it makes one of a pad and a pool if nothing else reads the pad.
std::string mean_with_padding(AtenCall& call, const std::string& input, const std::vector<int64_t>& kernel,
                              const std::vector<int64_t>& strides, const std::vector<int64_t>& padding);
// Whether a table has a form for the call's operator.
bool has_onnx_form(const Node& node);

// Sets the sizes and the data type of a call from its inputs. Whoever read a file knows more of its open sizes than the
// operators tell, which take them for as large as they can be: what a file says of an output is believed by those who
// read it.
void infer_anew(Node& node);

// An ATen operator that ONNX has or can spell.
struct AtenExporter {
  std::string_view name;  // "conv2d.default"
  void (*write)(AtenCall& call);
};
const AtenExporter* find_aten_exporter(std::string_view name);     // or null
const AtenExporter* find_complex_exporter(std::string_view name);  // of calls with complex tensors, or null
// The tables, one for each file write_*.cpp.
std::span<const AtenExporter> element_exporters();
std::span<const AtenExporter> attention_exporters();
std::span<const AtenExporter> composed_exporters();
std::span<const AtenExporter> composed_layer_exporters();
std::span<const AtenExporter> composed_place_exporters();
std::span<const AtenExporter> composed_rare_exporters();
std::span<const AtenExporter> layer_exporters();
std::span<const AtenExporter> control_exporters();
std::span<const AtenExporter> place_exporters();
std::span<const AtenExporter> signal_exporters();
std::span<const AtenExporter> size_exporters();
std::span<const AtenExporter> string_exporters();
std::span<const AtenExporter> tree_exporters();
std::span<const AtenExporter> view_exporters();

}  // namespace qdq
