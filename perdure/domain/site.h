// SPDX-License-Identifier: BSD-3-Clause
// Site: every place in the code that flushes or fences, each with what a crash can break without
// it. The crash explorer leaves them out one by one, and a scenario must notice. Code that is not
// in this list cannot flush or fence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perdure {

// X(name, what a power cut may do when it is left out)
#define PERDURE_SITES(X)                                                                           \
  X(kLogRecord,                                                                                    \
    "the words of a log record are not written back: an acknowledged transaction is lost")         \
  X(kLogPost,                                                                                      \
    "(files) the words of a log record are not handed over: another thread makes durable what "    \
    "builds on them")                                                                              \
  X(kLogCommit,                                                                                    \
    "the record is not waited for: home stores overtake it, or an acknowledged transaction is "    \
    "lost")                                                                                        \
  X(kLogSeen,                                                                                      \
    "(files) a transaction returns what it read of a commit that is not durable, and that is "     \
    "lost")                                                                                        \
  X(kLogBody,                                                                                      \
    "(commit-record log) the body is not written back: a commit record may seal words that never " \
    "came")                                                                                        \
  X(kLogBodyFence,                                                                                 \
    "(commit-record log) the commit record may become durable before the body it seals")           \
  X(kXilRecord,                                                                                    \
    "(execution in log) the records of a transaction are not written back at its commit: an "      \
    "acknowledged transaction is lost")                                                            \
  X(kXilCommit, "as kXilRecord: the transaction is acknowledged while its records are on the way") \
  X(kXilBridge,                                                                                    \
    "(execution in log) an abort record is not written back: an acknowledged commit behind it "    \
    "cannot be reached")                                                                           \
  X(kXilHole,                                                                                      \
    "(execution in log) a hole keeps the torn bits of the lap before: two laps on it reads as "    \
    "written")                                                                                     \
  X(kXilFill, "as kXilHole, for the holes that recovery found")                                    \
  X(kSpillBody,                                                                                    \
    "a record too large for the ring is named by it, but its words are not written back")          \
  X(kSpillFence, "the ring may name a spilled record whose words are not durable yet")             \
  X(kInPlace,                                                                                      \
    "a new object that was initialised in place is not written back: its transaction survives, "   \
    "and what the object holds does not")                                                          \
  X(kInPlaceFence, "as kInPlace: the record that leads to the object may become durable first")    \
  X(kHome, "a home word is not written back; once its record is dropped, the update is gone")      \
  X(kHomeBulk, "as kHome, for homes written back only when the log is truncated")                  \
  X(kTruncateHome, "records are dropped while their home words are still on the way")              \
  X(kRetire,                                                                                       \
    "the retired timestamp is not written back: an old record, alone in its log, is replayed "     \
    "over newer data")                                                                             \
  X(kRetireFence, "logs are reused although recovery would still read them")                       \
  X(kHead,                                                                                         \
    "a log's head is not written back: the next lap, or another layout, overwrites words that "    \
    "recovery starts from")                                                                        \
  X(kHeadFence, "as kHead: the first record of the next lap may become durable before the head")   \
  X(kDouble,                                                                                       \
    "(files) the half that a log goes on in is not written: what stood there before is read as "   \
    "records")                                                                                     \
  X(kLongHead,                                                                                     \
    "(files) the head of a log that has been doubled is not written back: what is appended in "    \
    "its "                                                                                         \
    "other half is not found")                                                                     \
  X(kLongHeadFence,                                                                                \
    "as kLongHead and kDouble: a record in the other half may become durable first")               \
  X(kAdoptFence, "recovery's home words become durable before the records they come from")         \
  X(kReplayHome, "recovery accepts a record, and its home word is lost by the next power cut")     \
  X(kReplayFence, "recovery drops records whose home words are still on the way")                  \
  X(kEraseRing, "half of a torn record stays in the ring and is read as the rest of a later one")  \
  X(kAdopt,                                                                                        \
    "recovery believes log words, heads or sizes that a killed process left in caches; a power "   \
    "cut takes them back")                                                                         \
  X(kEraseFence, "as kEraseRing and kAdopt: a new record may become durable beside the old half")  \
  X(kGrow,                                                                                         \
    "the new size is not written back: acknowledged data lies beyond the end that recovery "       \
    "believes in")                                                                                 \
  X(kGrowFence, "as kGrow: data in the new part may become durable before the new size")           \
  X(kRaise,                                                                                        \
    "what raised limits need is not written back: tables, or a superblock that leads to them")     \
  X(kRaiseFence, "as kRaise: the superblock may become durable before the tables it leads to")     \
  X(kAreaOpenFence,                                                                                \
    "(files) pages may become durable while the sums of before are still vouched for")             \
  X(kAreaRestFence, "(files) sums may be vouched for that are still on the way")                   \
  X(kStatics,                                                                                      \
    "initial values of static variables, or the word that vouches for them, are not written back") \
  X(kStaticsFence,                                                                                 \
    "static variables count as initialized before they are, or a transaction on them overtakes "   \
    "that")                                                                                        \
  X(kStaticsAdopt,                                                                                 \
    "an open believes the word that vouches for static variables, which a killed process left in " \
    "caches; a power cut takes it back, and their values with it")                                 \
  X(kStaticsAdoptFence, "as kStaticsAdopt: a transaction on the variables overtakes that word")    \
  X(kFrameData,                                                                                    \
    "a page brought into a frame is not written back: its entry sends readers to old words")       \
  X(kFrameDataFence, "a frame's entry may become durable before the page in it")                   \
  X(kFrameEntry,                                                                                   \
    "a frame's entry is not written back: stores to the page are looked for in its "               \
    "file")                                                                                        \
  X(kFrameEntryFence, "as kFrameEntry: the program's stores may be durable before the entry")      \
  X(kFrameBacking, "(explorer's file) a page swapped out is not written to its file")              \
  X(kFrameBackingFence, "(explorer's file) an entry is cleared while its page is on the way")      \
  X(kFrameClear,                                                                                   \
    "a cleared entry is not written back: the old page is looked for in a frame that was reused")  \
  X(kFrameClearFence, "as kFrameClear: the frame may be reused before its entry is cleared")       \
  X(kFrameName, "a backing file's name is not written back: its entry vouches for old bytes")      \
  X(kFrameNameFence, "a backing file's entry may become durable before its name")                  \
  X(kFrameFile, "a backing file's entry is not written back: frames name a file that is unknown")  \
  X(kFrameFileFence, "as kFrameFile: a frame may name the file before its entry is durable")       \
  X(kFrameForget, "a dropped file's entry is not written back: it vouches for the next name")      \
  X(kFrameForgetFence, "as kFrameForget: the next name may come before the end of the last")       \
  X(kFrameAdopt,                                                                                   \
    "reconstruction believes entries that a killed process left in caches; a power cut takes "     \
    "them back")                                                                                   \
  X(kFrameAdoptFence, "as kFrameAdopt: stores to a frame may be durable before its entry")         \
  X(kUserFlush, "the application's own flush")                                                     \
  X(kUserFence, "the application's own fence")

enum class Site : std::uint8_t {
#define PERDURE_SITE(name, text) name,
  PERDURE_SITES(PERDURE_SITE)
#undef PERDURE_SITE
};

struct SiteInfo {
  Site site;
  std::string_view name;
  std::string_view without;
};

inline constexpr SiteInfo kSites[] = {
#define PERDURE_SITE(name, text) {Site::name, #name, text},
    PERDURE_SITES(PERDURE_SITE)
#undef PERDURE_SITE
};
inline constexpr std::size_t kSiteCount = sizeof(kSites) / sizeof(kSites[0]);

}  // namespace perdure
