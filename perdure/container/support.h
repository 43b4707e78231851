// What the containers share.
#pragma once

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

}  // namespace perdure::detail
