// The crash explorer over every built-in scenario, as `perdure explore` runs it for people.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace {

TEST(ExploreTest, EveryCrashImageOfEveryScenarioRecovers) {
  const char* tool = std::getenv("PERDURE_TOOL");
  ASSERT_NE(tool, nullptr);
  // Its table goes to the test's output: scenarios, images, violations.
  EXPECT_EQ(std::system((std::string(tool) + " explore --all --no-canaries").c_str()), 0);
}

}  // namespace
