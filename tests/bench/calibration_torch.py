"""The PyTorch side of calibration.py: exports the models, and times PyTorch's own PT2E calibration of them.

  python3 calibration_torch.py export FOLDER            NAME.pt2 and NAME.npz for every torchvision model of MODELS
  python3 calibration_torch.py time FOLDER NAME QUANTIZER BATCH   prints the seconds that the calibration loop took
"""
import sys
import time
import warnings
from pathlib import Path

import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from positional import positional  # noqa: E402

warnings.filterwarnings("ignore")
MODELS = ("resnet18", "mobilenet_v2")
IMAGES = 32


def export(folder):
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


def calibrate(folder, name, quantizer, batch):
    from torch.ao.quantization.quantize_pt2e import prepare_pt2e

    torch.set_num_threads(1)
    graph = positional(torch.export.load(f"{folder}/{name}.pt2").module())
    with numpy.load(f"{folder}/{name}.npz") as arrays:
        images = torch.from_numpy(next(iter(arrays.values())))
    if quantizer == "x86-inductor":
        from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86

        chosen = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    else:
        from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

        chosen = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    with torch.no_grad():
        prepared = prepare_pt2e(graph, chosen)
        start = time.perf_counter()
        for part in images.split(batch):
            prepared(part)
        print(f"seconds {time.perf_counter() - start:.4f} images {len(images)}")


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(sys.argv[2])
    else:
        calibrate(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
