// What the containers share.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace perdure::detail {

/// Calls `f`; false when it returned a bool that says stop.
template <class F, class... Args>
bool keep_going(F& f, Args&&... args) {
  if constexpr (std::is_same_v<std::invoke_result_t<F&, Args...>, bool>) {
    return f(std::forward<Args>(args)...);
  } else {
    f(std::forward<Args>(args)...);
    return true;
  }
}

/// Calls `visit(offset)`; the bytes that it says stand there, or no limit when it says nothing.
template <class F, class Link>
std::uint64_t room_at(F& visit, Link at) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, std::uint64_t>>) {
    visit(at.offset);
    return ~std::uint64_t{0};
  } else {
    return visit(at.offset);
  }
}

}  // namespace perdure::detail
