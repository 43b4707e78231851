// The crash explorer over every built-in scenario, as `perdure explore` runs it for people.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace {

TEST(ExploreTest, EveryCrashImageOfTheProtocolScenariosRecovers) {
  const char* tool = std::getenv("PERDURE_TOOL");
  ASSERT_NE(tool, nullptr);
  // Its table goes to the test's output: scenarios, images, violations.
  EXPECT_EQ(std::system((std::string(tool) + " explore word lines run bytes aborts checkpoints laps small-laps two-page-ring"
                         " spilled-record spilled-object allocate-and-link free-and-unlink reuse resize huge reclaim"
                         " growth roots turns foreign-checkpoint idle-log handed-over tornbit-log commit-log append-log")
                            .c_str()), 0);
}

}  // namespace
