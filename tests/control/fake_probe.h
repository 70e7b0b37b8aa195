// Probes without a network.
#ifndef SKUA_TESTS_CONTROL_FAKE_PROBE_H_
#define SKUA_TESTS_CONTROL_FAKE_PROBE_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "control/server/node_probe.h"

namespace skua::control {

/// The answer of an address where exactly this process stands.
inline ClaimAnswer answer_of(const NodeInfo& node) {
  return {.address = node.grpc_address, .answered = true, .uuid = node.uuid, .incarnation = node.incarnation};
}

/// Every claimant serves where it says.
class AgreeableProbe final : public NodeProbe {
 public:
  void ask(const std::string& address, const NodeInfo& claimed, AnswerFn done) override {
    ClaimAnswer answer = answer_of(claimed);
    answer.address = address;
    done(std::move(answer));
  }
};

/// Keeps questions until they are answered by the test. Thread: any.
class HeldProbe final : public NodeProbe {
 public:
  struct Question {
    std::string address;
    NodeInfo claimed;
    AnswerFn done;
  };
  /// Outlives the probe, which the controller owns.
  struct Questions {
    std::mutex mutex;
    std::vector<Question> open;

    size_t size() {
      std::lock_guard lock(mutex);
      return open.size();
    }
    Question take() {
      std::lock_guard lock(mutex);
      Question question = std::move(open.front());
      open.erase(open.begin());
      return question;
    }
  };

  explicit HeldProbe(Questions& questions) : questions_(questions) {}
  ~HeldProbe() override {
    while (questions_.size() > 0) {
      Question question = questions_.take();
      question.done({.address = question.address});
    }
  }

  void ask(const std::string& address, const NodeInfo& claimed, AnswerFn done) override {
    std::lock_guard lock(questions_.mutex);
    questions_.open.push_back({address, claimed, std::move(done)});
  }

 private:
  Questions& questions_;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_FAKE_PROBE_H_
