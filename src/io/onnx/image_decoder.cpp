// ONNX's ImageDecoder, by the reader of images that data has: JPEG, PNG and BMP.
#include "format/image.h"
#include "io/onnx/import.h"
#include "op/custom.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The sizes stand in the image.
MetaValue infer_image(const Call<TensorMeta>&) { return {}; }

// [H, W, 3] in the order of the format, or [H, W, 1].
Value decode(const Call<Tensor>& call) {
  const Tensor bytes = call.tensor(0).contiguous();
  const std::string& order = call.string(1);
  QDQ_CHECK(bytes.dtype() == DType::kU8 && bytes.dim() == 1, kInvalidArgument, call.op().target,
            " needs the bytes of an image, uint8 [N], found ", to_string(bytes.dtype()), to_string(bytes.sizes()));
  const Tensor image = format::decode_image({bytes.raw(), bytes.nbytes()}, "the image that ImageDecoder reads");
  if (order == "RGB") return image;
  format::Preprocess how;
  how.grayscale = order == "Grayscale";
  how.bgr = order == "BGR";
  QDQ_CHECK(how.grayscale || how.bgr, kUnsupported, call.op().target, " has the pixel_format ", order,
            ", wanted RGB, BGR or Grayscale");
  how.scale = 1;
  how.channels_last = true;
  return format::preprocess(image, how).to(DType::kU8);
}

}  // namespace

void register_image_decoder() {
  static const bool is_done = [] {
    if (find_op(op::target("onnx.ImageDecoder.default")) == nullptr)  // a program's own beats this one
      register_operator(
          {"onnx::ImageDecoder(Tensor encoded_stream, *, str pixel_format='RGB') -> Tensor", infer_image, decode});
    return true;
  }();
  static_cast<void>(is_done);
}

}  // namespace qdq
