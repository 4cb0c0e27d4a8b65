#include "op/control_flow.h"

#include <unordered_map>

#include "exec/op_backend.h"

namespace qdq {
namespace {

class ControlFlowOp : public CompiledOp {
 public:
  void add(const Program& program, ProgramRunner runner) { runners_[&program] = std::move(runner); }

  Value run(const Call<Tensor>& call) override {
    return run_control_flow(
        call, [&](const Program& program, std::span<const Value> inputs) { return runners_.at(&program)(inputs); });
  }

 private:
  std::unordered_map<const Program*, ProgramRunner> runners_;
};

// The program of a call is made when the call comes; the one of the last call is kept.
class ExpandedOp : public CompiledOp {
 public:
  explicit ExpandedOp(ProgramPreparer prepare) : prepare_(std::move(prepare)) {}

  Value run(const Call<Tensor>& call) override {
    std::string key = expansion_key(call);
    if (program_ == nullptr || key != key_) {
      program_ = nullptr;
      Subprogram program = call.op().expand(call);
      runner_ = prepare_(*program);
      program_ = std::move(program);
      key_ = std::move(key);
    }
    return run_expansion(call, *program_,
                         [&](const Program&, std::span<const Value> inputs) { return runner_(inputs); });
  }

 private:
  ProgramPreparer prepare_;
  Subprogram program_;
  ProgramRunner runner_;
  std::string key_;
};

class ControlFlowOps : public OpBackend {
 public:
  ControlFlowOps(std::string_view name, ProgramPreparer prepare) : name_(name), prepare_(std::move(prepare)) {}

  std::string_view name() const override { return name_; }

  std::variant<std::unique_ptr<CompiledOp>, std::string> compile(const Node& node, const WrittenAttributes&) override {
    const OpDef* op = find_op(node.target());
    if (op == nullptr || op->family != Family::kControlFlow) return std::string();
    if (op->expand) return std::make_unique<ExpandedOp>(prepare_);
    auto out = std::make_unique<ControlFlowOp>();
    for (const Argument& argument : node.args())
      if (argument.is<Subprogram>()) {
        const Subprogram& program = argument.as<Subprogram>();
        out->add(*program, prepare_(*program));
      }
    return out;
  }

 private:
  std::string_view name_;
  ProgramPreparer prepare_;
};

}  // namespace

std::unique_ptr<OpBackend> make_control_flow_ops(std::string_view name, ProgramPreparer prepare) {
  return std::make_unique<ControlFlowOps>(name, std::move(prepare));
}

}  // namespace qdq
