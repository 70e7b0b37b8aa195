#include "control/server/call_audit.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "control/core/join_tokens.h"
#include "control/proto/redirect.h"
#include "control/security/access.h"
#include "control/security/credentials.h"
#include "control/security/join_token.h"
#include "control/server/peer_host.h"

namespace skua::control {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// Leave's `instance` is a secret of the node.
constexpr std::array kLeave = {"uuid", "force"};
constexpr std::array kCreateTable = {"name",       "shard_count",   "if_not_exists", "replicas",
                                     "min_insync", "read_anywhere", "hash_tags"};
constexpr std::array kDropTable = {"name"};
constexpr std::array kNode = {"uuid"};
constexpr std::array kMoveShard = {"table", "shard", "from", "to"};
constexpr std::array kTransferPrimary = {"table", "shard", "to"};
constexpr std::array kRecoverShard = {"table", "shard", "node"};
constexpr std::array kIdentity = {"principal"};
constexpr std::array kAddGrant = {"principal", "table", "read", "write", "scan"};
constexpr std::array kRemoveGrant = {"principal", "table", "read", "write", "scan", "open_to_all"};
constexpr std::array kSetQuota = {"principal", "operations_per_s", "bytes_per_s", "sessions", "client_ids"};

// Of certificates: never a token, a secret or a key.
constexpr std::array kCreateJoinToken = {"role", "name", "ttl_s"};
constexpr std::array kJoinTokenMade = {"token_id", "principal"};
constexpr const char* kTokenNumber = "token_id";
constexpr std::array kDropJoinToken = {kTokenNumber};
constexpr std::array kJoin = {"role", "name"};
constexpr std::array kIssued = {"principal", "token_id", "serial"};

constexpr std::array kArguments = {
    AuditedArguments{"/skua.control.v1.Membership/Leave", kLeave},
    AuditedArguments{"/skua.control.v1.Tables/CreateTable", kCreateTable},
    AuditedArguments{"/skua.control.v1.Tables/DropTable", kDropTable},
    AuditedArguments{"/skua.control.v1.Cluster/DrainNode", kNode},
    AuditedArguments{"/skua.control.v1.Cluster/UndrainNode", kNode},
    AuditedArguments{"/skua.control.v1.Cluster/MoveShard", kMoveShard},
    AuditedArguments{"/skua.control.v1.Cluster/TransferPrimary", kTransferPrimary},
    AuditedArguments{"/skua.control.v1.Cluster/RecoverShard", kRecoverShard},
    AuditedArguments{"/skua.control.v1.Cluster/RevokeIdentity", kIdentity},
    AuditedArguments{"/skua.control.v1.Cluster/UnrevokeIdentity", kIdentity},
    AuditedArguments{"/skua.control.v1.Cluster/AddGrant", kAddGrant},
    AuditedArguments{"/skua.control.v1.Cluster/RemoveGrant", kRemoveGrant},
    AuditedArguments{"/skua.control.v1.Cluster/SetQuota", kSetQuota},
    AuditedArguments{"/skua.control.v1.Cluster/RemoveQuota", kIdentity},
    AuditedArguments{"/skua.control.v1.Certificates/CreateJoinToken", kCreateJoinToken, kJoinTokenMade},
    AuditedArguments{"/skua.control.v1.Certificates/DropJoinToken", kDropJoinToken, kIdentity},
    AuditedArguments{"/skua.control.v1.Certificates/Renew", {}, kIssued},
    AuditedArguments{"/skua.control.v1.Joining/Join", kJoin, kIssued},
};

void add_field(AuditFields& to, const Message& request, const FieldDescriptor& field) {
  const google::protobuf::Reflection& of = *request.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string text = of.GetString(request, &field);
      // Somebody may have pasted a token, which is a secret, where its number or a name belongs.
      const bool is_number = field.name() != kTokenNumber || text.empty() || is_join_token_id(text);
      if (!is_number || text.find(kJoinTokenPrefix) != std::string::npos) text = "(not shown)";
      if (!text.empty()) to.emplace_back(field.name(), std::move(text));
      return;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (of.GetBool(request, &field)) to.emplace_back(field.name(), true);
      return;
    // Also 0: a shard may have that number.
    case FieldDescriptor::CPPTYPE_UINT32:
      to.emplace_back(field.name(), uint64_t{of.GetUInt32(request, &field)});
      return;
    case FieldDescriptor::CPPTYPE_UINT64: to.emplace_back(field.name(), of.GetUInt64(request, &field)); return;
    default: return;
  }
}

const AuditedArguments* find(std::string_view method) {
  const auto* listed = std::find_if(kArguments.begin(), kArguments.end(),
                                    [method](const AuditedArguments& at) { return at.method == method; });
  return listed == kArguments.end() ? nullptr : listed;
}

AuditFields describe(const Message& message, std::span<const char* const> fields) {
  AuditFields described;
  for (const char* name : fields) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr) add_field(described, message, *field);
  }
  return described;
}

/// A CreateTable may find that the table is there: skuactl asks so while it waits for a new table.
bool has_changed(const Message& reply) {
  const FieldDescriptor* created = reply.GetDescriptor()->FindFieldByName("created");
  return created == nullptr || reply.GetReflection()->GetBool(reply, created);
}

/// Lives as long as its call.
class CallListener final : public grpc::experimental::Interceptor {
 public:
  CallListener(ServerRpcInfo& call, Auditor& auditor) : call_(call), auditor_(auditor) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) && is_audited(call_.method())) {
      // Null if the bytes were no message. Generated messages have Message as their only base, at their beginning.
      const auto* request = static_cast<const Message*>(methods->GetRecvMessage());
      if (request != nullptr) arguments_ = describe_request(call_.method(), *request);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE) && is_audited(call_.method())) {
      const auto* reply = static_cast<const Message*>(methods->GetSendMessage());
      if (reply != nullptr) {
        changed_ = has_changed(*reply);
        for (auto& field : describe_reply(call_.method(), *reply)) arguments_.push_back(std::move(field));
      }
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      // A process that does not lead names the leader, and has done nothing.
      const auto* metadata = methods->GetSendTrailingMetadata();
      const auto has = [metadata](const char* key) { return metadata != nullptr && metadata->contains(key); };
      if (has(kLeaderMetadata) || has(kNothingDoneMetadata)) changed_ = false;
      return tell(methods);
    }
    methods->Proceed();
  }

 private:
  /// The answer goes out with Proceed(), from whichever thread.
  void tell(InterceptorBatchMethods* methods) {
    const grpc::ServerContextBase& context = *call_.server_context();
    const std::string peer = context.peer();
    const grpc::Status status = methods->GetSendStatus();
    const std::string message = status.error_message();
    auditor_.call_ended({.caller = peer_identity(*context.auth_context()),
                         .peer = peer,
                         .host = peer_host(peer),
                         .method = call_.method(),
                         .arguments = std::move(arguments_),
                         .changed = changed_,
                         .code = static_cast<absl::StatusCode>(status.error_code()),
                         .message = message},
                        [methods] { methods->Proceed(); });
  }

  ServerRpcInfo& call_;
  Auditor& auditor_;
  AuditFields arguments_;
  bool changed_ = true;
};

class CallListeners final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallListeners(std::shared_ptr<Auditor> auditor) : auditor_(std::move(auditor)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    return new CallListener(*call, *auditor_);
  }

 private:
  const std::shared_ptr<Auditor> auditor_;
};

}  // namespace

std::span<const AuditedArguments> audited_arguments() {
  return kArguments;
}

AuditFields describe_request(std::string_view method, const Message& request) {
  const AuditedArguments* const listed = find(method);
  return listed == nullptr ? AuditFields() : describe(request, listed->fields);
}

AuditFields describe_reply(std::string_view method, const Message& reply) {
  const AuditedArguments* const listed = find(method);
  return listed == nullptr ? AuditFields() : describe(reply, listed->answer);
}

void audit_calls(grpc::ServerBuilder& builder, std::shared_ptr<Auditor> auditor) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<CallListeners>(std::move(auditor)));
  builder.experimental().SetInterceptorCreators(std::move(creators));
}

}  // namespace skua::control
