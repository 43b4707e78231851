#include "tools/command.h"
namespace perdure::tools { void add_explore_command(CLI::App&) {} }
