#include "app/operator_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/app/http_client.h"

namespace skua::app {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class OperatorPagesTest : public ::testing::Test {
 protected:
  OperatorPagesTest() {
    auto started = serve_pages({.address = "127.0.0.1:0"},
                               {.is_alive = [this] { return alive_.load(); },
                                .readiness =
                                    [this] {
                                      return std::vector<HealthCheck>{
                                          {"registered", true, ""}, {"map-applied", ready_.load(), "revision 3 of 4"}};
                                    },
                                .metrics = [] { return "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n"; }});
    EXPECT_TRUE(started.ok()) << started.status();
    if (started.ok()) server_ = *std::move(started);
  }
  std::string get(const std::string& path, const std::string& headers = "") {
    return answer_to(server_->address(), "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  }

  std::atomic<bool> alive_{true};
  std::atomic<bool> ready_{true};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(OperatorPagesTest, LiveAndReady) {
  EXPECT_THAT(get("/livez"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get("/readyz"), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(get("/readyz?verbose"),
              EndsWith("[+]registered ok\n[+]map-applied ok: revision 3 of 4\nreadyz check passed\n"));
}

TEST_F(OperatorPagesTest, NeitherLiveNorReady) {
  alive_ = false;
  ready_ = false;
  EXPECT_THAT(get("/livez"), StartsWith("HTTP/1.1 503"));
  const std::string short_reply = get("/readyz");
  EXPECT_THAT(short_reply, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(short_reply, EndsWith("not ready: map-applied: revision 3 of 4\n"));
  EXPECT_THAT(get("/readyz?verbose"),
              EndsWith("[+]registered ok\n[-]map-applied failed: revision 3 of 4\nreadyz check failed\n"));
}

TEST_F(OperatorPagesTest, MetricsInTheFormatThatIsAskedFor) {
  const std::string plain = get("/metrics");
  EXPECT_THAT(plain, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(plain, EndsWith("# TYPE a_total counter\na_total 1\n"));
  const std::string open = get("/metrics", "Accept: application/openmetrics-text;version=1.0.0,text/plain\r\n");
  EXPECT_THAT(open, HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0"));
  EXPECT_THAT(open, EndsWith("# TYPE a counter\na_total 1\n# EOF\n"));
}

TEST_F(OperatorPagesTest, NothingElseIsServed) {
  EXPECT_THAT(get("/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(get("/../etc/passwd"), StartsWith("HTTP/1.1 404"));
  const std::string post = "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
  EXPECT_THAT(answer_to(server_->address(), post), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(answer_to(server_->address(), "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST(HttpOptions, OtherMachinesNeedAPersonsWord) {
  EXPECT_TRUE(check_http({}).ok());
  EXPECT_TRUE(check_http({.address = "127.0.0.1:80"}).ok());
  EXPECT_TRUE(check_http({.address = "[::1]:80"}).ok());
  const absl::Status refused = check_http({.address = "0.0.0.0:80"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--http-security off-unsafe"));
  EXPECT_TRUE(check_http({.address = "0.0.0.0:80", .allows_everybody = true}).ok());
}

TEST_F(OperatorPagesTest, APortInUseIsNamed) {
  const auto second = serve_pages({.address = server_->address()}, {});
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address()));
}

}  // namespace
}  // namespace skua::app
