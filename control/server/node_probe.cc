#include "control/server/node_probe.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "control/core/cluster_limits.h"
#include "control/core/uuid.h"
#include "control/proto/bootstrap.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/security/plaintext_check.h"
#include "control/server/controller_limits.h"

namespace skua::control {
namespace {

/// A question of its own connection: a shared one might be waiting out a failure of a minute ago.
/// `credentials`: null for one without TLS.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address, const CredentialsPtr& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kProbeReplyMax);
  return grpc::CreateCustomChannel(address, channel_credentials(credentials, Role::kNode), arguments);
}

/// What a stranger said, fit to be shown.
std::string shown(const std::string& text) {
  return absl::CHexEscape(text.substr(0, kProbeTroubleMax));
}

/// One question in flight. Its channel ends with it, on a thread that is not gRPC's.
struct Question {
  std::string address;
  v1::DescribeRequest request;
  bool may_repeat = false;  // without TLS, if the node speaks none
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Bootstrap::Stub> stub;
  grpc::ClientContext context;
  v1::DescribeReply reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::DescribeReply>> reader;
  NodeProbe::AnswerFn done;
};

ClaimAnswer answer_of(const Question& question) {
  ClaimAnswer answer{question.address};
  absl::Status why = from_grpc(question.status, "it");
  if (why.ok()) why = check_node_is(*question.context.auth_context(), question.reply.node_uuid());
  answer.answered = why.ok();
  if (!answer.answered) {
    answer.trouble = shown(std::string(why.message()));
    return answer;
  }
  if (is_uuid(question.reply.node_uuid())) answer.uuid = question.reply.node_uuid();
  answer.incarnation = question.reply.incarnation();
  answer.other_instance = question.reply.instance() == v1::DescribeReply::ANOTHER;
  return answer;
}

class GrpcNodeProbe final : public NodeProbe {
 public:
  explicit GrpcNodeProbe(CredentialsPtr credentials)
      : credentials_(std::move(credentials)), thread_([this] { run(); }) {}

  ~GrpcNodeProbe() override {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      for (Question* question : open_) question->context.TryCancel();
    }
    plaintext_check_.stop();
    // What is open comes out of the queue first.
    queue_.Shutdown();
    thread_.join();
  }

  void ask(const std::string& address, const NodeInfo& claimed, AnswerFn done) override {
    v1::DescribeRequest request;
    *request.mutable_versions() = to_proto(kProtocolVersions);
    // Only where the claimant wants to be found: the instance is its secret.
    if (address == claimed.grpc_address) request.set_instance(claimed.instance);
    ask(address, std::move(request), credentials_, takes_plaintext(credentials_), std::move(done));
  }

 private:
  void ask(const std::string& address, v1::DescribeRequest request, const CredentialsPtr& credentials, bool may_repeat,
           AnswerFn done) {
    auto question = std::make_unique<Question>();
    question->address = address;
    question->request = std::move(request);
    question->may_repeat = may_repeat;
    question->channel = make_channel(address, credentials);
    question->stub = v1::Bootstrap::NewStub(question->channel);
    question->context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(kProbeTimeout));
    question->done = std::move(done);

    std::unique_lock lock(mutex_);
    if (closing_) {
      lock.unlock();
      ClaimAnswer nobody{address};
      nobody.trouble = "the control plane is shutting down";
      question->done(std::move(nobody));
      return;
    }
    Question* raw = question.release();
    open_.insert(raw);
    raw->reader = raw->stub->AsyncDescribe(&raw->context, raw->request, &queue_);
    raw->reader->Finish(&raw->reply, &raw->status, raw);
  }

  void run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      const std::shared_ptr<Question> question(static_cast<Question*>(tag));
      {
        std::lock_guard lock(mutex_);
        open_.erase(question.get());
      }
      if (question->may_repeat && question->status.error_code() == grpc::StatusCode::UNAVAILABLE) {
        repeat_if_it_speaks_no_tls(question);
      } else {
        question->done(answer_of(*question));
      }
    }
  }

  void repeat_if_it_speaks_no_tls(const std::shared_ptr<Question>& question) {
    plaintext_check_.ask(question->address, [this, question](bool speaks_no_tls) {
      if (!speaks_no_tls) return question->done(answer_of(*question));
      ask(question->address, std::move(question->request), nullptr, false, std::move(question->done));
    });
  }

  const CredentialsPtr credentials_;
  grpc::CompletionQueue queue_;
  std::mutex mutex_;
  std::set<Question*> open_;  // protected by mutex_
  bool closing_ = false;      // protected by mutex_
  PlaintextCheck plaintext_check_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NodeProbe> make_node_probe(CredentialsPtr credentials) {
  return std::make_unique<GrpcNodeProbe>(std::move(credentials));
}

}  // namespace skua::control
