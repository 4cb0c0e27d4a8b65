// The convolutions and linear layers that the int8 tests check and the int8 benchmark times: one list.
#pragma once

#include <array>
#include <cstdint>

#include "kernel/conv.h"

namespace qdq::kernel {

struct Int8Problem {
  const char* name;
  int64_t batch, in_h, in_w;
  Conv2d conv;
  int64_t out_h() const {
    return (in_h + 2 * conv.pad_h - conv.dilation_h * (conv.kernel_h - 1) - 1) / conv.stride_h + 1;
  }
  int64_t out_w() const {
    return (in_w + 2 * conv.pad_w - conv.dilation_w * (conv.kernel_w - 1) - 1) / conv.stride_w + 1;
  }
  // Multiply-adds.
  double work() const {
    const double outputs = static_cast<double>(batch * conv.out_channels * out_h() * out_w());
    return outputs * static_cast<double>(conv.in_channels / conv.groups * conv.kernel_h * conv.kernel_w);
  }
};

constexpr Conv2d square(int64_t ic, int64_t oc, int64_t groups, int64_t k, int64_t stride) {
  return {ic, oc, groups, k, k, stride, stride, k / 2, k / 2, 1, 1};
}

// Layers of ResNet-18 and -50, MobileNetV2 and V3, EfficientNet-B0 and ResNeXt-50 at 224x224, and of a ViT-B/16.
inline constexpr std::array kInt8Layers = {
    Int8Problem{"resnet stem", 1, 224, 224, square(3, 64, 1, 7, 2)},
    Int8Problem{"resnet18 layer1", 1, 56, 56, square(64, 64, 1, 3, 1)},
    Int8Problem{"resnet18 layer2 down", 1, 56, 56, square(64, 128, 1, 3, 2)},
    Int8Problem{"resnet18 layer2 shortcut", 1, 56, 56, square(64, 128, 1, 1, 2)},
    Int8Problem{"resnet18 layer2", 1, 28, 28, square(128, 128, 1, 3, 1)},
    Int8Problem{"resnet18 layer3", 1, 14, 14, square(256, 256, 1, 3, 1)},
    Int8Problem{"resnet18 layer4", 1, 7, 7, square(512, 512, 1, 3, 1)},
    Int8Problem{"resnet50 expand", 1, 28, 28, square(128, 512, 1, 1, 1)},
    Int8Problem{"resnet50 reduce", 1, 14, 14, square(1024, 256, 1, 1, 1)},
    Int8Problem{"resnext50 grouped", 1, 28, 28, square(256, 256, 32, 3, 1)},
    Int8Problem{"mobilenet stem", 1, 224, 224, square(3, 32, 1, 3, 2)},
    Int8Problem{"mobilenet first expand", 1, 112, 112, square(16, 96, 1, 1, 1)},
    Int8Problem{"mobilenet expand", 1, 56, 56, square(24, 144, 1, 1, 1)},
    Int8Problem{"mobilenet project", 1, 56, 56, square(144, 24, 1, 1, 1)},
    Int8Problem{"mobilenet late", 1, 7, 7, square(960, 160, 1, 1, 1)},
    Int8Problem{"mobilenet depthwise", 1, 56, 56, square(144, 144, 144, 3, 1)},
    Int8Problem{"mobilenet depthwise down", 1, 112, 112, square(96, 96, 96, 3, 2)},
    Int8Problem{"efficientnet depthwise", 1, 14, 14, square(480, 480, 480, 5, 1)},
    Int8Problem{"squeezenet stem", 1, 224, 224, {3, 64, 1, 3, 3, 2, 2, 0, 0, 1, 1}},
    Int8Problem{"squeezenet fire", 1, 55, 55, square(16, 64, 1, 3, 1)},
    Int8Problem{"squeezenet classifier", 1, 13, 13, square(512, 1000, 1, 1, 1)},
    Int8Problem{"classifier", 1, 1, 1, square(512, 1000, 1, 1, 1)},
    Int8Problem{"vit linear", 1, 197, 1, square(768, 3072, 1, 1, 1)},
    Int8Problem{"gemm 512", 1, 512, 1, square(512, 512, 1, 1, 1)},
};

// Small ones for the corners of the kernels: odd channels, uneven windows, groups, dilation, strides without padding.
inline constexpr std::array kInt8Corners = {
    Int8Problem{"one of all", 1, 1, 1, square(1, 1, 1, 1, 1)},
    Int8Problem{"odd channels", 2, 5, 7, square(5, 3, 1, 3, 1)},
    Int8Problem{"tall window", 1, 9, 6, {6, 20, 1, 5, 2, 2, 1, 1, 0, 1, 1}},
    Int8Problem{"dilated", 1, 12, 11, {8, 24, 1, 3, 3, 1, 1, 2, 2, 2, 2}},
    Int8Problem{"no padding", 1, 9, 9, {16, 17, 1, 3, 3, 2, 2, 0, 0, 1, 1}},
    Int8Problem{"padding beyond the kernel", 1, 3, 3, {4, 8, 1, 2, 2, 1, 1, 3, 3, 1, 1}},
    Int8Problem{"strided point", 2, 9, 8, {12, 33, 1, 1, 1, 3, 2, 0, 0, 1, 1}},
    Int8Problem{"odd depth", 1, 6, 6, square(7, 70, 1, 1, 1)},
    Int8Problem{"two groups", 1, 6, 5, square(6, 70, 2, 3, 1)},
    Int8Problem{"groups of one input", 1, 6, 5, square(4, 8, 4, 3, 2)},
    Int8Problem{"depthwise of 3", 2, 6, 7, square(3, 3, 3, 3, 1)},
    Int8Problem{"depthwise of 40", 1, 7, 9, square(40, 40, 40, 5, 2)},
    Int8Problem{"depthwise without padding", 1, 9, 9, {32, 32, 32, 3, 3, 2, 2, 0, 0, 1, 1}},
    Int8Problem{"depthwise rows apart", 2, 9, 8, {40, 40, 40, 3, 3, 1, 1, 2, 1, 2, 1}},
    Int8Problem{"depthwise dilated", 1, 9, 9, {17, 17, 17, 3, 3, 1, 1, 2, 2, 2, 2}},
    // Where products are of 16 bits the first ones are for Winograd's transform: odd images, channels short of a panel,
    // no padding and much.
    Int8Problem{"winograd odd", 2, 7, 9, square(24, 21, 1, 3, 1)},
    Int8Problem{"winograd without padding", 1, 8, 7, {40, 40, 1, 3, 3, 1, 1, 0, 0, 1, 1}},
    Int8Problem{"winograd much padding", 1, 4, 3, {16, 70, 1, 3, 3, 1, 1, 2, 4, 1, 1}},
    Int8Problem{"winograd groups", 2, 8, 5, square(48, 60, 3, 3, 1)},
    Int8Problem{"winograd bands", 1, 10, 41, square(136, 16, 1, 3, 1)},
    Int8Problem{"winograd strips", 1, 3, 141, square(128, 18, 1, 3, 1)},
    // Tiles of 4x4: whole ones, and all widths that the last one may have.
    Int8Problem{"winograd of 4x4", 2, 12, 16, square(24, 21, 1, 3, 1)},
    Int8Problem{"winograd of 4x4, odd", 1, 15, 17, square(40, 18, 1, 3, 1)},
    Int8Problem{"winograd of 4x4, groups", 1, 19, 14, square(48, 60, 3, 3, 1)},
    Int8Problem{"winograd of 4x4, strips", 1, 15, 171, square(128, 18, 1, 3, 1)},
    Int8Problem{"3x3 of few pixels", 1, 2, 2, square(16, 40, 1, 3, 1)},
    Int8Problem{"3x3 of odd channels", 1, 6, 6, square(27, 40, 1, 3, 1)},
    Int8Problem{"rows", 1, 3, 1, square(100, 130, 1, 1, 1)},
};

}  // namespace qdq::kernel
