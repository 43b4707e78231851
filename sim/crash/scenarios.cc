#include "sim/crash/scenarios.h"

#include <iterator>

namespace perdure::crash {

std::vector<Subject> registry() {
  std::vector<Subject> all;
  for (auto room : {transaction_scenarios, heap_scenarios, thread_scenarios, log_scenarios,
                    xil_scenarios, in_log_scenarios, softwrap_scenarios, wrap_scenarios,
                    space_scenarios, container_scenarios, object_scenarios, frame_scenarios}) {
    std::vector<Subject> subjects = room();
    std::move(subjects.begin(), subjects.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace perdure::crash
