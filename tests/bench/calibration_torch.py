"""The peers of calibration.py: exports the models, and times the same job in PyTorch and in ONNX Runtime.

  python3 calibration_torch.py export FOLDER
      NAME.pt2, NAME.npz and NAME.onnx for every torchvision model of MODELS
  python3 calibration_torch.py torch FOLDER NAME IMAGES QUANTIZER BATCH
      .pt2 in, prepare, calibrate, convert, export, .pt2 out
  python3 calibration_torch.py ort FOLDER NAME IMAGES
      ONNX Runtime's quantize_static with MinMax, image after image

The last two print the CPU seconds of the calibration alone (of ONNX Runtime: of the whole of quantize_static).
"""

import os
import sys
import time
import warnings
from pathlib import Path

# Before any library starts threads: those that only wait would be counted, several times the work on a busy machine.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "beside"))

warnings.filterwarnings("ignore")
MODELS = ("resnet18", "resnet50", "mobilenet_v2")
IMAGES = 96  # in the file; a run takes the first of them


def export(folder):
    import torch
    import torchvision

    for name in MODELS:
        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(weights=None).eval()
        # Batch norm with running statistics of a forward pass, so that activations keep a realistic scale.
        model.train()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(8, 3, 224, 224))
        model.eval()
        example = (torch.randn(2, 3, 224, 224),)
        batch = torch.export.Dim("batch", min=1, max=1024)
        program = torch.export.export_for_training(model, example, dynamic_shapes=({0: batch},), strict=True)
        torch.export.save(program, f"{folder}/{name}.pt2")
        images = torch.randn(IMAGES, 3, 224, 224, generator=torch.Generator().manual_seed(1)).numpy()
        numpy.savez(f"{folder}/{name}.npz", x=images)
        torch.onnx.export(
            model, (torch.randn(1, 3, 224, 224),), f"{folder}/{name}.onnx", input_names=["x"], dynamo=False
        )


def images_of(folder, name, count):
    with numpy.load(f"{folder}/{name}.npz") as arrays:
        return next(iter(arrays.values()))[:count]


def quantize_by_torch(folder, name, count, quantizer, batch):
    import torch
    from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e

    from positional import positional

    torch.set_num_threads(1)
    graph = positional(torch.export.load(f"{folder}/{name}.pt2").module())
    images = torch.from_numpy(images_of(folder, name, count))
    if quantizer == "x86-inductor":
        from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86

        chosen = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    else:
        from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

        chosen = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    with torch.no_grad():
        prepared = prepare_pt2e(graph, chosen)
        start = time.process_time()
        for part in images.split(batch):
            prepared(part)
        print(f"seconds {time.process_time() - start:.4f}")
        converted = convert_pt2e(prepared)
        torch.export.save(torch.export.export(converted, (images[:batch],)), f"{folder}/{name}.torch.pt2")


def quantize_by_ort(folder, name, count):
    import onnx.reference  # noqa: F401  registers operators, and refuses to once onnxruntime has registered its own
    import onnxruntime
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    # The calibrator opens sessions of its own, and takes no options for them.
    session = onnxruntime.InferenceSession

    def session_of_one_thread(model, sess_options=None, **kwargs):
        sess_options = sess_options or onnxruntime.SessionOptions()
        sess_options.intra_op_num_threads = 1
        return session(model, sess_options, **kwargs)

    onnxruntime.InferenceSession = session_of_one_thread

    class Images(CalibrationDataReader):
        def __init__(self):
            self.images = iter(images_of(folder, name, count))

        def get_next(self):
            image = next(self.images, None)
            return None if image is None else {"x": image[None]}

    start = time.process_time()
    quantize_static(
        f"{folder}/{name}.onnx",
        f"{folder}/{name}.ort.onnx",
        Images(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
    )
    print(f"seconds {time.process_time() - start:.4f}")


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(sys.argv[2])
    elif sys.argv[1] == "torch":
        quantize_by_torch(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6]))
    else:
        quantize_by_ort(sys.argv[2], sys.argv[3], int(sys.argv[4]))
