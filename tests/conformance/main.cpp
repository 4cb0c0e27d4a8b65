// Compares what this build computes with golden cases made by PyTorch: qdq_conformance FOLDER.
#include <iostream>

#include "conformance/conformance.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: qdq_conformance FOLDER, a case or a folder of cases\n";
    return 2;
  }
  try {
    return qdq::run_conformance(argv[1], qdq::disk(), std::cout);
  } catch (const std::exception& error) {
    std::cerr << "qdq_conformance: " << error.what() << "\n";
    return 1;
  }
}
