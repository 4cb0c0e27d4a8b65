"""Small networks of many kinds that no conformance case has: name -> (class, shapes of the inputs)."""

import torch
import torch.nn.functional as F
from torch import nn


class Wavenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Conv1d(4, 8, 1)
        self.f = nn.ModuleList([nn.Conv1d(8, 8, 2, dilation=d, padding=d) for d in (1, 2, 4)])
        self.g = nn.ModuleList([nn.Conv1d(8, 8, 2, dilation=d, padding=d) for d in (1, 2, 4)])
        self.r = nn.ModuleList([nn.Conv1d(8, 8, 1) for _ in range(3)])
        self.o = nn.Conv1d(8, 5, 1)

    def forward(self, x):
        x = self.i(x)
        skip = 0
        for f, g, r in zip(self.f, self.g, self.r):
            z = torch.tanh(f(x)[..., :24]) * torch.sigmoid(g(x)[..., :24])
            z = r(z)
            skip = skip + z
            x = x + z
        return self.o(F.relu(skip))


class SE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.p = nn.AdaptiveAvgPool2d(1)
        self.a = nn.Conv2d(c, c // 4, 1)
        self.b = nn.Conv2d(c // 4, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.b(F.relu(self.a(self.p(x)))))


class SEBottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.n0 = nn.BatchNorm2d(16)
        self.c1 = nn.Conv2d(16, 8, 1, bias=False)
        self.n1 = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.n2 = nn.BatchNorm2d(8)
        self.c3 = nn.Conv2d(8, 16, 1, bias=False)
        self.n3 = nn.BatchNorm2d(16)
        self.se = SE(16)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(16, 7)

    def forward(self, x):
        x = self.relu(self.n0(self.stem(x)))
        y = self.relu(self.n1(self.c1(x)))
        y = self.relu(self.n2(self.c2(y)))
        y = self.se(self.n3(self.c3(y)))
        y = self.relu(y + x)
        return self.fc(y.mean([2, 3]))


class ConvBN(nn.Module):
    def __init__(self, i, o, k, **a):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, bias=False, **a)
        self.bn = nn.BatchNorm2d(o, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionA(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = ConvBN(6, 8, 1)
        self.b5a = ConvBN(6, 4, 1)
        self.b5 = ConvBN(4, 8, 5, padding=2)
        self.bp = ConvBN(6, 4, 1)
        self.bd = ConvBN(20, 8, 3, stride=2)
        self.fc = nn.Linear(28 * 49, 5)

    def forward(self, x):
        y = torch.cat([self.b1(x), self.b5(self.b5a(x)), self.bp(F.avg_pool2d(x, 3, stride=1, padding=1))], 1)
        y = torch.cat([self.bd(y), F.max_pool2d(y, 3, stride=2)], 1)
        return self.fc(torch.flatten(y, 1))


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.c0 = nn.Conv2d(3, 8, 3, padding=1)
        self.n = nn.ModuleList([nn.BatchNorm2d(8 + 4 * i) for i in range(3)])
        self.c = nn.ModuleList([nn.Conv2d(8 + 4 * i, 4, 3, padding=1) for i in range(3)])
        self.nt = nn.BatchNorm2d(20)
        self.t = nn.Conv2d(20, 10, 1)
        self.pool = nn.AvgPool2d(2)
        self.fc = nn.Linear(10, 6)

    def forward(self, x):
        fs = [self.c0(x)]
        for n, c in zip(self.n, self.c):
            fs.append(c(F.relu(n(torch.cat(fs, 1)))))
        x = self.pool(self.t(F.relu(self.nt(torch.cat(fs, 1)))))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.a = nn.Sequential(
            nn.Conv2d(4, 4, 1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, padding=1, groups=4),
            nn.BatchNorm2d(4),
            nn.Conv2d(4, 4, 1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
        )
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        a, b = x.chunk(2, dim=1)
        y = torch.cat((a, self.a(b)), dim=1)
        n, c, h, w = y.size()
        y = y.view(n, 2, c // 2, h, w)
        y = torch.transpose(y, 1, 2).contiguous()
        y = y.view(n, -1, h, w)
        return self.fc(y.mean([2, 3]))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(3, 16, 1)
        self.b1 = nn.BatchNorm1d(16)
        self.c2 = nn.Conv1d(16, 32, 1)
        self.b2 = nn.BatchNorm1d(32)
        self.f1 = nn.Linear(32, 16)
        self.b3 = nn.BatchNorm1d(16)
        self.f2 = nn.Linear(16, 4)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = self.b2(self.c2(x))
        x = torch.max(x, 2)[0]
        return F.log_softmax(self.f2(F.relu(self.b3(self.f1(x)))), dim=-1)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU())
        self.z = nn.Linear(12 * 16, 10)
        self.y = nn.Linear(10, 12 * 16)
        self.d = nn.Sequential(
            nn.ConvTranspose2d(12, 8, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid()
        )

    def forward(self, x):
        z = self.z(self.e(x).flatten(1))
        return self.d(F.relu(self.y(z)).unflatten(1, (12, 4, 4))), z


class ASPP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 6, 1)
        self.b = nn.Conv2d(4, 6, 3, padding=2, dilation=2)
        self.c = nn.Conv2d(4, 6, 3, padding=4, dilation=4)
        self.p = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 6, 1), nn.ReLU())
        self.o = nn.Conv2d(24, 5, 1)

    def forward(self, x):
        p = F.interpolate(self.p(x), size=(12, 12), mode="bilinear", align_corners=False)
        y = torch.cat([F.relu(self.a(x)), F.relu(self.b(x)), F.relu(self.c(x)), p], dim=1)
        return F.interpolate(self.o(y), scale_factor=2.0, mode="bilinear", align_corners=True)


class FPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.c2 = nn.Conv2d(8, 16, 3, 2, 1)
        self.c3 = nn.Conv2d(16, 24, 3, 2, 1)
        self.l = nn.ModuleList([nn.Conv2d(c, 8, 1) for c in (8, 16, 24)])
        self.o = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
        self.head = nn.Conv2d(8, 6, 1)

    def forward(self, x):
        a = F.relu(self.c1(x))
        b = F.relu(self.c2(a))
        c = F.relu(self.c3(b))
        p3 = self.l[2](c)
        p2 = self.l[1](b) + F.interpolate(p3, scale_factor=2.0, mode="nearest")
        p1 = self.l[0](a) + F.interpolate(p2, scale_factor=2.0, mode="nearest")
        return [self.head(o(p)) for o, p in zip(self.o, (p1, p2, p3))]


class CBAM(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, padding=1)
        self.m = nn.Sequential(nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 8))
        self.sp = nn.Conv2d(2, 1, 7, padding=3)
        self.o = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        x = F.relu(self.c(x))
        a = torch.sigmoid(self.m(F.avg_pool2d(x, 10).flatten(1)) + self.m(F.max_pool2d(x, 10).flatten(1)))
        x = x * a[:, :, None, None]
        m = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return self.o(x * torch.sigmoid(self.sp(m)))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 4, 4)
        self.n1 = nn.LayerNorm(16)
        self.t = nn.Sequential(nn.Linear(9, 18), nn.GELU(), nn.Linear(18, 9))
        self.n2 = nn.LayerNorm(16)
        self.c = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.h = nn.Linear(16, 5)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.c(self.n2(x))
        return self.h(x.mean(1))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 10, 16) * 0.1)
        self.n = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.o = nn.Linear(16, 16)
        self.n2 = nn.LayerNorm(16)
        self.f1 = nn.Linear(16, 32)
        self.f2 = nn.Linear(32, 16)
        self.h = nn.Linear(16, 5)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(2, -1, -1), x], 1) + self.pos
        q, k, v = self.qkv(self.n(x)).reshape(2, 10, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1) * 0.5).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(2, 10, 16))
        x = x + self.f2(F.gelu(self.f1(self.n2(x))))
        return self.h(x[:, 0])


class GMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(6, 16)
        self.n = nn.LayerNorm(16)
        self.u = nn.Linear(16, 32)
        self.sn = nn.LayerNorm(16)
        self.s = nn.Conv1d(8, 8, 1)
        self.v = nn.Linear(16, 16)
        self.h = nn.Linear(16, 3)

    def forward(self, x):
        x = self.e(x)
        r = x
        u, v = F.gelu(self.u(self.n(x))).chunk(2, dim=-1)
        x = r + self.v(u * self.s(self.sn(v)))
        return self.h(x)


class BiLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.h = nn.Linear(16, 5)

    def forward(self, x):
        y, _ = self.l(x)
        return self.h(y)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 16, 4, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(16, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.m(x).view(-1)


class ESPCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 16, 5, padding=2)
        self.b = nn.Conv2d(16, 8, 3, padding=1)
        self.c = nn.Conv2d(8, 9, 3, padding=1)
        self.p = nn.PixelShuffle(3)

    def forward(self, x):
        return torch.clamp(self.p(self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))), 0.0, 1.0)


class NCF(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Linear(10, 8)
        self.i = nn.Linear(12, 8)
        self.m = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.o = nn.Linear(16, 1)

    def forward(self, a, b):
        u = self.u(a)
        i = self.i(b)
        return torch.sigmoid(self.o(torch.cat([u * i, self.m(torch.cat([u, i], -1))], -1))).squeeze(-1)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(
            nn.Conv2d(1, 8, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 6),
        )
        self.o = nn.Linear(6, 1)

    def forward(self, a, b):
        return self.o(torch.abs(self.e(a) - self.e(b)))


class ConformerConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.LayerNorm(8)
        self.p1 = nn.Conv1d(8, 16, 1)
        self.d = nn.Conv1d(8, 8, 7, padding=3, groups=8)
        self.b = nn.BatchNorm1d(8)
        self.a = nn.SiLU()
        self.p2 = nn.Conv1d(8, 8, 1)
        self.h = nn.Linear(8, 4)

    def forward(self, x):
        y = self.n(x).transpose(1, 2)
        y = F.glu(self.p1(y), dim=1)
        y = self.p2(self.a(self.b(self.d(y))))
        return self.h(x + y.transpose(1, 2))


class C3D(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv3d(2, 6, 3, padding=1)
        self.n = nn.BatchNorm3d(6)
        self.p = nn.MaxPool3d((1, 2, 2))
        self.b = nn.Conv3d(6, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.p(F.relu(self.n(self.a(x))))
        x = F.relu(self.b(x))
        return self.fc(F.adaptive_avg_pool3d(x, 1).flatten(1))


class Ghost(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Sequential(nn.Conv2d(4, 6, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.c = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.q = nn.Conv2d(12, 4, 1)
        self.h = nn.Hardswish()
        self.s = nn.Hardsigmoid()

    def forward(self, x):
        y = self.p(x)
        y = torch.cat([y, self.c(y)], 1)
        y = self.q(y[:, :12])
        return self.h(x + y) * self.s(y)


class Xception(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1 = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.p1 = nn.Conv2d(8, 12, 1, bias=False)
        self.n1 = nn.BatchNorm2d(12)
        self.sk = nn.Conv2d(8, 12, 1, stride=2, bias=False)
        self.ns = nn.BatchNorm2d(12)
        self.mp = nn.MaxPool2d(3, 2, 1)
        self.c = nn.Conv2d(3, 8, 3, padding=1)
        self.r = nn.ReLU6()

    def forward(self, x):
        x = self.c(x)
        y = self.mp(self.n1(self.p1(self.d1(F.relu(x)))))
        return self.r(y + self.ns(self.sk(x)))


class Residual(nn.Module):
    """A convolution with a bias in front of a batch norm, an addition in place, the larger of two channels."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, padding=1)
        self.c = nn.Conv2d(4, 4, 3, padding=1)
        self.n = nn.BatchNorm2d(4)
        self.r = nn.ReLU()
        self.h = nn.Linear(2, 3)

    def forward(self, x):
        x = self.r(self.a(x))
        y = self.n(self.c(x))
        y += x
        y = self.r(y).mean((2, 3)).view(-1, 2, 2)
        return self.h(torch.max(y, dim=2).values)


IMAGE = (2, 3, 12, 12)
NETWORKS = {
    "wavenet": (Wavenet, [(2, 4, 24)]),
    "se_bottleneck": (SEBottleneck, [IMAGE]),
    "inception": (InceptionA, [(2, 6, 15, 15)]),
    "dense": (Dense, [IMAGE]),
    "shuffle": (Shuffle, [IMAGE]),
    "pointnet": (PointNet, [(3, 3, 20)]),
    "autoencoder": (AutoEncoder, [(2, 1, 16, 16)]),
    "aspp": (ASPP, [(2, 4, 12, 12)]),
    "fpn": (FPN, [(1, 3, 16, 16)]),
    "cbam": (CBAM, [(2, 3, 10, 10)]),
    "mixer": (Mixer, [IMAGE]),
    "vit": (ViT, [IMAGE]),
    "gmlp": (GMLP, [(2, 8, 6)]),
    "bilstm": (BiLSTM, [(2, 5, 6)]),
    "discriminator": (Discriminator, [(2, 3, 16, 16)]),
    "espcn": (ESPCN, [(1, 1, 9, 9)]),
    "ncf": (NCF, [(4, 10), (4, 12)]),
    "siamese": (Siamese, [(2, 1, 12, 12), (2, 1, 12, 12)]),
    "conformer": (ConformerConv, [(2, 12, 8)]),
    "c3d": (C3D, [(1, 2, 4, 8, 8)]),
    "ghost": (Ghost, [(2, 4, 9, 9)]),
    "xception": (Xception, [IMAGE]),
    "residual": (Residual, [(2, 3, 6, 6)]),
}
