"""Makes tests/golden/format/{gradient*, image.npz}: small images in all formats that qdq decodes, and what Pillow and
torchvision make of them.

Run in this folder with Pillow 11.1.0 and torchvision 0.21.0.
"""

import numpy as np
import PIL
import torchvision
import torchvision.transforms.functional as F
from PIL import Image

versions = (PIL.__version__, torchvision.__version__.split("+")[0])
assert versions == ("11.1.0", "0.21.0"), versions

H, W = 26, 35
y, x = np.mgrid[0:H, 0:W]
pixels = np.stack([x * 7, y * 9, (x * y) % 256], -1).astype(np.uint8)
pixels[8:14, 10:20] = [250, 20, 128]
image = Image.fromarray(pixels)
image.save("format/gradient.png")
image.save("format/gradient.bmp")
image.save("format/gradient.jpg", quality=90)
image.convert("L").save("format/gradient_gray.png")
image.convert("RGBA").save("format/gradient_rgba.png")


def planes(picture):
    array = np.asarray(picture)
    return array.reshape(*array.shape[:2], -1).transpose(2, 0, 1)


decoded = np.asarray(Image.open("format/gradient.jpg").convert("RGB"))
arrays = {"pixels": pixels, "jpeg": decoded, "gray": planes(image.convert("L"))}
for name, filter in (
    ("nearest", Image.NEAREST),
    ("bilinear", Image.BILINEAR),
    ("bicubic", Image.BICUBIC),
    ("area", Image.BOX),
):
    arrays[name + "_down"] = planes(image.resize((13, 11), filter))
    arrays[name + "_up"] = planes(image.resize((50, 41), filter))
arrays["short_side"] = planes(F.resize(image, 17))
arrays["crop"] = planes(F.center_crop(image, [9, 12]))
normalized = F.normalize(F.to_tensor(image), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).numpy()
arrays["normalized"] = normalized
np.savez_compressed("format/image.npz", **arrays)
