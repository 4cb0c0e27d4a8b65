// Every allocation fails once: one sentence or the right answer, the old outputs whole, no file left, nothing leaked.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include "cli/last_words.h"
#include "faults/failing_memory.h"
#include "faults/faulty_verbs.h"
#include "format/image.h"
#include "source_dir.h"

namespace qdq {
namespace {

// One run in which the n-th allocation fails. False if there are fewer.
bool walk_one(const Verb& verb, uint64_t n, bool all_after, const Texts& whole, Told& told) {
  Texts old;
  for (const auto& [name, bytes] : whole)
    if (name != "checkpoint") old[name] = "old";
  restore(old);
  Console console;
  told.at = n;
  fail_allocation(n, all_after);
  const int status = run_cli(verb.words, console);
  const bool is_last = allocations() < n;
  fail_allocation(0);
  const auto wrong = [&](const std::string& what) {
    ++told.wrong;
    std::fprintf(stderr, "%s, allocation %llu: %s; status %d, %s\n", verb.name, static_cast<unsigned long long>(n),
                 what.c_str(), status, console.err);
  };
  static const std::regex sentence("qdq: [^\n]*(memory|does not fit)[^\n]*\n");
  const std::string err = console.err;
  const size_t last = err.rfind("qdq: ");
  if (status == 1) {
    ++told.refused;
    if (last == std::string::npos || !std::regex_match(err.substr(last), sentence)) wrong("no sentence about memory");
  } else if (status == 0) {
    ++told.done;
  } else {
    wrong("another status");
  }
  for (const auto& [name, bytes] : outputs()) {
    const auto found = whole.find(name);
    if (found == whole.end()) wrong(name + " is left");
    else if (bytes != found->second && (status == 0 || (bytes != "old" && name != "checkpoint")))
      wrong(name + " is neither old nor whole");
  }
  return !is_last;
}

// Whether a process that stopped in the midst of a walk did so by its last words, or as its verb may.
bool is_ended_well(const Verb& verb, int ended) { return ended == 1 || (verb.may_crash && ended == 128 + SIGSEGV); }

void print_walk(const Verb& verb, uint64_t stride, const Told& told) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("%s: %llu allocations, each %lluth fails: %llu sentences, %llu right answers, %llu last words\n",
              verb.name, number(told.at), number(stride), number(told.refused), number(told.done), number(told.ended));
}

struct FailingMemory : FaultyVerbs {};

// A program that has run once: its tables stand. After each failure nothing more may be in use than before.
TEST_P(FailingMemory, OnceInAProgramThatHasWorked) {
  const Verb verb = verbs()[GetParam()];
  const uint64_t stride = number_of("QDQ_ALLOCATION_STRIDE", 97);
  told->next = number_of("QDQ_ALLOCATION_FIRST", 1);
  constexpr int kWalked = 10, kWrongWithoutFault = 11, kWrongAfterwards = 12;
  for (;;) {
    const int ended = in_child([&] {
      say_last_words();
      const Texts whole = whole_outputs(verb);
      if (whole.empty() || whole_outputs(verb) != whole) return kWrongWithoutFault;
      int64_t before = -1;
      for (uint64_t n = told->next; walk_one(verb, n, false, whole, *told); n += stride) {
        told->next = n + stride;
        const int64_t now = blocks_in_use();
        if (before >= 0 && now > before) {
          std::fprintf(stderr, "%s, allocation %llu: %lld blocks leaked\n", verb.name,
                       static_cast<unsigned long long>(n), static_cast<long long>(now - before));
          ++told->wrong;
        }
        before = now;
      }
      return whole_outputs(verb) == whole ? kWalked : kWrongAfterwards;
    });
    if (ended == kWalked) break;
    EXPECT_TRUE(is_ended_well(verb, ended)) << verb.name << ", allocation " << told->at << ", ended by " << ended;
    if (ended == kWrongWithoutFault || ended == kWrongAfterwards) break;
    ++told->ended;
    told->next = told->at + stride;
  }
  EXPECT_EQ(told->wrong, 0U);
  EXPECT_GT(told->refused, told->ended);
  print_walk(verb, stride, *told);
}

// A program that starts: the tables of operators and words are made, too. Once, or the memory is gone for good.
TEST_P(FailingMemory, InAProgramThatStarts) {
  const Verb verb = verbs()[GetParam()];
  const uint64_t stride = number_of("QDQ_ALLOCATION_STRIDE", 97) * 23;
  constexpr int kDone = 10, kLast = 11;
  ASSERT_EQ(in_child([&] { return whole_outputs(verb).empty() ? 1 : 0; }), 0);
  const Texts whole = outputs();
  for (const bool all_after : {false, true}) {
    int ended = kDone;
    for (uint64_t n = 1; ended != kLast; n += stride) {
      ended = in_child([&] {
        say_last_words();
        return walk_one(verb, n, all_after, whole, *told) ? kDone : kLast;
      });
      if (ended == kDone || ended == kLast) continue;
      EXPECT_TRUE(is_ended_well(verb, ended)) << verb.name << ", allocation " << n << ", ended by " << ended;
      ++told->ended;
      for (const auto& [name, bytes] : outputs())
        EXPECT_TRUE(bytes == "old" || bytes == whole.at(name)) << verb.name << ", allocation " << n << ", " << name;
    }
  }
  EXPECT_EQ(told->wrong, 0U);
  print_walk(verb, stride, *told);
}

// Decodes the image with its n-th allocation failing. False if there are fewer. Counts what is refused.
bool decode_with_failure(std::span<const std::byte> bytes, const Tensor& whole, uint64_t n, int& refused) {
  bool is_last = false;
  fail_allocation(n);
  try {
    const Tensor pixels = format::decode_image(bytes, "image");
    is_last = allocations() < n;
    fail_allocation(0);
    // Where the memory to look for another format is refused, the right one is found all the same.
    EXPECT_TRUE(std::ranges::equal(pixels.span<uint8_t>(), whole.span<uint8_t>())) << n;
  } catch (const std::bad_alloc&) {
    ++refused;
  } catch (const Error& error) {
    ++refused;
    EXPECT_EQ(error.code, ErrorCode::kOutOfMemory) << n << ": " << error.what();
  }
  fail_allocation(0);
  return !is_last;
}

// The decoders say no more than that they cannot; that the file is broken would be a lie.
TEST(FailingDecoders, SpeakOfMemoryAndNotOfTheImage) {
  int decoded = 0;
  for (const char* name : {"gradient.bmp", "gradient.jpg", "gradient.png", "gradient_gray.png", "gradient_rgba.png"}) {
    SCOPED_TRACE(name);
    const std::vector<std::byte> bytes = disk().read((fs::path(kSourceDir) / "tests/golden/format" / name).string());
    const Tensor whole = format::decode_image(bytes, "image");
    int refused = 0;
    int64_t before = -1;  // what exceptions need is made for the first
    for (uint64_t n = 1; decode_with_failure(bytes, whole, n, refused); ++n, ++decoded) {
      EXPECT_TRUE(before < 0 || blocks_in_use() == before) << n;
      before = blocks_in_use();
    }
    EXPECT_GT(refused, 0);
  }
  EXPECT_GT(decoded, 10);
}

INSTANTIATE_TEST_SUITE_P(Verbs, FailingMemory, testing::Range<size_t>(0, verbs().size()),
                         [](const auto& info) { return std::string(verbs()[info.param].name); });

}  // namespace
}  // namespace qdq
