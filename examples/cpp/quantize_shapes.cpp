// Quantizes the shapes classifier from C++: load, prepare, calibrate, convert, save, run.
//   quantize_shapes EXAMPLES/shapes OUT.pt2
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "qdq.h"

namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw qdq::Error(qdq::ErrorCode::kIo, path.string() + " cannot be read");
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

qdq::Tensor load_image(const std::filesystem::path& path) {
  qdq::format::Preprocess to_input;  // as in preprocess.json
  to_input.mean = {0.5f};
  to_input.std = {0.215f};
  return qdq::format::preprocess(qdq::format::decode_image(read_file(path)), to_input).unsqueeze(0);
}

int quantize(const std::filesystem::path& shapes, const std::filesystem::path& out) {
  qdq::XNNPACKQuantizer quantizer;
  quantizer.set_global(qdq::get_symmetric_quantization_config({.is_per_channel = true}));

  qdq::Prepared prepared = qdq::prepare_pt2e(qdq::load_pt2(read_file(shapes / "model.pt2")), quantizer);
  std::set<std::filesystem::path> images;
  for (const auto& entry : std::filesystem::directory_iterator(shapes / "calibration"))
    if (entry.path().extension() == ".png") images.insert(entry.path());
  for (const std::filesystem::path& image : images) prepared.run({load_image(image)});

  const qdq::Program quantized = qdq::convert_pt2e(prepared);
  const std::vector<std::byte> bytes = qdq::save_pt2(quantized);
  std::ofstream(out, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));

  qdq::Session session = qdq::lower(quantized);
  const qdq::Tensor logits = session.run({{load_image(*images.begin())}})[0];
  const auto scores = logits.span<float>();
  const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
  std::printf("calibrated on %zu images, wrote %zu bytes; the first image is of class %td\n", images.size(), bytes.size(), best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: quantize_shapes EXAMPLES/shapes OUT.pt2\n");
    return 2;
  }
  try {
    return quantize(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
