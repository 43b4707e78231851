// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/trace_file.h"

#include <unistd.h>
#include <zstd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/error.h"
#include "sim/crash/choices.h"
#include "papers/thynvm/memory/generators.h"

namespace perdure::memory {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Every kind, size and gap, addresses at both ends and everywhere between.
std::vector<Access> mixed_records(std::size_t count) {
  crash::Random random(5);
  std::vector<Access> all;
  all.push_back(Access::of(AccessKind::kStore, Access::kAddressMask, 6, Access::kMostGap));
  all.push_back(Access::of(AccessKind::kLoad, 0, 0, 0));
  all.push_back(Access::run(Access::kAddressMask));
  while (all.size() < count) {
    const auto kind = AccessKind(random.below(4));
    const std::uint64_t address = random.next() & Access::kAddressMask >> random.below(48);
    const auto gap = static_cast<unsigned>(random.below(random.below(2) == 0 ? 12 : 2048));
    all.push_back(Access::of(kind, address, static_cast<unsigned>(random.below(7)), gap));
  }
  all.resize(count);
  return all;
}

class TraceFileTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  void record(std::span<const Access> records) const {
    TraceWriter writer(path_, "/usr/bin/true", std::vector<std::string>{"-x", ""});
    writer.write(records.first(records.size() / 3));
    writer.write(records.subspan(records.size() / 3));
    writer.finish(77);
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  void put(std::size_t at, char byte) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  std::vector<Access> replay() const {
    TraceFile file(path_);
    std::vector<Access> all;
    for (auto batch = file.next(); !batch.empty(); batch = file.next())
      all.insert(all.end(), batch.begin(), batch.end());
    return all;
  }
  std::string message(Code expected) const {
    try {
      replay();
    } catch (const Exception& error) {
      EXPECT_EQ(code_name(error.code()), code_name(expected)) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  std::string path_ = testing::TempDir() + "trace_" + std::to_string(::getpid());
};

TEST_F(TraceFileTest, GivesBackWhatWasWritten) {
  for (const std::size_t count : {0UL, 1UL, 3UL, 32768UL, 100'000UL}) {
    const std::vector<Access> records = mixed_records(count);
    record(records);
    EXPECT_EQ(replay(), records) << count;
  }
}

TEST_F(TraceFileTest, TellsOfTheRunBeforeItIsRead) {
  record(std::vector{Access::of(AccessKind::kFetch, 64, 6, 5), Access::run(1000),
                     Access::of(AccessKind::kStore, 8, 3, 20)});
  const TraceFile file(path_);
  EXPECT_EQ(file.program(), "/usr/bin/true");
  EXPECT_THAT(file.arguments(), ElementsAre("-x", ""));
  EXPECT_EQ(file.totals().instructions, 1025U);
  EXPECT_EQ(file.totals().skipped, 77U);
  EXPECT_THAT(file.totals().records, ElementsAre(1, 0, 1, 1));
}

TEST_F(TraceFileTest, TheFormatIsFixed) {
  record(std::vector{Access::of(AccessKind::kFetch, 0x400040, 6, 1),
                     Access::of(AccessKind::kLoad, 0x1000, 3, 300),
                     Access::of(AccessKind::kStore, 0xff8, 3, 2), Access::run(5000)});
  const std::string file = bytes();
  EXPECT_EQ(file.substr(0, 20), std::string("PRDTRACE\1\0\0\0\0\0\0\0HEAD", 20));
  const auto number_at = [&](std::size_t at) {
    return std::size_t{static_cast<unsigned char>(file[at])};
  };
  std::size_t at = 16;
  std::vector<std::string> contents;
  for (int i = 0; i < 3; ++i) {  // These sections are small: one byte of their lengths is not 0.
    std::string content(number_at(at + 8), '\0');
    EXPECT_EQ(ZSTD_decompress(content.data(), content.size(), &file[at + 16], number_at(at + 4)),
              content.size());
    contents.push_back(file.substr(at, 4) + content);
    at += 16 + number_at(at + 4);
  }
  EXPECT_EQ(contents[0], std::string("HEAD\15/usr/bin/true\2\2-x\0", 23));
  EXPECT_EQ(contents[1], std::string("RECS\0\4"
                                     "\x38\x80\x81\x80\4"  // fetch, 64 bytes, gap 1
                                     "\xed\xa5\2\x80\x40"  // load, 8 bytes, gap 7 + 293
                                     "\x4e\x0f"            // store, 8 bytes, gap 2, 8 back
                                     "\x03\x88\x27",       // run
                                     21));
  EXPECT_EQ(contents[2], std::string("TOTL\xb7\x29\x4d\1\1\1\1", 11));
  EXPECT_EQ(file.substr(file.size() - 8), "PRDTREND");
}

TEST_F(TraceFileTest, AFlippedByteIsAnErrorOrChangesNothing) {
  const std::vector<Access> records = mixed_records(150);
  record(records);
  const std::string whole = bytes();
  std::size_t errors = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char flip : {'\x01', '\x10', '\x80', '\xff'}) {
      put(i, static_cast<char>(whole[i] ^ flip));
      try {
        EXPECT_EQ(replay(), records) << "byte " << i;
      } catch (const Exception& error) {
        ++errors;
        EXPECT_THAT(error.what(), HasSubstr(path_));
      }
    }
    put(i, whole[i]);
  }
  EXPECT_GT(errors, whole.size() * 4 * 95 / 100);
}

TEST_F(TraceFileTest, EveryTruncationIsAnError) {
  record(mixed_records(150));
  const std::string whole = bytes();
  replace(whole + "x");
  EXPECT_THROW(replay(), Exception);
  for (std::size_t length = whole.size(); length-- > 0;) {
    std::filesystem::resize_file(path_, length);
    EXPECT_THROW(replay(), Exception) << length;
  }
}

TEST_F(TraceFileTest, ErrorsSayWhatWhereAndWhatToDo) {
  EXPECT_THAT(message(Code::kNotFound), HasSubstr("cannot be opened"));
  replace("#!/bin/sh\necho this is not a trace\n");
  EXPECT_THAT(message(Code::kForeign), HasSubstr("not a recorded trace"));
  record(mixed_records(100'000));
  const std::string whole = bytes();
  std::string newer = whole;
  newer[8] = 2;
  replace(newer);
  EXPECT_THAT(message(Code::kVersion),
              AllOf(HasSubstr("version 2"), HasSubstr("take the release that wrote it")));
  replace(whole.substr(0, whole.size() / 2));
  EXPECT_THAT(message(Code::kTruncated), AllOf(HasSubstr("was interrupted"), HasSubstr("again")));
  std::string damaged = whole;
  damaged[whole.size() / 2] ^= 1;
  replace(damaged);
  EXPECT_THAT(message(Code::kCorrupt), AllOf(HasSubstr("damaged at byte"), HasSubstr("again")));
}

TEST_F(TraceFileTest, ARecordingWithoutItsEndIsTruncated) {
  {
    TraceWriter(path_, "p", {}).write(mixed_records(40'000));
  }
  EXPECT_THAT(message(Code::kTruncated), HasSubstr("was interrupted"));
}

TEST_F(TraceFileTest, ALostBlockIsAnError) {
  record(mixed_records(100'000));
  std::string file = bytes();
  const std::size_t first = file.find("RECS");
  const std::size_t second = file.find("RECS", first + 4);
  const std::size_t third = file.find("RECS", second + 4);
  file.erase(second, third - second);
  const std::uint64_t totals = file.find("TOTL");
  for (std::size_t i = 0; i < 8; ++i)
    file[file.size() - 16 + i] = static_cast<char>(totals >> 8 * i);
  replace(file);
  EXPECT_THAT(message(Code::kCorrupt), HasSubstr("block 2 instead of 1"));
}

TEST_F(TraceFileTest, CannotBeWrittenWhereThereIsNoFolder) {
  EXPECT_THROW(TraceWriter(path_ + "/none/trace", "p", {}), Exception);
}

}  // namespace
}  // namespace perdure::memory
