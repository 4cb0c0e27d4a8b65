"""Networks of the kinds that people export, a page of PyTorch each: tests/beside/onnx_exports.py takes them through
qdq.

NETWORKS[name]() is a network, its inputs by name, and the open axes of each input. Weights are random.
"""

import torch
from export_images import (
    CenterNet,
    Codebook,
    Crnn,
    Decoder,
    Detr,
    Flow,
    Graph,
    GruState,
    HifiGan,
    MobileVit,
    PointNet,
    PyramidPool,
    Radiance,
    Recommender,
    Segformer,
    Segmenter,
    Spectrogram,
    SuperResolution,
    Unet,
    Vad,
    Video,
    WaveNet,
    Yolo,
)
from export_transformers import (
    HEADS,
    T5,
    WIDTH,
    Clip,
    Conformer,
    Experts,
    Gpt2,
    LinearAttention,
    Llama,
    Mamba,
    Roberta,
    StaticCache,
    Vit,
    WhisperDecoder,
    WhisperEncoder,
    ids,
    image,
)

BATCH = {0: "batch"}
LENGTH = {0: "batch", 1: "length"}

NETWORKS = {
    "vit": lambda: (Vit(), {"image": image()}, [BATCH]),
    "whisper_encoder": lambda: (WhisperEncoder(), {"mel": torch.randn(2, 40, 50)}, [{0: "batch", 2: "frames"}]),
    "whisper_decoder": lambda: (
        WhisperDecoder(),
        {"ids": ids(3), "encoded": torch.randn(2, 9, WIDTH)}
        | {name: torch.randn(2, HEADS, 5, 16) for name in ("past_key", "past_value")},
        [LENGTH, {0: "batch", 1: "frames"}, {0: "batch", 2: "past"}, {0: "batch", 2: "past"}],
    ),
    "llama": lambda: (Llama(False), {"ids": ids()}, [LENGTH]),
    "llama_cache": lambda: (
        Llama(True),
        {"ids": ids(3)} | {name: torch.randn(2, 2, 5, 16) for name in ("past_key", "past_value")},
        [LENGTH, {0: "batch", 2: "past"}, {0: "batch", 2: "past"}],
    ),
    **{
        f"cache_{how}": lambda how=how: (
            StaticCache(how),
            {"ids": ids(3), "place": torch.arange(4, 7)}
            | {n: torch.randn(2, HEADS, 20, 16) for n in ("keys", "values")},
            [BATCH, {}, BATCH, BATCH],
        )
        for how in ("index_put", "index_copy", "scatter")
    },
    "t5": lambda: (
        T5(),
        {"ids": ids(), "mask": (torch.arange(12) < torch.tensor([[12], [9]])).long()},
        [LENGTH, LENGTH],
    ),
    "gpt2": lambda: (Gpt2(), {"ids": ids()}, [LENGTH]),
    "roberta": lambda: (Roberta(), {"ids": torch.cat([ids(), torch.ones(2, 3, dtype=torch.long)], 1)}, [LENGTH]),
    "clip": lambda: (Clip(), {"pixels": image(), "ids": ids(batch=3)}, [{0: "images"}, {0: "texts", 1: "length"}]),
    "experts": lambda: (Experts(), {"x": torch.randn(2, 7, WIDTH)}, [LENGTH]),
    "conformer": lambda: (Conformer(), {"x": torch.randn(2, 20, WIDTH)}, [LENGTH]),
    "linear_attention": lambda: (LinearAttention(), {"x": torch.randn(2, 9, WIDTH)}, [LENGTH]),
    "mamba": lambda: (Mamba(), {"x": torch.randn(2, 9, WIDTH)}, [LENGTH]),
    "unet": lambda: (
        Unet(),
        {"sample": image(4, 16), "step": torch.tensor([7, 300]), "text": torch.randn(2, 5, WIDTH)},
        [BATCH, BATCH, {0: "batch", 1: "words"}],
    ),
    "decoder": lambda: (Decoder(), {"z": image(8, 8)}, [BATCH]),
    "yolo": lambda: (Yolo(), {"image": image()}, [BATCH]),
    "centernet": lambda: (CenterNet(), {"image": image()}, [BATCH]),
    "detr": lambda: (Detr(), {"image": image(), "mask": torch.rand(2, 64, 64) > 0.9}, [BATCH, BATCH]),
    "segmenter": lambda: (Segmenter(), {"image": image()}, [BATCH]),
    "segformer": lambda: (Segformer(), {"image": image()}, [BATCH]),
    "mobilevit": lambda: (MobileVit(), {"image": image()}, [BATCH]),
    "super_resolution": lambda: (SuperResolution(), {"x": torch.rand(2, 1, 24, 20)}, [BATCH]),
    "flow": lambda: (Flow(), {"first": image(), "second": image()}, [BATCH, BATCH]),
    "video": lambda: (Video(), {"clip": torch.randn(2, 3, 8, 32, 32)}, [BATCH]),
    "pyramid_pool": lambda: (PyramidPool(), {"image": image()}, [BATCH]),
    "crnn": lambda: (Crnn(), {"image": image(1, 32)}, [BATCH]),
    "vad": lambda: (
        Vad(),
        {"sound": torch.randn(2, 256), "hidden": torch.randn(2, 16), "cell": torch.randn(2, 16)},
        [BATCH] * 3,
    ),
    "gru_state": lambda: (
        GruState(),
        {"x": torch.rand(2, 6, 20), "state": torch.randn(2, 2, 24)},
        [BATCH, {1: "batch"}],
    ),
    "wavenet": lambda: (WaveNet(), {"x": torch.randn(2, 8, 40)}, [{0: "batch", 2: "length"}]),
    "hifigan": lambda: (HifiGan(), {"mel": torch.randn(2, 20, 12)}, [{0: "batch", 2: "frames"}]),
    "spectrogram": lambda: (Spectrogram(), {"sound": torch.randn(2, 800)}, [BATCH]),
    "pointnet": lambda: (PointNet(), {"points": torch.randn(2, 30, 3)}, [{0: "batch", 1: "points"}]),
    "graph": lambda: (
        Graph(),
        {"nodes": torch.randn(9, 16), "edges": torch.randint(0, 9, (2, 20))},
        [{0: "nodes"}, {1: "edges"}],
    ),
    "recommender": lambda: (
        Recommender(),
        {"kinds": torch.randint(0, 50, (4, 3)), "bags": torch.randint(0, 50, (4, 6)), "numbers": torch.randn(4, 4)},
        [BATCH] * 3,
    ),
    "codebook": lambda: (Codebook(), {"x": torch.randn(2, 8, 20)}, [BATCH]),
    "radiance": lambda: (Radiance(), {"points": torch.randn(5, 12, 3)}, [{0: "rays"}]),
}
