// What PyTorch's optimizers, schedules and distillation compute (tests/golden/train/optim.json, made by make_optim.py).
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "source_dir.h"
#include "tensor/tensor.h"

namespace qdq {

inline nlohmann::ordered_json optim_golden(const std::string& section) {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/train/optim.json");
  return nlohmann::ordered_json::parse(file).at(section);
}

inline Tensor floats_of(const nlohmann::ordered_json& list, const Shape& sizes) {
  return Tensor::of<float>(sizes, list.get<std::vector<float>>());
}

}  // namespace qdq
