// How this library connects. Internal: includes gRPC.
#ifndef SKUA_CONTROL_CLIENT_CHANNEL_H_
#define SKUA_CONTROL_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/security/credentials.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Whether a channel goes over TLS, where there are credentials.
enum class ChannelKind : uint8_t { kTls, kPlaintext };

/// A channel of its own (not shared with others to the same address), that notices a dead peer
/// within seconds and reconnects quickly. Connects lazily; never fails here. `servers`: the roles that may answer
/// there, if there are credentials.
[[nodiscard]] std::shared_ptr<grpc::Channel> make_channel(const std::string& address, const CredentialsPtr& credentials,
                                                          Roles servers, ChannelKind kind = ChannelKind::kTls);

/// The next call connects at once. For whoever paces calls that fail: gRPC's own pause between two attempts rests on
/// timers that stand still for as long as a wall clock was set back (gRPC 1.51 waits for absolute wall clock times).
void end_pause(grpc::Channel& channel);

/// The call must be over `timeout_ns` from now.
void set_timeout(grpc::ClientContext& context, DurationNs timeout_ns);

/// The control processes of one cluster, of which one leads. One of them is asked at a time; the others' turn comes
/// when it says who leads, or says nothing. With credentials that take peers without certificates, each process counts
/// as two: by TLS, and without, whose turn comes only if the process speaks no TLS. Finding that out blocks learn() and
/// connect() as speaks_no_tls() does: for up to 300 ms, the lookup of a name aside. Thread: any.
class ControlPeers {
 public:
  struct Peer {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    ChannelKind kind = ChannelKind::kTls;
  };
  enum class Outcome {
    kAnswered,     // for good, by the leader or about a leader that is not among us
    kRedirected,   // nothing was done; peer() is the leader now
    kNobodyLeads,  // nothing was done; peer() is the next
    kLost,         // it may have been done; peer() is the next
  };

  /// "host:port" or several with commas between them. `tls_only`: never without TLS, whatever the credentials take.
  ControlPeers(const std::string& addresses, const CredentialsPtr& credentials, bool tls_only = false);

  /// Who is to be asked.
  [[nodiscard]] const Peer& peer() const { return peers_[chosen_.load()]; }
  /// Each process counts once here.
  [[nodiscard]] size_t addresses() const { return addresses_; }
  /// Its address has been asked in vain by TLS, and its turn is now without. Only then is it the turn of such a peer.
  [[nodiscard]] static bool is_second_way(const Peer& peer) { return peer.kind == ChannelKind::kPlaintext; }
  /// With credentials that take peers without certificates, an address is in it twice.
  [[nodiscard]] const std::vector<Peer>& all() const { return peers_; }

  /// Tells how a call to `asked` ended.
  Outcome learn(const Peer& asked, const grpc::Status& status, const grpc::ClientContext& context);

  /// For a peer whose connection has failed: works on the next one until it stands, for half a second at most, and only
  /// while `goes_on` says so. gRPC works on connections only while somebody waits for one, and a call over a channel
  /// that has failed ends at once: who calls again and again would never have a connection that takes some round trips.
  static void recover(const Peer& peer, const std::function<bool()>& goes_on);

  enum class Connected {
    kYes,
    kRefused,  // nobody listens there, or the address leads nowhere
    kNotYet,   // the time is up
  };
  /// Whether `asked` is connected before the time is up. If not, nothing was sent, and peer() is the next.
  Connected connect(const Peer& asked, DurationNs timeout_ns);

 private:
  void move_on(const Peer& from);
  /// The one whose turn is after this one's.
  [[nodiscard]] size_t next(size_t chosen) const;

  size_t addresses_ = 1;
  std::vector<Peer> peers_;
  std::atomic<size_t> chosen_{0};
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_CHANNEL_H_
