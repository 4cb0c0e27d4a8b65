"""What a sample costs `qdq calibrate` and how much memory it takes, of few samples and of many.

  python3 tests/bench/streaming.py [--samples 1000 10000] [--rounds 3] [--only KIND] [--names 1000000] [--qdq PROGRAM]

Makes 40x40 pictures for the model of examples/shapes in build/streaming: a folder of folders, a .tar, a folder of .tar,
an .npy of pixels, and that as a pipe. Rounds go through all kinds and sizes in turn; the table has medians of the
processor's time without that of starting, which is the time of 16 samples. --names makes so many files of two kinds,
ImageNet's names in 1000 folders and names that share little in one, calibrates on 16 of them, and tells the memory.
"""

import argparse
import os
import random
import resource
import shlex
import shutil
import statistics
import struct
import subprocess
import tarfile
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "streaming"
SHAPES = ROOT / "examples" / "shapes"
SIDE = 40
KINDS = ["folder{}", "images{}.tar", "shards{}", "pixels{}.npy", "| pixels{}.npy"]


def png(seed):
    pixels = random.Random(seed).randbytes(SIDE * SIDE * 3)
    rows = b"".join(b"\0" + pixels[i * SIDE * 3 : (i + 1) * SIDE * 3] for i in range(SIDE))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def link(path, count):
    """A picture of its own for each thousand files, which are links to it: few file systems take more of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = WORK / f"{count // 1000}.png"
    if not first.exists():
        first.write_bytes(png(count))
    os.link(first, path)


def make(count):
    folder = WORK / f"folder{count}"
    for i in range(count):
        synset = f"n{1440764 + 1000 * (i % 10):08d}"
        link(folder / synset / f"{synset}_{i:05d}.png", i)
    files = sorted(folder.rglob("*.png"))
    (WORK / f"shards{count}").mkdir()
    for name, some in [(f"images{count}.tar", files)] + [
        (f"shards{count}/{at:06d}.tar", files[at : at + 500]) for at in range(0, count, 500)
    ]:
        with tarfile.open(WORK / name, "w", dereference=True) as tar:
            for file in some:
                tar.add(file, file.name)
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {SIDE}, {SIDE}, 3), }}".ljust(117) + "\n"
    with (WORK / f"pixels{count}.npy").open("wb") as npy:
        npy.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        npy.write(random.Random(count).randbytes(count * SIDE * SIDE * 3))


def in_another_process(work, *words):
    """What a process starts is told to have had the memory of that process, which stays small so."""
    pid = os.fork()
    if pid == 0:
        work(*words)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit("the data could not be made")


def calibrate(program, data, *words):
    """Seconds of the processor, and the largest resident memory in MB."""
    is_pipe = data.startswith("| ")
    command = [*program, "calibrate", str(SHAPES / "model.pt2"), "--data", "-" if is_pipe else str(WORK / data)]
    command += ["--preprocess", str(SHAPES / "preprocess.json"), "-o", str(WORK / "part.json"), "--quiet", *words]
    cat = subprocess.Popen(["cat", WORK / data[2:]], stdout=subprocess.PIPE) if is_pipe else None
    process = subprocess.Popen(command, stdin=cat.stdout if cat else None, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if cat:
        cat.stdout.close()
        cat.wait()
    if status != 0:
        raise SystemExit(f"{shlex.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def cost(program, samples, rounds, only):
    kinds = [kind for kind in KINDS if only in kind]
    for count in samples:
        in_another_process(make, count)
    found = {}
    for _ in range(rounds):
        for kind in kinds:
            for count in samples:
                data = kind.format(count)
                start = calibrate(program, data, "--limit", "16")[0]
                seconds, memory = calibrate(program, data)
                found.setdefault((kind, count), []).append(((seconds - start) / (count - 16) * 1e3, memory))
    print("| data |" + "".join(f" {count} samples, ms each | MB |" for count in samples) + " difference |")
    for kind in kinds:
        each = [statistics.median(ms for ms, _ in found[kind, count]) for count in samples]
        memory = [max(mb for _, mb in found[kind, count]) for count in samples]
        cells = "".join(f" {ms:.3f} | {mb:.1f} |" for ms, mb in zip(each, memory, strict=True))
        print(f"| {kind.format('')} |{cells} {100 * (each[-1] / each[0] - 1):+.1f} % |", flush=True)


def make_names(count):
    source = random.Random(1)
    for i in range(count):
        synset = f"n{1440764 + 1000 * (i % 1000):08d}"
        link(WORK / "folders" / synset / f"{synset}_{source.randrange(30000)}_{i // 1000}.png", i)
        link(WORK / "flat" / f"{source.randrange(10**12):012d}.png", i)


def names(program, count):
    in_another_process(make_names, count)
    little = calibrate(program, "folder1000", "--limit", "16")[1]
    for kind in ("folders", "flat"):
        began = time.time()
        cpu, memory = calibrate(program, kind, "--limit", "16")
        more = (memory - little) * 1024 * 1024 / count
        seconds = time.time() - began
        print(f"{kind}: {count} names, {memory:.1f} MB, {more:.1f} bytes each, {cpu:.1f} s CPU, {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the kinds with this word: folder, tar, shards, npy")
    parser.add_argument("--names", type=int, default=0)
    parser.add_argument("--qdq", default=f"{ROOT}/dev qdq", help="the program")
    options = parser.parse_args()
    program = shlex.split(options.qdq)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    cost(program, options.samples, options.rounds, options.only)
    if options.names:
        names(program, options.names)
    shutil.rmtree(WORK)


main()
