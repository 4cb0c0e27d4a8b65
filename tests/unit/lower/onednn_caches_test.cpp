// What oneDNN takes the caches for.
#include <gtest/gtest.h>

#include "lower/backend/onednn.h"

namespace dnnl::impl::cpu::platform {
unsigned get_per_core_cache_size(int level);
}

namespace qdq::onednn_caches_test {
namespace {

TEST(OneDnnCaches, KeepTheSizesThatTheProcessorTells) {
  EXPECT_EQ(onednn::cache_bytes(1, 48U << 10, 32 << 10), 48U << 10);
  EXPECT_EQ(onednn::cache_bytes(2, 1U << 20, 0), 1U << 20);
  EXPECT_EQ(onednn::cache_bytes(4, 0, 0), 0U);
}

// 1 is what CPUID's zeros come to.
TEST(OneDnnCaches, HaveUsualSizesWhereTheProcessorHidesThem) {
  EXPECT_EQ(onednn::cache_bytes(1, 1, 0), 32U << 10);
  EXPECT_EQ(onednn::cache_bytes(2, 1, -1), 512U << 10);
  EXPECT_EQ(onednn::cache_bytes(3, 1, 0), 1U << 20);
}

TEST(OneDnnCaches, HaveTheSizesThatTheCLibraryTellsWhereTheProcessorHidesThem) {
  EXPECT_EQ(onednn::cache_bytes(1, 1, 48 << 10), 48U << 10);
  EXPECT_EQ(onednn::cache_bytes(2, 1, 1 << 20), 1U << 20);
}

TEST(OneDnnCaches, AreTheOnesThatOneDnnAsksFor) {
  for (const int level : {1, 2}) EXPECT_GE(dnnl::impl::cpu::platform::get_per_core_cache_size(level), 4096U) << level;
}

// oneDNN divided by zero here where the caches were hidden: the shortcut of ResNet-50's third stage.
TEST(OneDnnCaches, LetConvolutionsOfAPixelBeMade) {
  using dnnl::memory;
  const auto image = [](memory::dim channels, memory::dim side) {
    return memory::desc({1, channels, side, side}, memory::data_type::u8, memory::format_tag::nhwc);
  };
  const memory::desc weights({1024, 512, 1, 1}, memory::data_type::s8, memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc made(onednn::engine(), dnnl::prop_kind::forward_inference,
                                                       dnnl::algorithm::convolution_direct, image(512, 28), weights,
                                                       image(1024, 14), {2, 2}, {0, 0}, {0, 0});
  EXPECT_TRUE(made);
}

}  // namespace
}  // namespace qdq::onednn_caches_test
