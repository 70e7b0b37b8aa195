#include "rpc/base/metrics_text.h"

#include <gtest/gtest.h>

namespace skua {
namespace {

TEST(MetricsText, SamplesFollowTheirFamily) {
  MetricsText text;
  text.family("skua_nodes", "Nodes.");
  text.sample("liveness=\"live\"", 2);
  text.sample("liveness=\"gone\"", 0);
  text.single("skua_calls_total", "Calls.", 7);
  EXPECT_EQ(text.text(),
            "# HELP skua_nodes Nodes.\n# TYPE skua_nodes gauge\nskua_nodes{liveness=\"live\"} 2\n"
            "skua_nodes{liveness=\"gone\"} 0\n"
            "# HELP skua_calls_total Calls.\n# TYPE skua_calls_total counter\nskua_calls_total 7\n");
}

TEST(MetricsText, OpenMetricsNamesCountersWithoutTheirSuffix) {
  EXPECT_EQ(to_open_metrics("# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 3\n# TYPE b gauge\nb 1\n"),
            "# HELP a A.\n# TYPE a counter\na_total{x=\"1\"} 3\n# TYPE b gauge\nb 1\n# EOF\n");
  EXPECT_EQ(to_open_metrics(""), "# EOF\n");
}

TEST(MetricsText, OpenMetricsHasLimitsOfBucketsWithAPoint) {
  EXPECT_EQ(to_open_metrics("a_bucket{le=\"1\"} 3\na_bucket{x=\"y\",le=\"10\"} 3\na_bucket{le=\"0.5\"} 1\n"
                            "a_bucket{le=\"+Inf\"} 4\nb{sale=\"1\"} 1\n# le=\"1\"\nle 1\n"),
            "a_bucket{le=\"1.0\"} 3\na_bucket{x=\"y\",le=\"10.0\"} 3\na_bucket{le=\"0.5\"} 1\n"
            "a_bucket{le=\"+Inf\"} 4\nb{sale=\"1\"} 1\n# le=\"1\"\nle 1\n# EOF\n");
}

TEST(MetricsText, LabelsAreEscaped) {
  EXPECT_EQ(escaped_label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
}

}  // namespace
}  // namespace skua
