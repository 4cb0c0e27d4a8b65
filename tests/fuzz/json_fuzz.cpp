// Fuzz target of JSON and of the preprocessing that is read from it.
#include "format/json.h"

#include "format/image.h"
#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(json)(const uint8_t* data, size_t size) {
  using namespace qdq;
  fuzz::refusable([&] {
    const format::Json json = format::parse_json(format::text_of(fuzz::input(data, size)), "the input");
    const std::string text = format::print_json(json);
    QDQ_CHECK(format::print_json(format::parse_json(text, "the output")) == text, kInternal,
              "a value did not survive printing: ", text);
    const Tensor image = Tensor::empty({5, 7, 3}, DType::kU8);
    const format::Preprocess how = format::parse_preprocess(json);
    // Larger pictures are right but slow.
    for (const int64_t extent : how.resize)
      if (extent > 64) return;
    format::preprocess(image, how);
  });
  return 0;
}
