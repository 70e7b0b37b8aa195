// WireProtocol: the language of one connection's client. From bytes to commands, from a command's words to its handler,
// and from an error to the bytes that the client gets. ClientConnection does everything else, and is the same for all
// languages.
//
//   bytes --> parse() --> words --> find() --> CommandSpec (keys, flags, handler)
//                |                    |
//                +--> an error        +--> an error  --> write_error() --> a reply in its place
#ifndef SKUA_KVSTORE_GATEWAY_WIRE_PROTOCOL_H_
#define SKUA_KVSTORE_GATEWAY_WIRE_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "kvstore/gateway/command_arguments.h"
#include "kvstore/gateway/command_rights.h"
#include "kvstore/gateway/command_table.h"
#include "kvstore/gateway/reply_bytes.h"

namespace skua::kv::gateway {

/// One per connection. Thread: one.
class WireProtocol {
 public:
  enum class Found : uint8_t {
    kNothing,  // all of the input was taken, and more is needed
    kCommand,  // see arguments()
    kRefused,  // see error(); commands go on behind it
    kBroken    // see error(); nothing behind it can be understood
  };

  WireProtocol() = default;
  WireProtocol(const WireProtocol&) = delete;
  WireProtocol& operator=(const WireProtocol&) = delete;
  virtual ~WireProtocol() = default;

  /// Takes bytes from the front of `input` until it finds something, or nothing is left. The bytes may be cut anywhere:
  /// the commands are the same.
  [[nodiscard]] virtual Found parse(std::string_view& input) = 0;
  /// The words of the command that parse() found. The caller may move them away; the next parse() clears them.
  [[nodiscard]] virtual CommandArguments& arguments() = 0;
  /// For write_error(). Empty: the client gets no reply.
  [[nodiscard]] virtual std::string error() const = 0;
  /// Part of a command is here.
  [[nodiscard]] virtual bool is_amid_command() const = 0;

  /// The command that the words name, if they and the keys among them are as the command wants them.
  [[nodiscard]] virtual FoundCommand find(const CommandArguments& words) = 0;
  /// The error for a command that is refused. Empty: the client gets no reply. `reason`: not kNone.
  [[nodiscard]] virtual std::string denial(Denial reason, const CommandSpec& spec,
                                           const CommandArguments& words) const = 0;
  /// Appends the reply that says what is wrong.
  virtual void write_error(std::string_view error, ReplyBytes& reply) const = 0;

  /// For what comes from now on: the client has not authenticated. It may send small commands only, and find() knows
  /// what authenticates it.
  void restrict_to_authentication(bool is_restricted) { is_restricted_ = is_restricted; }

 protected:
  [[nodiscard]] bool is_restricted() const { return is_restricted_; }

 private:
  bool is_restricted_ = false;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_WIRE_PROTOCOL_H_
