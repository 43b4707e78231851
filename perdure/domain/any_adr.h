// AnyAdr: Adr with the write-back instruction chosen when it runs: one branch per flush, for paths
//         on which a whole page is copied anyway, memory is emulated, or the CPU lacks the best.
//         Where lines are flushed one by one, take Adr.
#pragma once

#include "perdure/domain/adr.h"

namespace perdure {

class AnyAdr : public CachedStores {
 public:
  AnyAdr() : best_(x86::best_write_back()) {}
  void write_through(Word* home, const Word* words, std::size_t count, Site site) const {
    switch (best_) {
      case x86::WriteBack::kClwb: return Adr<x86::Clwb>::write_through(home, words, count, site);
      case x86::WriteBack::kClflushopt:
        return Adr<x86::Clflushopt>::write_through(home, words, count, site);
      case x86::WriteBack::kClflush:
        return Adr<x86::Clflush>::write_through(home, words, count, site);
    }
  }
  void flush(const void* address, std::size_t bytes, Site site) const {
    switch (best_) {
      case x86::WriteBack::kClwb: return Adr<x86::Clwb>::flush(address, bytes, site);
      case x86::WriteBack::kClflushopt: return Adr<x86::Clflushopt>::flush(address, bytes, site);
      case x86::WriteBack::kClflush: return Adr<x86::Clflush>::flush(address, bytes, site);
    }
  }
  static bool fence(Site site) { return Adr<x86::Clwb>::fence(site); }

 private:
  x86::WriteBack best_;
};

}  // namespace perdure
