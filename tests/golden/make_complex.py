"""Writes tests/golden/programs/complex.npz: exported programs with complex numbers, and what PyTorch computes with
them; and the last program alone, complex.pt2.

Run with PyTorch 2.6 in this folder: python3 make_complex.py.
"""

import warnings

import torch
from program_case import OUT, add, arrays, save
from torch import nn
from torch.export import Dim

warnings.simplefilter("ignore")
torch.set_num_threads(1)


class Rotary(nn.Module):
    """Rotary places by complex numbers, as Llama's own code has them; the turns are a complex buffer."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)
        angles = torch.outer(torch.arange(6).float(), 1 / 100 ** (torch.arange(4) / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        z = torch.view_as_complex(self.q(x).reshape(x.shape[0], -1, 4, 2))
        return torch.view_as_real(z * self.turns[: x.shape[1]]).flatten(2)


class Spectral(nn.Module):
    """A layer of a Fourier neural operator: a product with complex weights between rfft2 and irfft2."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Conv2d(2, 3, 1)
        self.weight = nn.Parameter(torch.randn(3, 3, 4, 3, dtype=torch.complex64) * 0.3)
        self.project = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        x = self.lift(x)
        spectrum = torch.fft.rfft2(x)
        kept = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :4, :3], self.weight)
        out = torch.zeros_like(spectrum)
        out[:, :, :4, :3] = kept
        return self.project(torch.relu(torch.fft.irfft2(out, s=(8, 6)) + x))


class Spectrogram(nn.Module):
    """Magnitudes and angles of frames, and a layer on them."""

    def __init__(self, **settings):
        super().__init__()
        self.settings = settings
        self.register_buffer("window", torch.hann_window(16))
        self.layer = nn.LazyLinear(5)

    def forward(self, x):
        z = torch.stft(x, 16, 4, window=self.window, **self.settings)
        z = z if z.is_complex() else torch.view_as_complex(z)
        return self.layer(z.abs().transpose(-1, -2)), z.real, z.imag


class Mask(nn.Module):
    """Speech enhancement: a mask on the frames of a signal, which are laid back to a signal."""

    def __init__(self, length=None):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.a, self.b = nn.Linear(9, 12), nn.Linear(12, 9)
        self.length = length

    def forward(self, x):
        z = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        mask = torch.sigmoid(self.b(torch.relu(self.a(z.abs().transpose(1, 2))))).transpose(1, 2)
        return torch.istft(z * mask, 16, 4, window=self.window, length=self.length)


class Transforms(nn.Module):
    """The three kernels of torch.fft, their scales, and what computes with complex numbers."""

    def forward(self, x, y):
        z = torch.fft.rfft2(x, norm="ortho") * 0.5 + torch.complex(y, -y)
        w = (torch.fft.fft(z, dim=1) - torch.fft.ifft(z.conj(), dim=1, norm="forward")).transpose(1, 2)
        w = w * y.transpose(1, 2)
        back = torch.fft.irfft2(w.transpose(1, 2) * z - w.transpose(1, 2), s=(6, 8), norm="ortho")
        odd = torch.fft.irfft(z, n=9 - 2, dim=2)
        return back, odd, w.abs(), torch.view_as_real(-z)[..., 0] + w.real.transpose(1, 2) + y * w.imag.transpose(1, 2)


class Moves(nn.Module):
    """Complex numbers under other sizes, joined, and transformed by the functions of torch.fft themselves."""

    def forward(self, x):
        z = torch.view_as_complex(x.reshape(x.shape[0], 6, 4, 2))
        y = torch.cat([z.view(-1, 24).unsqueeze(1), z.reshape(-1, 24)[:, None].conj()], -2)
        w = torch.fft.fft(torch.fft.rfft(x, dim=1), dim=-1, norm="ortho") - torch.fft.ifft(x[:, :4], norm="forward")
        return torch.view_as_real(y), w.real, w.imag, torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class Complex(nn.Module):
    """Complex numbers come in and go out."""

    def forward(self, z, w):
        return z * w.conj() + 2, torch.view_as_real(z - w), (z @ w.transpose(0, 1)).abs(), torch.complex(z.real, w.imag)


def main():
    torch.manual_seed(0)
    batch = Dim("batch", min=2, max=64)
    add("rotary", Rotary(), [(torch.randn(2, 6, 8),), (torch.randn(5, 6, 8),)], ({0: batch},))
    # PyTorch 2.6 exports no Fourier transform with open sizes.
    add("spectral", Spectral(), [(torch.randn(2, 2, 8, 6),)])
    signals = [(torch.randn(2, 50),)]
    for name, settings in {
        "center": {"return_complex": True},
        "frames": {"center": False, "normalized": True, "onesided": False, "return_complex": False},
    }.items():
        model = Spectrogram(**settings)
        model(signals[0][0])
        add(f"spectrogram_{name}", model, signals)
        add(f"spectrogram_{name}_decomposed", model, signals, decomposed=True)
    for name, length in (("mask", None), ("mask_length", 45)):
        add(name, Mask(length), [(torch.randn(2, 50),)])
        add(f"{name}_decomposed", Mask(length), [(torch.randn(2, 50),)], decomposed=True)
    add("transforms", Transforms(), [(torch.randn(2, 6, 8), torch.randn(2, 6, 5))], decomposed=True)
    numbers = [tuple(torch.randn(n, 4, dtype=torch.complex64) for _ in range(2)) for n in (3, 5)]
    add("complex", Complex(), numbers, ({0: batch}, {0: batch}))
    add("moves", Moves(), [(torch.randn(2, 6, 8),)])
    save("complex")
    (OUT / "complex.pt2").write_bytes(arrays["complex/model"].tobytes())


main()
