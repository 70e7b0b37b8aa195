// Asks at an address who stands there: the control plane's own question, before it believes a registration.
#ifndef SKUA_CONTROL_SERVER_NODE_PROBE_H_
#define SKUA_CONTROL_SERVER_NODE_PROBE_H_

#include <functional>
#include <memory>
#include <string>

#include "control/core/cluster_state.h"
#include "control/core/events.h"
#include "control/security/credentials.h"

namespace skua::control {

/// Thread: any.
class NodeProbe {
 public:
  /// Exactly once, with the question's address; on any thread, perhaps before ask() returns. Must not block.
  using AnswerFn = std::function<void(ClaimAnswer answer)>;

  /// Answers what is open, as nobody answering, before it returns.
  virtual ~NodeProbe() = default;

  /// Asks at `address` who is there, and whether it is `claimed`'s process. Does not block; an answer comes within
  /// about kProbeTimeout. The caller bounds how many are open.
  virtual void ask(const std::string& address, const NodeInfo& claimed, AnswerFn done) = 0;
};

/// By Bootstrap.Describe. With credentials, a node must show the certificate of the node that it says it is.
[[nodiscard]] std::unique_ptr<NodeProbe> make_node_probe(CredentialsPtr credentials = nullptr);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_NODE_PROBE_H_
