"""What the scripts make_*.py share that write tests/golden/programs: .pt2 files and what PyTorch computes.

A file holds, for a program NAME: NAME/model, the bytes of the .pt2; NAME/input_K_0, ... and NAME/output_K_0, ... of
its run K.
"""

import json
import pathlib
import tempfile
import zipfile

import numpy as np
import torch
from torch.utils import _pytree as pytree

from pt2_layout import members, write_zip

OUT = pathlib.Path(__file__).parent / "programs"
arrays = {}


def forget_traces(graph):
    """They name folders of the machine."""
    for node in graph["nodes"]:
        node["metadata"].pop("stack_trace", None)
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                forget_traces(argument["arg"]["as_graph"]["graph"])


def add(name, module, runs, dynamic_shapes=None, decomposed=False):
    """A program: what export makes of the module for the first run, and the outputs of all runs, one after the other.

    `decomposed` is True for PyTorch's decompositions, or a table of them; an empty one makes the program functional.
    """
    ep = torch.export.export(module.eval(), runs[0], dynamic_shapes=dynamic_shapes)
    if decomposed is not False:
        ep = ep.run_decompositions(None if decomposed is True else decomposed)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.pt2"
        torch.export.save(ep, path)
        files = members(path)
        program = json.loads(files["serialized_exported_program.json"])
        forget_traces(program["graph_module"]["graph"])
        files["serialized_exported_program.json"] = json.dumps(program).encode()
        write_zip(path, files, zipfile.ZIP_DEFLATED)
        arrays[f"{name}/model"] = np.frombuffer(path.read_bytes(), "uint8")
    for k, inputs in enumerate(runs):
        with torch.no_grad():
            results = pytree.tree_leaves(module(*inputs))
        for kind, tensors in (("input", inputs), ("output", results)):
            for i, tensor in enumerate(tensors):
                arrays[f"{name}/{kind}_{k}_{i}"] = tensor.resolve_conj().numpy()


def save(name):
    OUT.mkdir(exist_ok=True)
    np.savez_compressed(OUT / f"{name}.npz", **arrays)
