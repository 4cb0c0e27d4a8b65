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
        call, [&](const Program& program, std::span<const Tensor> inputs) { return runners_.at(&program)(inputs); });
  }

 private:
  std::unordered_map<const Program*, ProgramRunner> runners_;
};

class ControlFlowOps : public OpBackend {
 public:
  ControlFlowOps(std::string_view name, ProgramPreparer prepare) : name_(name), prepare_(std::move(prepare)) {}

  std::string_view name() const override { return name_; }

  std::variant<std::unique_ptr<CompiledOp>, std::string> compile(const Node& node, const Program&) override {
    const OpDef* op = find_op(node.target());
    if (op == nullptr || op->family != Family::kControlFlow) return std::string();
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
