"""How far PyTorch is from itself on an int8 model: the same file and inputs with and without oneDNN, with one thread
and two, in batches of 1 and 20. The smallest change of a float sum moves an integer somewhere, and the layers behind it
spread that; what is left at the outputs is the noise that any other way of running the model must be measured against.

  python3 tests/bench/torch_spread.py MODEL.int8.pt2 TEST.npz LABELS.npy [NAME=OUTPUTS.npz ...]

It needs PyTorch 2.6 and NumPy. OUTPUTS are what `qdq run` made of the same inputs. Prints the top-1 of each, on how
many inputs the two largest outputs are equal, and for each pair how many outputs differ and on how many inputs the
class does.
"""

import sys

import numpy
import torch
import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed operators

WAYS = {
    "PyTorch, batch 20": (True, 1, 20),
    "batch 1": (True, 1, 1),
    "two threads": (True, 2, 20),
    "without oneDNN": (False, 1, 20),
}


def main():
    graph = torch.export.load(sys.argv[1]).module()
    inputs = numpy.load(sys.argv[2])["arr_0"]
    labels = numpy.load(sys.argv[3])
    outputs = {}
    for way, (mkldnn, threads, batch) in WAYS.items():
        torch.set_num_threads(threads)
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=mkldnn):
            parts = [graph(torch.from_numpy(inputs[i : i + batch])).numpy() for i in range(0, len(inputs), batch)]
        outputs[way] = numpy.concatenate(parts)
    for other in sys.argv[4:]:
        name, path = other.split("=", 1)
        arrays = numpy.load(path)
        outputs[name] = arrays[arrays.files[0]]
    first = next(iter(outputs.values()))
    for name, logits in outputs.items():
        classes = logits.argmax(1)
        ties = ((logits == logits.max(1, keepdims=True)).sum(1) > 1).sum()
        text = f"{name:22} top-1 {(classes == labels).mean() * 100:.2f}, {ties} ties;"
        if logits is not first:
            apart = [
                f"{(logits != other).mean() * 100:.2f} % of outputs, "
                f"class of {(classes != other.argmax(1)).sum()}, from {their}"
                for their, other in outputs.items()
                if other is not logits and their in ("PyTorch, batch 20", "without oneDNN")
            ]
            text += " differs in " + "; ".join(apart)
        print(text, flush=True)


main()
