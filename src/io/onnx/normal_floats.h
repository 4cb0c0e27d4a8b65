// The numbers that four bits stand for in bitsandbytes.
#pragma once

namespace qdq {

constexpr float kFloat4[] = {0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                             -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
// NF4, "normal floats", in order.
constexpr float kNormalFloat4[] = {-1.0f,        -0.69619280f, -0.52507305f, -0.39491749f, -0.28444138f, -0.18477343f,
                                   -0.09105004f, 0.0f,         0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                                   0.44070983f,  0.56261700f,  0.72295684f,  1.0f};

}  // namespace qdq
