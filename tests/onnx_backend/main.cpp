// Runs ONNX's backend tests: qdq_onnx_backend FOLDER... [--only PATTERN] [--bind] [--list WHICH] [--expected FILE].
#include <CLI/CLI.hpp>

#include <iostream>

#include "onnx_backend/onnx_backend.h"

int main(int argc, char** argv) {
  CLI::App app("Runs ONNX's backend tests and says which pass, by operator.", "qdq_onnx_backend");
  qdq::BackendTestOptions options;
  app.add_option("FOLDER", options.folders, "folders of cases")->required();
  app.add_option("--only", options.only, "only cases whose name matches, such as 'node/test_abs*'");
  app.add_flag("--bind", options.binds_constants, "try models that are refused with inputs but the first as constants");
  app.add_option("--list", options.list, "a line per case instead of the table")
      ->check(CLI::IsMember({"passed", "refused", "differing", "disputed", "failing"}));
  app.add_option("--expected", options.expected, "a list of the cases that fail; all others must pass");
  CLI11_PARSE(app, argc, argv);
  try {
    return qdq::run_backend_tests(options, qdq::disk(), std::cout);
  } catch (const std::exception& error) {
    std::cerr << "qdq_onnx_backend: " << error.what() << "\n";
    return 1;
  }
}
