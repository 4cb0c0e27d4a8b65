#!/usr/bin/env python3
"""Cases of FX graph mode of networks that no other case has, for `./dev conformance FOLDER`.

  python3 tests/beside/fx_networks.py FOLDER [NAME ...]      in a Python with PyTorch 2.6 and torchvision

Eight networks of torchvision have initial weights, images of 64 x 64, and the default mapping of x86. In networks this
deep a single rounding that falls to the other side moves all that follows, so they are compared layer by layer
(tests/conformance/fx_layers.h): every observer on the tensors that PyTorch's saw, every layer on the integers that
PyTorch's has in front of it. The 22 small networks of networks.py are compared as all cases are, by four recipes each.
"""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "golden"))

from networks import NETWORKS

OF_TORCHVISION = (
    "resnet18",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "squeezenet1_1",
    "shufflenet_v2_x0_5",
    "googlenet",
    "regnet_y_400mf",
)
RECIPES = {
    "x86": ({"default": "x86"}, "onednn"),
    "qnnpack": ({"default": "qnnpack"}, "qnnpack"),
    "dynamic": ({"global": {"named": "default_dynamic_qconfig"}}, "qnnpack"),
    "qat": ({"default": "x86", "qat": True}, "onednn"),
}


def cases(name):
    """(case, model, recipe, shapes, engine, whether layer by layer)"""
    if name in NETWORKS:
        make, shapes = NETWORKS[name]
        for kind, (recipe, engine) in RECIPES.items():
            yield f"{name}_{kind}", make(), dict(recipe), shapes, engine, False
        return
    import torchvision

    torch.manual_seed(0)
    options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    model = getattr(torchvision.models, name)(weights=None, **options)
    yield name, model, {"default": "x86"}, [(2, 3, 64, 64)], "onednn", True


def main():
    from make_fx import make_case, mapping_of

    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or (*OF_TORCHVISION, *NETWORKS):
        for case, model, recipe, shapes, engine, by_layer in cases(name):
            torch._dynamo.reset()
            make_case(folder, case, model, mapping_of(recipe), recipe, shapes, engine, by_layer=by_layer)
            print("made", case, flush=True)


if __name__ == "__main__":
    main()
