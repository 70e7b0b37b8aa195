#include "ycsb/core/exporter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace skua::ycsb {
namespace {

std::string exported(std::string_view name) {
  std::ostringstream out;
  auto exporter = make_exporter(name, out);
  EXPECT_TRUE(exporter.ok()) << exporter.status();
  (*exporter)->write("OVERALL", "RunTime(ms)", uint64_t{12345});
  (*exporter)->write("READ", "AverageLatency(us)", 8100.5);
  (*exporter)->write_fact("ENVIRONMENT", "CPU", "a \"b\" \\ \n");
  (*exporter)->close();
  return out.str();
}

TEST(Exporter, Text_JavasLines) {
  EXPECT_EQ(exported("site.ycsb.measurements.exporter.TextMeasurementsExporter"),
            "[OVERALL], RunTime(ms), 12345\n[READ], AverageLatency(us), 8100.5\n");
}

TEST(Exporter, Json_ObjectsOneAfterAnother) {
  EXPECT_EQ(exported("com.yahoo.ycsb.measurements.exporter.JSONMeasurementsExporter"),
            "{\n  \"metric\" : \"OVERALL\",\n  \"measurement\" : \"RunTime(ms)\",\n"
            "  \"value\" : 12345\n} {\n  \"metric\" : \"READ\",\n"
            "  \"measurement\" : \"AverageLatency(us)\",\n  \"value\" : 8100.5\n} {\n"
            "  \"metric\" : \"ENVIRONMENT\",\n  \"measurement\" : \"CPU\",\n"
            "  \"value\" : \"a \\\"b\\\" \\\\ \\u000a\"\n}\n");
}

TEST(Exporter, JsonArray_TheSameInAnArray) {
  const std::string text = exported("jsonarray");
  EXPECT_EQ(text.substr(0, 13), "[ {\n  \"metric");
  EXPECT_NE(text.find("}, {\n"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 5), "\n} ]\n");
}

TEST(Exporter, Json_NotANumberIsQuoted) {
  std::ostringstream out;
  auto exporter = make_exporter("json", out);
  ASSERT_TRUE(exporter.ok());
  (*exporter)->write("READ", "AverageLatency(us)", std::nan(""));
  EXPECT_NE(out.str().find("\"NaN\""), std::string::npos);
}

TEST(Exporter, MakeExporter_UnknownNameIsRefused) {
  std::ostringstream out;
  EXPECT_EQ(make_exporter("site.ycsb.XmlExporter", out).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace skua::ycsb
