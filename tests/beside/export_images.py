"""More networks for tests/beside/onnx_exports.py: images, sound, points and tables. See export_networks.py."""

import math

import torch
from export_transformers import HEADS, WIDTH, Attention, Block
from torch import nn
from torch.nn import functional as F


def conv_bn(inputs, outputs, stride=1, activation=nn.SiLU, groups=1, size=3):
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), activation())


class Unet(nn.Module):
    """Diffusion: an embedded time step, group norms, attention over pixels, upsampling, joins."""

    def __init__(self):
        super().__init__()
        self.begin, self.down, self.end = (
            nn.Conv2d(4, 32, 3, 1, 1),
            nn.Conv2d(32, WIDTH, 3, 2, 1),
            nn.Conv2d(32, 4, 3, 1, 1),
        )
        self.time, self.shift = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 128)), nn.Linear(128, 128)
        self.norms = nn.ModuleList([nn.GroupNorm(8, 32), nn.GroupNorm(8, WIDTH), nn.GroupNorm(32, WIDTH, eps=1e-6)])
        self.conv, self.attention, self.cross = nn.Conv2d(WIDTH, WIDTH, 3, 1, 1), Attention(), Attention()
        self.up, self.join = nn.Conv2d(WIDTH, 32, 3, 1, 1), nn.Conv2d(64, 32, 1)

    def forward(self, sample, step, text):
        angles = step[:, None].float() * torch.exp(-math.log(10000) * torch.arange(16, dtype=torch.float32) / 16)[None]
        time = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))
        first = self.begin(sample)
        x = self.down(F.silu(self.norms[0](first)))
        scale, shift = self.shift(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        x = x + self.conv(F.silu(self.norms[1](x) * (1 + scale) + shift))
        batch, channels, height, width = x.shape
        y = self.norms[2](x).permute(0, 2, 3, 1).reshape(batch, height * width, channels)
        y = y + self.attention(y)
        y = y + self.cross(y, text)
        x = x + y.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
        x = self.up(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.end(F.silu(self.join(torch.cat([x, first], dim=1))))


class Decoder(nn.Module):
    """Of an autoencoder: transposed convolutions, instance norms, padding by reflection, bilinear upsampling."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.ConvTranspose2d(8, 32, 4, 2, 1), nn.ConvTranspose2d(32, 16, 3, 2, 1, 1, groups=2)
        self.norms = nn.ModuleList([nn.InstanceNorm2d(32, affine=True), nn.InstanceNorm2d(16)])
        self.third, self.end = nn.Conv2d(16, 16, 3, padding=1, padding_mode="reflect"), nn.Conv2d(16, 3, 7)

    def forward(self, z):
        x = F.leaky_relu(self.norms[0](self.first(z)), 0.2)
        x = F.relu(self.norms[1](self.second(x)))
        x = F.interpolate(self.third(x), scale_factor=2, mode="bilinear", align_corners=True)
        return torch.tanh(self.end(F.pad(x, (3, 3, 3, 3), mode="replicate")))


class Yolo(nn.Module):
    """A grid of boxes at two scales, joined and decoded."""

    def __init__(self):
        super().__init__()
        self.stem, self.deep = conv_bn(3, 16, 4), nn.Sequential(conv_bn(16, 32, 2), conv_bn(32, 32, groups=32))
        self.pools, self.after = nn.MaxPool2d(5, 1, 2), conv_bn(96, 32, size=1)
        self.join, self.heads = conv_bn(48, 16, size=1), nn.ModuleList([nn.Conv2d(16, 24, 1), nn.Conv2d(32, 24, 1)])

    def forward(self, x):
        small = self.stem(x)
        deep = self.deep(small)
        once = self.pools(deep)
        deep = self.after(torch.cat([deep, once, self.pools(once)], 1))
        up = F.interpolate(deep, size=small.shape[2:], mode="nearest")
        out = []
        for level, (x, stride) in enumerate([(self.join(torch.cat([up, small], 1)), 4), (deep, 8)]):
            batch, _, height, width = x.shape
            y = self.heads[level](x).view(batch, 3, 8, height, width).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            grid = torch.stack((columns, rows), 2).view(1, 1, height, width, 2).float()
            anchors = torch.tensor([[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]]).view(1, 3, 1, 1, 2)
            places, sizes = (y[..., 0:2] * 2 - 0.5 + grid) * stride, (y[..., 2:4] * 2) ** 2 * anchors
            out.append(torch.cat((places, sizes, y[..., 4:]), -1).view(batch, -1, 8))
        return torch.cat(out, 1)


class CenterNet(nn.Module):
    """Peaks of a heat map: a pool that keeps them, topk, gather."""

    def __init__(self):
        super().__init__()
        self.body, self.heat, self.size = conv_bn(3, 16, 4), nn.Conv2d(16, 5, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        x = self.body(x)
        heat = torch.sigmoid(self.heat(x))
        heat = heat * (F.max_pool2d(heat, 3, stride=1, padding=1) == heat).float()
        batch, _, height, width = heat.shape
        scores, places = torch.topk(heat.view(batch, -1), 10)
        kinds, places = places // (height * width), places % (height * width)
        sizes = self.size(x).permute(0, 2, 3, 1).reshape(batch, -1, 2)
        sizes = sizes.gather(1, places.unsqueeze(-1).expand(-1, -1, 2))
        centers = torch.stack([places % width, torch.div(places, width, rounding_mode="floor")], -1).float()
        return torch.cat([centers - sizes / 2, centers + sizes / 2], -1), scores, kinds


class Detr(nn.Module):
    """Queries over an image, whose places come from a mask by cumsum."""

    def __init__(self):
        super().__init__()
        self.body, self.queries = conv_bn(3, WIDTH, 8, nn.ReLU), nn.Parameter(torch.randn(6, WIDTH))
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 128, batch_first=True)
        self.decoder, self.block = nn.TransformerDecoder(layer, 1), Block()
        self.kind, self.box = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 4)

    def forward(self, image, mask):
        x = self.body(image)
        mask = F.interpolate(mask[None].float(), size=x.shape[-2:]).to(torch.bool)[0]
        rows, columns = (~mask).cumsum(1, dtype=torch.float32), (~mask).cumsum(2, dtype=torch.float32)
        rows, columns = rows / (rows[:, -1:, :] + 1e-6) * 6.28, columns / (columns[:, :, -1:] + 1e-6) * 6.28
        power = 10000 ** (2 * torch.div(torch.arange(32), 2, rounding_mode="floor") / 32)
        wave = lambda p: torch.stack([p[..., 0::2].sin(), p[..., 1::2].cos()], dim=4).flatten(3)
        places = torch.cat([wave(rows[..., None] / power), wave(columns[..., None] / power)], 3).permute(0, 3, 1, 2)
        memory = self.block((x + places).flatten(2).permute(0, 2, 1))
        queries = self.queries.unsqueeze(0).repeat(x.shape[0], 1, 1)
        y = self.decoder(queries, memory, memory_key_padding_mask=mask.flatten(1))
        return self.kind(y), self.box(y).sigmoid()


class Segmenter(nn.Module):
    """Dilated convolutions, pooled context, outputs of the image's size."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv_bn(3, 16, 2, nn.Hardswish), conv_bn(16, 32, 2, nn.ReLU6))
        self.wide = nn.ModuleList(nn.Conv2d(32, 16, 3, padding=d, dilation=d) for d in (1, 3, 6))
        self.context, self.head = conv_bn(32, 16, 1, nn.ReLU, size=1), nn.Conv2d(64, 4, 1)

    def forward(self, image):
        x = self.body(image)
        context = self.context(F.adaptive_avg_pool2d(x, 1))
        context = F.interpolate(context, size=x.shape[-2:], mode="bilinear", align_corners=False)
        x = self.head(torch.cat([conv(x) for conv in self.wide] + [context], 1))
        x = F.interpolate(x, size=image.shape[-2:], mode="bilinear", align_corners=False)
        return x, x.argmax(1)


class Segformer(nn.Module):
    """Attention over a reduced image, in a pyramid."""

    def __init__(self):
        super().__init__()
        self.patches, self.reduce, self.norm = (
            nn.Conv2d(3, WIDTH, 7, 4, 3),
            nn.Conv2d(WIDTH, WIDTH, 2, 2),
            nn.LayerNorm(WIDTH),
        )
        self.attention, self.up, self.down = Attention(), nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH)
        self.depth, self.head = nn.Conv2d(128, 128, 3, 1, 1, groups=128), nn.Conv2d(WIDTH, 5, 1)

    def forward(self, image):
        x = self.patches(image)
        batch, channels, height, width = x.shape
        x = self.norm(x.flatten(2).transpose(1, 2))
        small = self.reduce(x.permute(0, 2, 1).reshape(batch, channels, height, width))
        x = x + self.attention(x, small.reshape(batch, channels, -1).permute(0, 2, 1))
        y = self.up(x).transpose(1, 2).view(batch, 128, height, width)
        x = x + self.down(F.gelu(self.depth(y).flatten(2).transpose(1, 2)))
        x = self.head(x.transpose(1, 2).reshape(batch, -1, height, width))
        return F.interpolate(x, scale_factor=4, mode="bicubic", align_corners=False)


class MobileVit(nn.Module):
    """Patches unfolded into sequences and folded back."""

    def __init__(self):
        super().__init__()
        self.body, self.block, self.end = conv_bn(3, WIDTH, 4), Block(), conv_bn(2 * WIDTH, 32)
        self.squeeze, self.excite = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)

    def forward(self, image):
        x = self.body(image)
        b, c, h, w = x.shape
        y = x.reshape(b * c * (h // 2), 2, w // 2, 2).transpose(1, 2).reshape(b, c, (h // 2) * (w // 2), 4)
        y = self.block(y.transpose(1, 3).reshape(b * 4, -1, c))
        y = y.contiguous().view(b, 4, -1, c).transpose(1, 3).reshape(b * c * (h // 2), w // 2, 2, 2)
        x = self.end(torch.cat([x, y.transpose(1, 2).reshape(b, c, h, w)], 1))
        scale = F.hardsigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return (x * scale).amax((-2, -1))


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (
            nn.Conv2d(1, 32, 5, padding=2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.Conv2d(32, 4, 3, padding=1),
        )
        self.act = nn.PReLU(32)

    def forward(self, x):
        y = self.second(self.act(self.first(x)))
        y = F.pixel_shuffle(self.last(F.mish(y)), 2)
        return torch.clamp(y + F.interpolate(x, scale_factor=2, mode="bicubic"), 0, 1)


class Flow(nn.Module):
    """Correlation of two images by unfold, and one warped onto the other."""

    def __init__(self):
        super().__init__()
        self.features, self.flow = conv_bn(3, 16, 2), nn.Conv2d(9 + 16, 2, 3, padding=1)

    def forward(self, first, second):
        a, b = self.features(first), self.features(second)
        batch, channels, height, width = a.shape
        around = F.unfold(b, 3, padding=1).view(batch, channels, 9, height, width)
        flow = self.flow(torch.cat([(a.unsqueeze(2) * around).mean(1), a], 1))
        rows, columns = torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32)
        grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)[None] + flow.permute(0, 2, 3, 1) * 0.05
        return F.grid_sample(b, grid, mode="bilinear", padding_mode="border", align_corners=True), flow


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.space = (
            nn.Conv3d(3, 16, (3, 7, 7), (1, 2, 2), (1, 3, 3)),
            nn.Conv3d(16, 16, (1, 3, 3), padding=(0, 1, 1)),
        )
        self.time, self.bn, self.head = (
            nn.Conv3d(16, 32, (3, 1, 1), padding=(1, 0, 0)),
            nn.BatchNorm3d(16),
            nn.Linear(32, 5),
        )

    def forward(self, clip):
        x = F.max_pool3d(F.relu(self.bn(self.first(clip))), (1, 3, 3), (1, 2, 2), (0, 1, 1))
        x = F.avg_pool3d(F.relu(self.time(self.space(x))), 2, ceil_mode=True)
        return self.head(F.adaptive_avg_pool3d(x, 1).flatten(1))


class PyramidPool(nn.Module):
    """Pools of fixed sizes, a roll, and weights made unit on the way."""

    def __init__(self):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3, 2, 1))
        self.head = nn.Linear(8 * 21, 7)

    def forward(self, x):
        x = torch.roll(F.softplus(self.conv(x)), shifts=(-3, 2), dims=(2, 3))
        pools = [F.adaptive_max_pool2d(x, 4), F.adaptive_avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)]
        return self.head(torch.cat([pool.flatten(1) for pool in pools], 1))


# --- sound, points, tables
# --------------------------------------------------------------------------------------------------------


class Crnn(nn.Module):
    """Text in images: convolutions, an LSTM in both directions, logarithms of probabilities."""

    def __init__(self):
        super().__init__()
        self.body, self.pool = (
            nn.Sequential(conv_bn(1, 16, 2, nn.ReLU), conv_bn(16, 32, 2, nn.ReLU)),
            nn.MaxPool2d((2, 1)),
        )
        self.lstm, self.head = nn.LSTM(128, 24, bidirectional=True, batch_first=True), nn.Linear(48, 30)

    def forward(self, image):
        x = self.pool(self.body(image)).permute(0, 3, 1, 2).flatten(2)
        return F.log_softmax(self.head(self.lstm(x)[0]), 2).permute(1, 0, 2)


class Vad(nn.Module):
    """A step of an LSTM whose states come and go."""

    def __init__(self):
        super().__init__()
        self.conv, self.lstm, self.head = nn.Conv1d(1, 16, 16, 8), nn.LSTMCell(16, 16), nn.Linear(16, 1)

    def forward(self, sound, hidden, cell):
        x = F.relu(self.conv(F.pad(sound.unsqueeze(1), (4, 4)))).mean(-1)
        hidden, cell = self.lstm(x, (hidden, cell))
        return torch.sigmoid(self.head(F.relu(hidden))), hidden, cell


class GruState(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(20, 24, 2, batch_first=True), nn.Linear(24, 20)

    def forward(self, x, state):
        y, state = self.gru(x, state)
        return torch.sigmoid(self.head(y)) * x, state


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates, joined over all layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv1d(8, 16, 1), nn.Conv1d(16, 8, 1)
        self.layers = nn.ModuleList(nn.utils.weight_norm(nn.Conv1d(16, 32, 2, dilation=d)) for d in (1, 2, 4))
        self.outs = nn.ModuleList(nn.Conv1d(16, 32, 1) for _ in range(3))

    def forward(self, x):
        x, total = self.first(x), 0
        for layer, out in zip(self.layers, self.outs):
            filtered, gate = torch.chunk(layer(F.pad(x, (layer.dilation[0], 0))), 2, 1)
            residual, skip = out(torch.tanh(filtered) * torch.sigmoid(gate)).split(16, 1)
            x, total = x + residual, total + skip
        return self.last(F.relu(total))


class HifiGan(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv1d(20, 32, 7, 1, 3), nn.Conv1d(16, 1, 7, 1, 3)
        self.up = nn.ConvTranspose1d(32, 16, 8, 4, 2)
        self.blocks = nn.ModuleList(nn.Conv1d(16, 16, k, dilation=3, padding=3 * (k - 1) // 2) for k in (3, 7))

    def forward(self, mel):
        x = self.up(F.leaky_relu(self.first(mel), 0.1))
        x = sum(x + block(F.leaky_relu(x, 0.1)) for block in self.blocks) / 2
        return torch.tanh(self.last(F.leaky_relu(x))).squeeze(1)


class Spectrogram(nn.Module):
    """Mel bands of a sound by stft, in decibels, normed by their own mean and deviation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("bands", torch.rand(33, 16))
        self.conv, self.head = nn.Conv2d(1, 8, 3, 2), nn.Linear(8, 4)

    def forward(self, sound):
        waves = torch.stft(sound, 64, 16, window=self.window, center=False, return_complex=False)
        power = waves.pow(2).sum(-1)
        mel = torch.log10(torch.clamp(power.transpose(1, 2) @ self.bands, min=1e-10))
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8.0)
        mel = (mel - mel.mean(1, keepdim=True)) / (mel.std(1, keepdim=True) + 1e-5)
        return self.head(F.relu(self.conv(mel.unsqueeze(1))).mean((2, 3)))


class PointNet(nn.Module):
    """Neighbours of points by topk of distances, gathered, the largest of each."""

    def __init__(self):
        super().__init__()
        self.edge, self.mlp, self.head = nn.Conv2d(6, 16, 1), nn.Conv1d(16, 32, 1), nn.Linear(32, 4)

    def forward(self, points):
        batch, count, _ = points.shape
        near = torch.cdist(points, points).topk(4, dim=-1, largest=False)[1]
        base = torch.arange(0, batch).view(-1, 1, 1) * count
        around = points.reshape(batch * count, -1)[(near + base).view(-1), :].view(batch, count, 4, 3)
        center = points.unsqueeze(2).repeat(1, 1, 4, 1)
        x = F.leaky_relu(self.edge(torch.cat((around - center, center), dim=3).permute(0, 3, 1, 2)), 0.2)
        x = self.mlp(x.max(dim=-1, keepdim=False)[0])
        return self.head(F.adaptive_max_pool1d(x, 1).squeeze(-1))


class Graph(nn.Module):
    """Messages along edges: gathered, added up where they arrive, divided by their number."""

    def __init__(self):
        super().__init__()
        self.message, self.own, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, nodes, edges):
        source, target = edges[0], edges[1]
        messages = F.relu(self.message(nodes))[source]
        sums = torch.zeros_like(nodes).index_add(0, target, messages)
        counts = torch.zeros(nodes.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
        nodes = F.relu(self.own(nodes) + sums / counts.clamp(min=1).unsqueeze(-1))
        largest = torch.full_like(nodes, -1e9).scatter_reduce(0, target[:, None].expand(-1, 16), nodes[source], "amax")
        return self.head(torch.where(largest > -1e8, largest, nodes))


class Recommender(nn.Module):
    """Columns of a table: embeddings, bags of them, crosses, bins by bucketize."""

    def __init__(self):
        super().__init__()
        self.tables, self.bag = (
            nn.ModuleList(nn.Embedding(50, 8) for _ in range(3)),
            nn.EmbeddingBag(50, 8, mode="mean"),
        )
        self.bins, self.norm = nn.Embedding(5, 8), nn.BatchNorm1d(4)
        self.deep = nn.Sequential(nn.Linear(44, 16), nn.ELU(), nn.Linear(16, 1))
        self.register_buffer("edges", torch.tensor([-1.0, -0.3, 0.3, 1.0]))

    def forward(self, kinds, bags, numbers):
        rows = [table(kinds[:, i]) for i, table in enumerate(self.tables)] + [self.bag(bags)]
        rows.append(self.bins(torch.bucketize(numbers[:, 0], self.edges)))
        stacked = torch.stack(rows, dim=1)
        squared, sums = stacked.pow(2).sum(1), stacked.sum(1).pow(2)
        deep = self.deep(torch.cat([stacked.flatten(1), self.norm(numbers)], 1))
        return torch.sigmoid(deep + 0.5 * (sums - squared).sum(1, keepdim=True)).squeeze(-1)


class Codebook(nn.Module):
    """The nearest of a table's rows, by argmin; sorted, and what comes first."""

    def __init__(self):
        super().__init__()
        self.body, self.table, self.out = (
            nn.Conv1d(8, 16, 4, 2, 1),
            nn.Embedding(32, 16),
            nn.ConvTranspose1d(16, 8, 4, 2, 1),
        )

    def forward(self, x):
        z = self.body(x).transpose(1, 2)
        flat = z.reshape(-1, 16)
        far = (flat**2).sum(1, keepdim=True) - 2 * flat @ self.table.weight.t() + (self.table.weight**2).sum(1)
        codes = torch.argmin(far, dim=1).view(z.shape[:-1])
        order = torch.argsort(codes, dim=1, descending=True, stable=True)
        return self.out(self.table(codes).permute(0, 2, 1)), codes, torch.gather(codes, 1, order)[:, :2]


class Radiance(nn.Module):
    """Colours along rays: waves of places, and what is left of the light by cumprod."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(27, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, points):
        bands = 2.0 ** torch.linspace(0, 3, 4)
        waves = (points[..., None, :] * bands[:, None]).flatten(-2)
        found = self.mlp(torch.cat([points, waves.sin(), waves.cos()], -1))
        opaque = 1.0 - torch.exp(-F.relu(found[..., 3]) * 0.1)
        left = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1.0 - opaque + 1e-10], -1), -1)[:, :-1]
        return ((opaque * left)[..., None] * torch.sigmoid(found[..., :3])).sum(-2)
