"""Exported programs with one thing broken each, to be refused by name or run: files for qdq_onnx_fuzz --each.

  python3 tests/fuzz/broken_pt2.py FOLDER [--seed S] [--count N]

Writes N files, NUMBER_WHAT.pt2, made of the small programs of tests/golden and examples: a value of the JSON that says
what the program is, or a member of the archive.
"""

import argparse
import io
import json
import random
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("serialized_exported_program.json", "models/model.json")
NUMBERS = [0, -1, 1, 2, 7, 255, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)]
NUMBERS += [1 << 64, 10**40, 0.5, -1e38, 1e308]
TEXTS = ["", "x", "relu", "s0", "s0*s0", "-s0", "torch.ops.aten.add.Tensor", "torch.ops.aten.conv2d.default", "../x"]
TEXTS += ["a" * 5000, "\x1b[31m", "\ud83d", "__proto__", "s" + "0" * 300, "Mod(s0, 0)", "(" * 3000, "2**(2**99)"]
BREAKS = []


class Nothing(Exception):
    """The program does not have what would be broken."""


def breaks(function):
    BREAKS.append(function)
    return function


def places(value, found):
    """(container, key) of everything in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        places(inner, found)
    return found


def place(program, r, kinds=(object,)):
    """Mostly one of the graph, which is smaller than what stands around it."""
    part = program["graph_module"]["graph"] if r.random() < 0.8 else program
    found = [(c, k) for c, k in places(part, []) if isinstance(c[k], kinds) and not isinstance(c[k], bool)]
    if not found:
        raise Nothing
    return r.choice(found)


@breaks
def other_number(program, r):
    container, key = place(program, r, (int, float))
    container[key] = r.choice(NUMBERS)


@breaks
def other_text(program, r):
    container, key = place(program, r, (str,))
    other, at = place(program, r, (str,))
    container[key] = r.choice([*TEXTS, other[at], other[at]])


@breaks
def other_kind(program, r):
    container, key = place(program, r)
    container[key] = r.choice([None, True, [], {}, 0, 1.5, "x", [[]], [None], {"": None}])


@breaks
def missing(program, r):
    container, key = place(program, r)
    del container[key]


@breaks
def swapped(program, r):
    (a, i), (b, k) = place(program, r), place(program, r)
    a[i], b[k] = b[k], a[i]


@breaks
def copied(program, r):
    (a, i), (b, k) = place(program, r), place(program, r)
    a[i] = json.loads(json.dumps(b[k]))


@breaks
def longer(program, r):
    container, key = place(program, r, (list,))
    container[key] += container[key][-1:] * r.choice([1, 2, 50])


@breaks
def turned(program, r):
    container, key = place(program, r, (list,))
    container[key].reverse()


@breaks
def deeper(program, r):
    container, key = place(program, r)
    for _ in range(r.choice([1, 100, 5000])):
        container[key] = [container[key]]


@breaks
def other_size(program, r):
    values = program["graph_module"]["graph"]["tensor_values"]
    meta = values[r.choice(sorted(values))]
    part = meta[r.choice([k for k in ("sizes", "strides") if meta.get(k)] or ["dtype"])]
    if not isinstance(part, list):
        raise Nothing
    part[r.randrange(len(part))] = {"as_int": r.choice(NUMBERS)}


@breaks
def other_dtype(program, r):
    values = program["graph_module"]["graph"]["tensor_values"]
    values[r.choice(sorted(values))]["dtype"] = r.choice([-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 28, 29, 99])


@breaks
def other_target(program, r):
    nodes = program["graph_module"]["graph"]["nodes"]
    r.choice(nodes)["target"] = r.choice(TARGETS)


def text_of(program):
    """With lists in lists as deep as they are made, and with surrogates as they are."""
    return json.dumps(program)


def with_other_member(members, r):
    """Bytes of a member changed, cut off, exchanged for another's, or left out."""
    name = r.choice(sorted(members))
    way = r.randrange(5)
    data = bytearray(members[name])
    if way == 0 and data:
        for _ in range(r.choice([1, 4, 40])):
            data[r.randrange(len(data))] = r.randrange(256)
    elif way == 1:
        data = data[: r.randrange(len(data) + 1)]
    elif way == 2:
        data = members[r.choice(sorted(members))]
    elif way == 3:
        data = None
    else:
        data = data + bytes(r.randrange(256) for _ in range(40))
    if data is None:
        del members[name]
    else:
        members[name] = bytes(data)
    return "member"


def archive(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


TARGETS = []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    models = []
    for part in ("tests/golden", "examples"):
        for path in sorted((ROOT / part).rglob("*.pt2")):
            with zipfile.ZipFile(path) as file:
                members = {name: file.read(name) for name in file.namelist()}
            found = [name for name in members if name.endswith(PROGRAMS)]
            if path.stat().st_size < 60000 and found:
                models.append((members, found[0]))
                nodes = json.loads(members[found[0]])["graph_module"]["graph"]["nodes"]
                TARGETS.extend({node["target"] for node in nodes} - set(TARGETS))
    r, written = random.Random(options.seed), 0
    while written < options.count:
        members, name = r.choice(models)
        members = dict(members)
        if r.random() < 0.15:
            what = with_other_member(members, r)
        else:
            program, change = json.loads(members[name]), r.choice(BREAKS)
            try:
                change(program, r)
                members[name] = text_of(program).encode("utf-8", "surrogatepass")
            except (Nothing, KeyError, TypeError, IndexError, RecursionError, ValueError):
                continue
            what = change.__name__
        (folder / f"{written:06d}_{what}.pt2").write_bytes(archive(members))
        written += 1
    print(f"seed {options.seed}: {written} programs of {len(models)}")


if __name__ == "__main__":
    main()
