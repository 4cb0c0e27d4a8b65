// Each layer of a converted program by itself. In a deep network one rounding that falls to the other side moves all
// behind it, and then outputs no longer tell whether two programs are the same. Here every layer gets the integers that
// PyTorch's model has in front of it, so that a difference is that layer's own.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conformance/conformance.h"
#include "exec/interpreter.h"

namespace qdq::conformance {

class Layers {
 public:
  // `quantizers`: the quantize operators of the program, and the dequantize in the case's reference graph for each.
  Layers(const ConformanceCase& c, const Program& converted,
         const std::vector<std::pair<std::string, std::string>>& quantizers)
      : case_(c), program_(converted) {
    for (const auto& [quantize, theirs] : quantizers) {
      const Node* node = converted.graph->find(quantize);
      if (node == nullptr) differ("the converted program has no ", quantize);
      theirs_[node].push_back(theirs);
    }
  }

  // The outputs of test `t`, each layer on PyTorch's integers. Throws Mismatch where an integer differs although the
  // number that it was rounded from is not in the middle between two.
  std::vector<Tensor> run(size_t t, const std::vector<Tensor>& inputs) {
    Interpreter interpreter(program_, {});
    Interpreter::Walk walk(interpreter, inputs);
    while (const Node* node = walk.next()) {
      const auto theirs = theirs_.find(node);
      if (theirs == theirs_.end()) {
        walk.advance();
        continue;
      }
      const Tensor real = *walk.value(*node->arg(0).node()).get_if<Tensor>();
      walk.advance();
      const Tensor ours = *walk.value(*node).get_if<Tensor>();
      for (const std::string& name : theirs->second)
        compare(*node, real, ours, case_.array("expected.npz", concat("layer_", name, "_t", t)));
      walk.set_value(*node, case_.array("expected.npz", concat("layer_", theirs->second[0], "_t", t)));
    }
    return walk.outputs();
  }

 private:
  // A float sum in another order is another number, by a few units in its last place.
  static constexpr double kTie = 1e-3;  // steps

  void compare(const Node& quantize, const Tensor& real, const Tensor& ours, const Tensor& theirs) const {
    if (ours.dtype() != theirs.dtype() || ours.sizes() != theirs.sizes())
      differ(quantize.name(), " gives ", to_string(ours.dtype()), " ", to_string(ours.sizes()), ", PyTorch has ",
             to_string(theirs.dtype()), " ", to_string(theirs.sizes()));
    const std::vector<double> x = numbers_of(real), a = numbers_of(ours), b = numbers_of(theirs);
    const double scale = quantize.arg(1).number().value();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      const double steps = x[i] / scale, middle = std::fabs(std::fabs(steps - std::floor(steps)) - 0.5);
      if (std::fabs(a[i] - b[i]) > 1 || middle > kTie)
        differ(quantize.name(), "[", i, "] rounds ", steps, " steps to ", a[i], ", PyTorch has ", b[i],
               " for the same integers in front of the layer");
    }
  }

  const ConformanceCase& case_;
  const Program& program_;
  std::map<const Node*, std::vector<std::string>> theirs_;
};

}  // namespace qdq::conformance
