#include "control/server/grpc_listener.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <gtest/gtest.h>

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(SplitAddress, TakesNamesAndBothKindsOfAddresses) {
  EXPECT_EQ(split_address("localhost:7400")->host, "localhost");
  EXPECT_EQ(split_address("127.0.0.1:0")->port, "0");
  EXPECT_EQ(split_address("[::1]:65535")->host, "::1");
}

TEST(SplitAddress, RefusesTheRest) {
  for (const char* bad :
       {"", "host", ":7400", "host:", "host:x", "host:65536", "host:123456", "::1:7400", "[]:1", "7400"}) {
    EXPECT_EQ(split_address(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

/// A server without methods.
class EmptyServer {
 public:
  explicit EmptyServer(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    listener_ = listen(builder, address);
  }
  const absl::StatusOr<Listener>& operator*() const { return listener_; }

 private:
  grpc::CallbackGenericService service_;
  absl::StatusOr<Listener> listener_;
};

TEST(Listen, PortInUseSaysSo) {
  const EmptyServer first("127.0.0.1:0");
  ASSERT_TRUE((*first).ok()) << (*first).status();
  const std::string address = (*first)->address;
  const EmptyServer second(address);
  EXPECT_EQ((*second).status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string((*second).status().message()), HasSubstr(address));
  EXPECT_THAT(std::string((*second).status().message()), HasSubstr("another port"));
}

TEST(Listen, ForeignAddressSaysSo) {
  const EmptyServer server("192.0.2.1:0");
  const absl::Status status = (*server).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("address of this machine"));
}

}  // namespace
}  // namespace skua::control
