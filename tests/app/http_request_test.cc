#include "app/http_request.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::app {
namespace {

TEST(HttpRequest, TheHeadEndsAtTheFirstEmptyLine) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  EXPECT_EQ(http_head_bytes(head + "more"), head.size());
  EXPECT_EQ(http_head_bytes(head + "more", head.size() - 1), head.size());
  EXPECT_EQ(http_head_bytes("GET / HTTP/1.1\n\nmore"), 16u);
  EXPECT_EQ(http_head_bytes("\r\n"), 2u);
  EXPECT_EQ(http_head_bytes("GET / HTTP/1.1\r\nHost: a\r\n\r"), std::nullopt);
  EXPECT_EQ(http_head_bytes("GET / HTTP/1.1\r\n"), std::nullopt);
  EXPECT_EQ(http_head_bytes(""), std::nullopt);
}

TEST(HttpRequest, ItsPartsAreRead) {
  const auto request = parse_http_request(
      "GET /readyz?verbose&a=b=c&&=x HTTP/1.1\r\nhOST:\t10.0.0.1:80 \r\nRange: bytes=0-1\r\nAccept: a/b\r\n"
      "Accept: c/d\r\n\r\n");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->method, HttpMethod::kGet);
  EXPECT_EQ(request->path, "/readyz");
  EXPECT_EQ(request->parameters, (std::map<std::string, std::string>{{"verbose", ""}, {"a", "b=c"}}));
  EXPECT_EQ(request->host, "10.0.0.1:80");
  EXPECT_EQ(request->accept, "a/b, c/d");
  EXPECT_EQ(parse_http_request("HEAD / HTTP/1.0\n\n")->method, HttpMethod::kHead);
  EXPECT_EQ(parse_http_request("DELETE / HTTP/1.1\n\n")->method, HttpMethod::kOther);
}

TEST(HttpRequest, WhatIsNoRequestIsRefused) {
  for (const std::string first :
       {"", "nonsense", "GET /", "GET  / HTTP/1.1", "GET / HTTP/2", "GET / HTTP/1.1 ", "G(T / HTTP/1.1",
        "GET a HTTP/1.1", "GET http://a/ HTTP/1.1", "GET /\x01 HTTP/1.1", " GET / HTTP/1.1"}) {
    EXPECT_FALSE(parse_http_request(first + "\r\n\r\n").ok()) << first;
  }
  for (const std::string header :
       {"no colon", " Folded: line", "Host : a", ": a", "Host: a\r\nHost: a", "A: \x01", "Host: a\rb", "Host: \x7f"}) {
    EXPECT_FALSE(parse_http_request("GET / HTTP/1.1\r\n" + header + "\r\n\r\n").ok()) << header;
  }
}

TEST(HttpRequest, HostsThatNoForeignNamePointsTo) {
  for (const std::string host :
       {"", "localhost", "LocalHost:9090", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "10.1.2.3"}) {
    EXPECT_TRUE(is_address_or_localhost(host)) << host;
  }
  for (const std::string host : {"evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example",
                                 "[::1", "[::1]x", "[127.0.0.1]", "::1", ":80", "1.2.3"}) {
    EXPECT_FALSE(is_address_or_localhost(host)) << host;
  }
}

}  // namespace
}  // namespace skua::app
