// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/trace_file.h"

#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "perdure/error.h"

namespace perdure::memory {
namespace {

constexpr std::string_view kMagic = "PRDTRACE";
constexpr std::string_view kEndMagic = "PRDTREND";
constexpr std::size_t kFrontBytes = 16;    // of the file, before the head
constexpr std::size_t kSectionFront = 16;  // before a section's frame
constexpr std::size_t kEndBytes = 16;
constexpr std::size_t kBlockRecords = 32768;
constexpr std::size_t kMostContent = 1 << 20;  // of a section; a record is 11 bytes at most
constexpr int kLevel = 1;  // zstd's quickest: recording keeps pace with the emulator

constexpr std::uint32_t tag_of(const char (&name)[5]) {
  return std::uint32_t(name[0]) | std::uint32_t(name[1]) << 8 | std::uint32_t(name[2]) << 16 |
         std::uint32_t(name[3]) << 24;
}
constexpr std::uint32_t kHead = tag_of("HEAD");
constexpr std::uint32_t kRecords = tag_of("RECS");
constexpr std::uint32_t kTotals = tag_of("TOTL");

template <class T>
void put_fixed(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to.push_back(static_cast<char>(value >> 8 * i));
}
template <class T>
T fixed_at(std::string_view bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= T{static_cast<unsigned char>(bytes[offset + i])} << 8 * i;
  return value;
}

void put_number(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}
void put_text(std::string& to, std::string_view text) {
  put_number(to, text.size());
  to += text;
}

/// Reads what the functions above wrote. Past the end everything is 0, and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

  unsigned byte() {
    if (rest_.empty()) {
      ok_ = false;
      return 0;
    }
    const auto value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const unsigned next = byte();
      value |= std::uint64_t{next & 0x7f} << shift;
      if (next < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  std::string text() {
    const std::uint64_t bytes = number();
    if (bytes > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string value(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::uint64_t zigzag(std::uint64_t difference) {
  return difference << 1 ^ (std::uint64_t{0} - (difference >> 63));
}
std::uint64_t unzigzag(std::uint64_t value) {
  return value >> 1 ^ (std::uint64_t{0} - (value & 1));
}

/// The address before, of the records' two kinds of addresses.
class Addresses {
 public:
  std::uint64_t& before(AccessKind kind) { return kind == AccessKind::kFetch ? fetch_ : data_; }

 private:
  std::uint64_t fetch_ = 0;
  std::uint64_t data_ = 0;
};

constexpr unsigned kLongGap = 7;

void put_record(std::string& to, Access access, Addresses& addresses) {
  const AccessKind kind = access.kind();
  const auto size_log2 = static_cast<unsigned>(access.bits >> 48 & 7);
  const unsigned gap = std::min(access.gap(), kLongGap);
  to.push_back(static_cast<char>(unsigned(kind) | size_log2 << 2 | gap << 5));
  if (gap == kLongGap) put_number(to, access.gap() - kLongGap);
  if (kind == AccessKind::kRun) {
    put_number(to, access.address());
  } else {
    std::uint64_t& before = addresses.before(kind);
    put_number(to, zigzag(access.address() - before));
    before = access.address();
  }
}

/// Nothing for bytes that are no record.
std::optional<Access> record_of(Reader& from, Addresses& addresses) {
  const unsigned first = from.byte();
  const auto kind = AccessKind(first & 3);
  const unsigned size_log2 = first >> 2 & 7;
  std::uint64_t gap = first >> 5;
  if (gap == kLongGap) {
    const std::uint64_t more = from.number();
    if (more > Access::kMostGap) return std::nullopt;
    gap += more;
  }
  std::uint64_t address = from.number();
  if (kind != AccessKind::kRun) {
    std::uint64_t& before = addresses.before(kind);
    address = before + unzigzag(address);
    before = address;
  }
  if (!from.ok() || size_log2 > 6 || gap > Access::kMostGap || address > Access::kAddressMask)
    return std::nullopt;
  return Access::of(kind, address, size_log2, static_cast<unsigned>(gap));
}

void count(TraceTotals& totals, Access access) {
  ++totals.records[static_cast<std::size_t>(access.kind())];
  totals.instructions += access.gap();
  if (access.kind() == AccessKind::kRun) totals.instructions += access.address();
}

}  // namespace

TraceWriter::TraceWriter(std::string path, std::string_view program,
                         std::span<const std::string> arguments)
    : path_(std::move(path)), file_(path_, std::ios::binary | std::ios::trunc) {
  std::string front(kMagic);
  put_fixed<std::uint32_t>(front, kTraceVersion);
  put_fixed<std::uint32_t>(front, 0);
  write_bytes(front);
  std::string head;
  put_text(head, program);
  put_number(head, arguments.size());
  for (const std::string& each : arguments) put_text(head, each);
  write_section(kHead, head);
  block_.reserve(kBlockRecords);
}

void TraceWriter::write(std::span<const Access> records) {
  for (const Access access : records) {
    block_.push_back(access);
    count(totals_, access);
    if (block_.size() == kBlockRecords) write_block();
  }
}

void TraceWriter::write_block() {
  std::string content;
  content.reserve(4 * kBlockRecords);
  put_number(content, blocks_++);
  put_number(content, block_.size());
  Addresses addresses;
  for (const Access access : block_) put_record(content, access, addresses);
  write_section(kRecords, content);
  block_.clear();
}

void TraceWriter::finish(std::uint64_t skipped_instructions) {
  if (!block_.empty()) write_block();
  totals_.skipped = skipped_instructions;
  std::string totals;
  put_number(totals, totals_.instructions);
  put_number(totals, totals_.skipped);
  for (const std::uint64_t records : totals_.records) put_number(totals, records);
  std::string end;
  put_fixed<std::uint64_t>(end, offset_);
  end += kEndMagic;
  write_section(kTotals, totals);
  write_bytes(end);
  file_.close();
  if (!file_) throw Exception(Code::kIo, path_ + ": cannot be written: " + std::strerror(errno));
}

void TraceWriter::write_section(std::uint32_t tag, std::string_view content) {
  if (content.size() > kMostContent)
    throw Exception(Code::kInvalid, path_ + ": the program's arguments are too long for a trace");
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  const std::size_t bytes =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), content.data(), content.size());
  if (ZSTD_isError(bytes) != 0)
    throw Exception(Code::kIo, path_ + ": cannot be compressed: " + ZSTD_getErrorName(bytes));
  frame.resize(bytes);
  std::string front;
  put_fixed<std::uint32_t>(front, tag);
  put_fixed<std::uint32_t>(front, static_cast<std::uint32_t>(bytes));
  put_fixed<std::uint32_t>(front, static_cast<std::uint32_t>(content.size()));
  put_fixed<std::uint32_t>(front, 0);
  write_bytes(front);
  write_bytes(frame);
}

void TraceWriter::write_bytes(std::string_view bytes) {
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file_) throw Exception(Code::kIo, path_ + ": cannot be written: " + std::strerror(errno));
  offset_ += bytes.size();
}

// ---- Reading -----------------------------------------------------------------------------------

namespace {

[[noreturn]] void corrupt(const std::string& path, std::uint64_t at, const std::string& what) {
  throw Exception(Code::kCorrupt, path + ": damaged at byte " + std::to_string(at) + ": " + what +
                                      "; copy it again from where it came, or record it again");
}

}  // namespace

TraceFile::TraceFile(std::string path) : path_(std::move(path)), file_(path_, std::ios::binary) {
  std::error_code failed;
  file_bytes_ = std::filesystem::file_size(path_, failed);
  if (failed || !file_)
    throw Exception(failed == std::errc::no_such_file_or_directory ? Code::kNotFound : Code::kIo,
                    path_ + ": cannot be opened: " +
                        (failed ? failed.message() : std::string(std::strerror(errno))));
  if (file_bytes_ < kFrontBytes || !read_bytes(kMagic.size()).starts_with(kMagic))
    throw Exception(Code::kForeign, path_ + ": not a recorded trace: it does not begin with \"" +
                                        std::string(kMagic) + "\"");
  const std::string front = read_bytes(kFrontBytes - kMagic.size());
  const auto version = fixed_at<std::uint32_t>(front, 0);
  if (version != kTraceVersion)
    throw Exception(Code::kVersion, path_ + ": a trace of version " + std::to_string(version) +
                                        "; this release reads version " +
                                        std::to_string(kTraceVersion) +
                                        ": take the release that wrote it, or record it again");
  if (fixed_at<std::uint32_t>(front, 4) != 0) corrupt(path_, 12, "not 0");
  read_totals();
  offset_ = kFrontBytes;
  file_.seekg(static_cast<std::streamoff>(offset_));
  read_head();
}

void TraceFile::read_totals() {
  std::string end;
  if (file_bytes_ >= kFrontBytes + kEndBytes) {
    offset_ = file_bytes_ - kEndBytes;
    file_.seekg(static_cast<std::streamoff>(offset_));
    end = read_bytes(kEndBytes);
  }
  if (!end.ends_with(kEndMagic))
    throw Exception(Code::kTruncated,
                    path_ + ": ends at byte " + std::to_string(file_bytes_) + " without \"" +
                        std::string(kEndMagic) +
                        "\": its recording, or a copy of it, was interrupted; record it again");
  totals_at_ = fixed_at<std::uint64_t>(end, 0);
  if (totals_at_ < kFrontBytes || totals_at_ > file_bytes_ - kEndBytes)
    corrupt(path_, file_bytes_ - kEndBytes,
            "the totals are said to be at byte " + std::to_string(totals_at_));
  offset_ = totals_at_;
  file_.seekg(static_cast<std::streamoff>(offset_));
  const std::string content = read_section(kTotals);
  Reader reader(content);
  totals_.instructions = reader.number();
  totals_.skipped = reader.number();
  for (std::uint64_t& records : totals_.records) records = reader.number();
  if (!reader.ok() || !reader.at_end() || offset_ != file_bytes_ - kEndBytes)
    corrupt(path_, totals_at_, "no totals");
}

void TraceFile::read_head() {
  const std::string content = read_section(kHead);
  Reader reader(content);
  program_ = reader.text();
  const std::uint64_t count_of_arguments = reader.number();
  for (std::uint64_t i = 0; i < count_of_arguments && reader.ok(); ++i)
    arguments_.push_back(reader.text());
  if (!reader.ok() || !reader.at_end()) corrupt(path_, section_at_, "no head");
}

std::span<const Access> TraceFile::next() {
  records_.clear();
  if (offset_ < totals_at_) {
    decode_block(read_section(kRecords));
    return records_;
  }
  found_.skipped = totals_.skipped;
  if (offset_ != totals_at_ || found_ != totals_)
    corrupt(path_, totals_at_, "the records are not those that the totals count");
  return {};
}

void TraceFile::decode_block(const std::string& content) {
  Reader reader(content);
  const std::uint64_t number = reader.number();
  if (number != blocks_)
    corrupt(path_, section_at_,
            "block " + std::to_string(number) + " instead of " + std::to_string(blocks_));
  ++blocks_;
  const std::uint64_t records = reader.number();
  if (records == 0 || records > kBlockRecords)
    corrupt(path_, section_at_, "a block of " + std::to_string(records) + " records");
  Addresses addresses;
  for (std::uint64_t i = 0; i < records; ++i) {
    const std::optional<Access> access = record_of(reader, addresses);
    if (!access) corrupt(path_, section_at_, "record " + std::to_string(i) + " of a block is none");
    records_.push_back(*access);
    count(found_, *access);
  }
  if (!reader.at_end()) corrupt(path_, section_at_, "a block with bytes behind its last record");
}

/// The section's content, and then `offset_` is behind it.
std::string TraceFile::read_section(std::uint32_t tag) {
  section_at_ = offset_;
  const std::string front = read_bytes(kSectionFront);
  const auto frame_bytes = fixed_at<std::uint32_t>(front, 4);
  const auto content_bytes = fixed_at<std::uint32_t>(front, 8);
  if (fixed_at<std::uint32_t>(front, 0) != tag || fixed_at<std::uint32_t>(front, 12) != 0 ||
      content_bytes > kMostContent || frame_bytes > ZSTD_compressBound(kMostContent))
    corrupt(path_, section_at_, "no section of the kind that is due here");
  const std::string frame = read_bytes(frame_bytes);
  std::string content(content_bytes, '\0');
  const std::size_t bytes =
      ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size());
  if (ZSTD_isError(bytes) != 0) corrupt(path_, section_at_, ZSTD_getErrorName(bytes));
  if (bytes != content_bytes) corrupt(path_, section_at_, "its content has another length");
  return content;
}

std::string TraceFile::read_bytes(std::size_t count_of_bytes) {
  if (count_of_bytes > file_bytes_ - offset_)
    corrupt(path_, offset_, "ends in the middle of a section");
  std::string bytes(count_of_bytes, '\0');
  file_.read(bytes.data(), static_cast<std::streamsize>(count_of_bytes));
  if (!file_)
    throw Exception(Code::kIo, path_ + ": cannot be read at byte " + std::to_string(offset_) +
                                   ": " + std::strerror(errno));
  offset_ += count_of_bytes;
  return bytes;
}

}  // namespace perdure::memory
