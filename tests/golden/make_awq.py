"""Makes tests/golden/recover/awq.json: a layer norm that two linear layers of 4 bits in groups of 32 read, and what
activation-aware scales are for them (Lin et al. 2023, AWQ), in numpy alone.

"errors": for each alpha of 0, 0.05, ..., 0.95 the sum over both layers of the squares of x (q(w s) / s - w) over those
of x w, s being the mean of |x| to the power of alpha over the geometric mean of the largest and the smallest; q rounds
to the nearest integer from -8 to 7 by a scale that the largest magnitude of the group gives. "factors": s of the best
alpha.
"""

import json
from pathlib import Path

import numpy as np

ROWS, WIDTH, GROUP, OUTPUTS = 24, 64, 32, (12, 8)


def drawn(values):
    return np.round(values, 4).astype(np.float32)


def listed(array):
    return [float(f"{value:.6g}") for value in array.flatten()]


def rounded(weight):
    groups = weight.reshape(-1, GROUP)
    scale = np.abs(groups).max(1, keepdims=True).astype(np.float32) / np.float32(7.5)
    return (np.clip(np.rint(groups * (np.float32(1) / scale)), -8, 7) * scale).reshape(weight.shape).astype(np.float32)


def main():
    rng = np.random.default_rng(7)
    sizes = 10 ** rng.uniform(-1, 1, WIDTH)
    x = drawn(rng.normal(size=(ROWS, WIDTH)))
    norm, bias = drawn(sizes * rng.uniform(0.5, 1.5, WIDTH)), drawn(0.1 * sizes)
    weights = [drawn(rng.normal(size=(n, WIDTH))) for n in OUTPUTS]
    centred = x.astype(np.float64) - x.mean(1, keepdims=True, dtype=np.float64)
    read = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * norm + bias
    means = np.abs(read).mean(0)
    errors, factors = [], []
    for step in range(20):
        s = means ** (step / 20)
        s = (s / np.sqrt(s.max() * s.min())).astype(np.float32)
        off = [rounded(w * s).astype(np.float64) / s - w for w in weights]
        errors.append(float(sum(((read @ d.T) ** 2).sum() / ((read @ w.T) ** 2).sum() for d, w in zip(off, weights))))
        factors.append(listed(s))
    best = int(np.argmin(errors))
    assert best > 0
    out = {
        "x": listed(x),
        "norm": listed(norm),
        "bias": listed(bias),
        "weights": [listed(w) for w in weights],
        "errors": errors,
        "alpha": best / 20,
        "factors": factors[best],
    }
    path = Path(__file__).parent / "recover" / "awq.json"
    path.write_text(json.dumps(out) + "\n")
    print(best / 20, errors[0], errors[best], path.stat().st_size)


main()
