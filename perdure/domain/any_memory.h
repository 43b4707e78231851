// SPDX-License-Identifier: BSD-3-Clause
// AnyMemory: memory whose write-back instruction is chosen at run time, by one branch per flush. It
//            is for paths on which a whole page is copied anyway, memory is emulated, or the CPU
//            lacks the best instruction. Where lines are flushed one by one, take Adr, Eadr or
//            Dram.
#pragma once

#include "perdure/domain/adr.h"
#include "perdure/domain/dram.h"
#include "perdure/domain/eadr.h"

namespace perdure {

class AnyMemory : public CachedStores {
 public:
  explicit AnyMemory(DomainKind kind = DomainKind::kAdr) : how_(how(kind)) {}
  void write_through(Word* home, const Word* words, std::size_t count, Site site) const {
    switch (how_) {
      case How::kClwb: return Adr<x86::Clwb>::write_through(home, words, count, site);
      case How::kClflushopt: return Adr<x86::Clflushopt>::write_through(home, words, count, site);
      case How::kClflush: return Adr<x86::Clflush>::write_through(home, words, count, site);
      case How::kFenceOnly:
      case How::kNothing: return Dram::write_through(home, words, count, site);
    }
  }
  void flush(const void* address, std::size_t bytes, Site site) const {
    switch (how_) {
      case How::kClwb: return Adr<x86::Clwb>::flush(address, bytes, site);
      case How::kClflushopt: return Adr<x86::Clflushopt>::flush(address, bytes, site);
      case How::kClflush: return Adr<x86::Clflush>::flush(address, bytes, site);
      case How::kFenceOnly:
      case How::kNothing: return;
    }
  }
  bool fence(Site site) const {
    return how_ == How::kNothing ? Dram::fence(site) : Eadr::fence(site);
  }

 private:
  enum class How : std::uint8_t { kClwb, kClflushopt, kClflush, kFenceOnly, kNothing };
  static How how(DomainKind kind) {
    if (kind == DomainKind::kEadr) return How::kFenceOnly;
    if (kind == DomainKind::kDram) return How::kNothing;
    switch (x86::best_write_back()) {
      case x86::WriteBack::kClwb: return How::kClwb;
      case x86::WriteBack::kClflushopt: return How::kClflushopt;
      default: return How::kClflush;
    }
  }

  How how_;
};

}  // namespace perdure
