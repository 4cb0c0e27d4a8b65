"""Checks in PyTorch that programs saved by qdq compute what the originals compute.

    QDQ_RESAVE_FROM=FROM QDQ_RESAVE_TO=TO io_test --gtest_filter=SavePt2.WritesFilesForPyTorch
    python3 check_io.py FROM TO

Both programs of a pair get the same random inputs, twice, and must give the same bits; buffers that they change must
agree too. A file that this PyTorch cannot load, such as the archives of newer ones, is compared with the model.pt2 or
NAME.pt2 beside it.
"""

import pathlib
import sys
import warnings

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
TWINS = {
    "model_torch2.14": "model",
    "shared_archive": "shared",
    "shared_archive28": "shared",
    "arguments_archive": "arguments",
}


def load(path):
    try:
        return torch.export.load(path)
    except Exception:
        twin = path.with_stem(TWINS.get(path.stem, path.stem))
        if twin == path:
            raise
        return torch.export.load(twin)


def example(ep):
    values = []
    names = {spec.arg.name: spec.arg for spec in ep.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
    for node in ep.graph.nodes:
        if node.op != "placeholder" or node.name not in names:
            continue
        if isinstance(names[node.name], torch.export.graph_signature.ConstantArgument):
            values.append(names[node.name].value)
            continue
        meta = node.meta["val"]
        shape = [int(s) if isinstance(s, int) else 3 for s in meta.shape]
        if meta.dtype.is_floating_point:
            values.append(torch.randn(shape).to(meta.dtype))
        else:
            values.append(torch.randint(0, 2, shape).to(meta.dtype))
    spec = ep.module_call_graph[0].signature.in_spec
    return pytree.tree_unflatten(values, spec)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype and a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
            if a.dtype.is_floating_point
            else torch.equal(a, b)
        )
    return a == b


def check(original, saved):
    a, b = load(original), torch.export.load(saved)
    args, kwargs = example(a)
    first, second = a.module(), b.module()
    for _ in range(2):
        x, y = first(*args, **kwargs), second(*args, **kwargs)
        if pytree.tree_structure(x) != pytree.tree_structure(y):
            return "the outputs have another structure"
        if not all(same(p, q) for p, q in zip(pytree.tree_leaves(x), pytree.tree_leaves(y))):
            return "the outputs differ"
    mine, theirs = dict(second.named_buffers()), dict(first.named_buffers())
    if not all(same(mine[name], theirs[name]) for name in mine):
        return "buffers differ afterwards"
    torch.export.save(b, saved.with_suffix(".again"))
    try:
        torch.export.unflatten(a)
    except Exception:
        return None
    torch.export.unflatten(b)
    return None


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    failed = 0
    paths = sorted(source.rglob("*.pt2"))
    for path in paths:
        torch.manual_seed(0)
        saved = target / path.relative_to(source)
        try:
            problem = check(path, saved)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:600]}"
        if problem:
            failed += 1
            print(path.relative_to(source), problem)
    print(f"{len(paths)} programs, {failed} failed")
    sys.exit(failed > 0)


main()
