"""Makes the text classifier of tests/golden/transformers_js: a BERT of two layers that tells whether more good or more
bad words stand in a sentence, with the tokenizer and the config that transformers.js wants beside it.

    python3 tests/golden/make_transformers_js.py

Run it in a Python with PyTorch 2.6 and onnx. It trains for a minute; every number follows from the seed.
"""

import json
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

FOLDER = Path(__file__).parent / "transformers_js"
GOOD = ["good", "great", "fine", "lovely", "bright", "warm", "kind", "happy"]
BAD = ["bad", "awful", "poor", "ugly", "dark", "cold", "rude", "sad"]
OTHER = [
    "the",
    "a",
    "film",
    "book",
    "day",
    "room",
    "was",
    "is",
    "and",
    "very",
    "with",
    "of",
    "it",
    "this",
    "that",
    "people",
    "story",
    "food",
]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHER]
WIDTH, HEADS, INNER, LAYERS, LONGEST = 64, 2, 128, 2, 32


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.output = nn.Linear(WIDTH, WIDTH)
        self.attention_norm, self.norm = nn.LayerNorm(WIDTH, eps=1e-12), nn.LayerNorm(WIDTH, eps=1e-12)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x, mask):
        batch, length, _ = x.shape

        def heads(y):
            return y.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + mask
        seen = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, WIDTH)
        x = self.attention_norm(x + self.output(seen))
        return self.norm(x + self.down(functional.gelu(self.up(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(len(WORDS), WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.pooler, self.classifier = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, input_ids, attention_mask, token_type_ids):
        places = torch.arange(input_ids.shape[1]).unsqueeze(0)
        x = self.norm(self.words(input_ids) + self.places(places) + self.kinds(token_type_ids))
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


def batch_of(count):
    """Sentences with more good words (1) or more bad ones (0)."""
    ids = torch.zeros(count, LONGEST // 2, dtype=torch.int64)
    labels = torch.zeros(count, dtype=torch.int64)
    for row in range(count):
        length = int(torch.randint(3, LONGEST // 2 - 2, ()))
        words = torch.randint(5 + len(GOOD) + len(BAD), len(WORDS), (length,))
        strong = int(torch.randint(1, length // 2 + 1, ()))
        good = int(torch.randint(0, strong + 1, ()))
        good += 2 * good == strong
        places = torch.randperm(length)[:strong]
        for i, place in enumerate(places):
            words[place] = int(torch.randint(5, 13, ())) if i < good else int(torch.randint(13, 21, ()))
        ids[row, 0], ids[row, 1 : length + 1], ids[row, length + 1] = 2, words, 3
        labels[row] = int(2 * good > strong)
    return ids, labels


def trained():
    torch.manual_seed(19)
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(400):
        ids, labels = batch_of(64)
        loss = functional.cross_entropy(model(ids, (ids != 0).long(), torch.zeros_like(ids)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")
    return model.eval()


def main():
    (FOLDER / "onnx").mkdir(parents=True, exist_ok=True)
    model = trained()
    ids, _ = batch_of(2)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model,
        (ids, (ids != 0).long(), torch.zeros_like(ids)),
        FOLDER / "onnx/model.onnx",
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch_size", 1: "sequence_length"} for name in names} | {"logits": {0: "batch_size"}},
        opset_version=17,
        dynamo=False,
    )
    special = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    added = [
        {"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        | {"special": True}
        for word, i in special.items()
    ]
    one, two = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    mark = {word: {"SpecialToken": {"id": word, "type_id": 0}} for word in special}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
        | {"strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [mark["[CLS]"], one, mark["[SEP]"]],
            "pair": [mark["[CLS]"], one, mark["[SEP]"], two, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {
                word: {"id": word, "ids": [special[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
        | {"max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)}},
    }
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "vocab_size": len(WORDS),
        "pad_token_id": 0,
        "id2label": {"0": "BAD", "1": "GOOD"},
        "label2id": {"BAD": 0, "GOOD": 1},
    }
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": LONGEST}
    settings |= {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    for name, content in (("tokenizer", tokenizer), ("config", config), ("tokenizer_config", settings)):
        (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
