// Quantizes the shapes classifier from C++ as `qdq quantize` does, by the recipe and the images beside it: load,
// prepare, calibrate, convert, save, evaluate.
//   quantize_shapes EXAMPLES/shapes OUT.pt2
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <qdq/qdq.h>

namespace {

void quantize(const std::string& shapes, const std::string& out) {
  qdq::Program program = qdq::load_model(shapes + "/model.pt2").program;
  const qdq::DataOptions options{.preprocess = shapes + "/preprocess.json"};
  const auto calibration = qdq::open_data(shapes + "/calibration", program, options);
  const auto test = qdq::open_data(shapes + "/test", program, options);
  qdq::Classes classes = qdq::read_classes(shapes + "/classes.txt", qdq::count_classes(program));
  const std::vector<int64_t> labels = qdq::read_labels(shapes + "/test/labels.csv", *test, classes);

  const auto quantizer = qdq::load_recipe(shapes + "/recipe.json");
  qdq::Prepared prepared = qdq::prepare_pt2e(std::move(program), *quantizer);
  for (int64_t i = 0; i < calibration->num_batches(); ++i) prepared.run(calibration->batch(i));
  const qdq::Program quantized = qdq::convert_pt2e(prepared);
  const qdq::ModelFiles files = qdq::save_program(quantized, out);
  files.write(qdq::disk());

  qdq::Session session = qdq::lower(quantized);
  qdq::Answers answers;
  for (int64_t i = 0; i < test->num_batches(); ++i) answers.add(session.run(test->batch(i)), out);
  const int64_t first = answers.all().front().top.front().label;
  std::printf("calibrated on %lld images, wrote %zu bytes; the first image is of class %s, and %.2f %% are right\n",
              static_cast<long long>(calibration->num_samples()), static_cast<size_t>(files.size()),
              classes.names[static_cast<size_t>(first)].c_str(), answers.top(1, labels));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: quantize_shapes EXAMPLES/shapes OUT.pt2\n");
    return 2;
  }
  try {
    quantize(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
