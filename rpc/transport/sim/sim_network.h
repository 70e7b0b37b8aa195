// A network in memory: one virtual clock, one seed, every fault of a datagram network, and the same
// run every time.
//
//     SimTransport A                      SimNetwork                                SimTransport B
//     tx_burst ------> [ queue of (time, tie, number) -> delivery or DMA read ] ------> ring --> rx_burst
//         ^              lose, duplicate, delay (reorder), corrupt, block                           |
//         +-- token when the "DMA" has read the memory <--+      overwritten on release <---- release
//
// Two things a real wire does to careless owners are done on purpose: with late completion a
// packet's memory is read some time after tx_burst returned, and compared with what it was then
// (violations().tx_changed counts differences); released receive memory is overwritten at once, so
// a reader of a returned lease sees garbage.
//
// Optionally (set_switch) all packets pass one switch: each destination has an output link of a given rate, and what waits for
// any of them shares one buffer. A packet that finds the buffer full is dropped. That is where queueing delay and incast come
// from; without a switch every packet takes its latency, however many there are.
//
//     A --\                      +--> [queue for C] --rate--> C
//     B ---+--> latency --> [ buffer ]
//     D --/                      +--> [queue for B] --rate--> B
//
// With SimTransportOptions::one_sided endpoints also read each other's memory (sim_one_sided.cc), any of it: over a connection that
// takes a while to come, breaks when a READ fails, the peer dies or the path is blocked, and is made anew when asked for.
//
// With SimTransportOptions::connected packets go by connections, as over TCP (sim_connections.cc): in order and once
// each, until the connection breaks; whoever dialled makes the next one. Nothing is duplicated or corrupted then.
//
// Single-threaded. Endpoints crash by destroying their SimTransport; packets under way to an
// address reach whoever has it by then.
#ifndef SKUA_RPC_TRANSPORT_SIM_SIM_NETWORK_H_
#define SKUA_RPC_TRANSPORT_SIM_SIM_NETWORK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/transport/one_sided.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// The fault model. Probabilities per packet; every field's default is "no fault".
struct SimFaults {
  double loss = 0;
  double duplicate = 0;
  /// One bit of header or payload is flipped.
  double corrupt = 0;
  /// The packet takes up to reorder_max_ns longer, so that later ones overtake it.
  double reorder = 0;
  DurationNs reorder_max_ns = 200 * kMicrosecond;
  /// The packet is held back for up to clog_max_ns: long enough to meet a later life of its
  /// session.
  double clog = 0;
  DurationNs clog_max_ns = 10 * kSecond;
  /// The packet's memory is read up to late_tx_max_ns after tx_burst returned.
  double late_tx = 0;
  DurationNs late_tx_max_ns = 100 * kMicrosecond;
  /// tx_burst takes only a part of what it is offered; there is no frame; a frame is dropped, but not by a connection.
  double tx_full = 0;
  /// An operation on a peer's memory fails, and with it the connection.
  double one_sided_failure = 0;
  /// They take up to this much longer.
  DurationNs one_sided_max_ns = 0;
};

/// The switch between all endpoints. Senders' own links are as fast as they like, which makes bursts worse than they are.
struct SimSwitch {
  /// Of each destination's link.
  uint64_t bytes_per_second = 0;
  /// What all queues together hold.
  size_t buffer_bytes = 0;
};

struct SimTransportOptions {
  uint32_t payload_max_bytes = 1024;
  /// Capabilities::inline_max_bytes: what says that the wire copies, when nothing here does.
  uint32_t inline_max_bytes = 0;
  /// Packets the receive ring holds, waiting and lent; what comes beyond is dropped.
  uint32_t rx_ring = 1024;
  DurationNs latency_ns = 5 * kMicrosecond;
  /// Reads and writes memory of peers that have it too.
  bool one_sided = false;
  /// Speaks to others by connections, only to such that do too. Not with one_sided.
  bool connected = false;
};

class SimTransport;

class SimNetwork {
 public:
  struct Violations {
    uint64_t tx_changed = 0;   // memory changed between tx_burst and its completion
    uint64_t bad_release = 0;  // a buffer was released that was not lent
  };
  struct Fates {
    uint64_t delivered = 0, lost = 0, duplicated = 0, corrupted = 0, reordered = 0, overflowed = 0, blocked = 0,
             unaddressed = 0;
    /// Operations on memory of peers, and those that failed.
    uint64_t one_sided = 0, one_sided_failed = 0;
    uint64_t connections_broken = 0;
    /// Found the switch's buffer full.
    uint64_t tail_dropped = 0;
  };

  explicit SimNetwork(uint64_t seed);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  /// A transport at `address` (a host and port in one number), which nobody else has now. Must die
  /// before the network.
  std::unique_ptr<SimTransport> attach(uint32_t address, const EndpointIdentity& identity,
                                       const SimTransportOptions& options);

  void set_faults(const SimFaults& faults) { faults_ = faults; }
  /// Sees each packet that arrives at an endpoint, with both addresses, and may change its bytes, but leaves
  /// kPacketHeaderBytes of them.
  using Watch = std::function<void(uint32_t from, uint32_t to, std::vector<std::byte>& packet)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }
  /// From now on; before the first packet.
  void set_switch(const SimSwitch& with) { switch_ = with; }
  /// The most bytes that have waited in the switch at once.
  [[nodiscard]] size_t switch_peak_bytes() const { return switch_peak_bytes_; }
  /// Packets from one address to another vanish until heal(); call twice for both ways.
  void block(uint32_t from, uint32_t to) { blocked_.insert({from, to}); }
  void heal() { blocked_.clear(); }
  /// All that stand, with what is under way by them.
  void break_connections();

  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] TimeNs now_ns() const { return clock_.now_ns(); }
  /// When the next packet or completion is due; kTimeNever if none is under way.
  [[nodiscard]] TimeNs next_event_ns() const;
  /// Moves time to `to` and does what is due until then.
  void advance_to(TimeNs to);

  [[nodiscard]] const Violations& violations() const { return violations_; }
  [[nodiscard]] const Fates& fates() const { return fates_; }
  /// Changes with every packet's time, bytes and fate: two runs with equal hashes did the same.
  [[nodiscard]] uint64_t trace_hash() const { return trace_hash_; }

 private:
  friend class SimTransport;
  using PacketBytes = std::vector<std::byte>;

  struct Event {
    TimeNs when = 0;
    uint64_t tie = 0;     // random: explores interleavings of simultaneous events
    uint64_t number = 0;  // total order
    uint32_t from = 0;
    uint32_t to = 0;
    std::unique_ptr<PacketBytes> bytes;  // a delivery, or an arrival at the switch
    enum class Place : uint8_t {
      kReceiver,
      kSwitch,
      kSwitchOutput,
      kMemory,
      kConnect,
      kLoan,
      kConnection,
      kConnectionDown
    } place = Place::kReceiver;
    uint32_t sender = 0;           // a DMA read: the sending transport's serial number ...
    TxToken token = kNoToken;      // ... its token, or kNoToken
    std::vector<ByteSpan> memory;  // ... and what it reads
    uint64_t fingerprint = 0;
    OneSidedOperation operation;  // kMemory: by `sender` on the memory of `target` ...
    uint32_t target = 0;       // ... a serial number too; kConnect: both ends of the connection; kConnection: which end
    uint64_t link_number = 0;  // ... if the connection is still the same
    uint32_t loan = 0;         // kLoan: of `sender`; it begins or ends
  };
  /// What two transports read each other's memory by.
  struct Link {
    bool up = false;
    bool asked_for = false;
    uint64_t number = 0;  // of the connection; each has its own
  };

  /// What packets go by, if a transport is `connected`.
  struct Connection {
    struct End {
      uint32_t serial = 0;
      uint32_t address = 0;
      PeerId peer = kNoPeer;  // what it calls the other end
      TimeNs last_arrival_ns = 0;
    };
    std::array<End, 2> ends;  // who dialled is the first one
    bool broken = false;
  };

  void send(SimTransport& sender, TxPacket& packet);
  void send_bytes(SimTransport& sender, PeerId peer, std::unique_ptr<PacketBytes> bytes);
  void dispatch(SimTransport& sender, uint32_t to, std::unique_ptr<PacketBytes> bytes);
  void schedule(Event event, DurationNs delay);
  void happen(Event& event);
  void enter_switch(Event& event);
  void deliver(Event& event);
  void read_memory(Event& event);
  // sim_connections.cc
  [[nodiscard]] Connection* connection_to(SimTransport& sender, PeerId peer);
  [[nodiscard]] bool is_cut(const SimTransport& one, uint32_t other) const;
  void send_by_connection(SimTransport& sender, PeerId peer, std::unique_ptr<PacketBytes> bytes);
  void break_connection(uint64_t number, Connection& connection);
  void break_connections_of(uint32_t serial);
  void deliver_by_connection(Event& event);
  void tell_of_break(const Event& event);
  // sim_one_sided.cc
  Link& link_of(uint32_t serial, uint32_t other);
  SimTransport* reachable(const SimTransport& from, PeerId peer);
  void post(SimTransport& sender, const OneSidedOperation& operation);
  void perform(Event& event);
  static MutableByteSpan reached(const SimTransport& target, const Event& event, const MemoryName& name, size_t bytes);
  static bool perform_on(SimTransport& target, const Event& event, uint32_t from);
  void connect(Event& event);
  void turn_loan(Event& event);
  void trace(uint64_t what, ByteSpan bytes);
  std::unique_ptr<PacketBytes> take_bytes();
  void recycle(std::unique_ptr<PacketBytes> bytes);

  ManualClock clock_;
  Rng rng_;
  SimFaults faults_;
  Watch watch_;
  SimSwitch switch_;
  size_t switch_bytes_ = 0;
  size_t switch_peak_bytes_ = 0;
  std::map<uint32_t, TimeNs> link_free_ns_;  // by destination: when its link has sent what waits for it
  std::set<std::pair<uint32_t, uint32_t>> blocked_;
  std::map<uint32_t, SimTransport*> by_address_;
  std::map<uint32_t, SimTransport*> by_serial_;
  std::map<std::pair<uint32_t, uint32_t>, Link> links_;  // by serial numbers, the smaller one first
  std::map<uint64_t, Connection> connections_;           // by number
  std::vector<Event> events_;                            // a heap
  std::vector<std::unique_ptr<PacketBytes>> free_bytes_;
  uint64_t next_number_ = 0;
  uint32_t next_serial_ = 1;
  uint64_t next_link_number_ = 1;
  Violations violations_;
  Fates fates_;
  uint64_t trace_hash_ = 0;
};

/// Thread: the simulation's.
class SimTransport final : public Transport, private OneSided {
 public:
  ~SimTransport() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  const TransportCounters& counters() const override { return counters_; }
  Descriptor local_descriptor() const override;
  absl::StatusOr<PeerId> resolve(const Descriptor& peer) override;
  size_t tx_burst(std::span<TxPacket> packets) override;
  TxFrame take_frame(PeerId peer) override;
  void send_frames(std::span<const TxFrame> frames) override;
  size_t rx_burst(std::span<RxPacket> packets) override;
  void release(std::span<const RxBufferId> buffers) override;
  size_t reap(std::span<TxToken> tokens) override;
  void abandon_tx() override;
  size_t poll_links(std::span<LinkEvent> events) override;
  void wait(DurationNs) override {}
  void wake() override {}
  OneSided* one_sided() override { return options_.one_sided ? this : nullptr; }

  /// Packets wait in the ring: poll() would find work.
  [[nodiscard]] bool has_received() const {
    return ring_head_ < ring_.size() || !completed_.empty() || !done_.empty() || !link_events_.empty();
  }
  [[nodiscard]] size_t lent_count() const { return lent_count_; }

 private:
  friend class SimNetwork;
  SimTransport(SimNetwork& network, uint32_t address, uint32_t serial, const EndpointIdentity& identity,
               const SimTransportOptions& options);

  // OneSided.
  uint64_t connection(PeerId peer) override;
  std::optional<Loan> lend(PeerId peer, ByteSpan bytes, uint64_t cookie) override;
  void take_back(uint64_t loan) override;
  absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) override;
  void close_region(uint32_t key) override;
  bool reserve_notices(PeerId peer, uint32_t /*count*/) override { return connection(peer) != 0; }
  bool usable(ByteSpan /*bytes*/) override { return true; }
  size_t post(std::span<const OneSidedOperation> operations) override;
  size_t reap(std::span<OneSidedCompletion> completions) override;
  void sever(PeerId peer) override;

  struct Peer {
    Uuid uuid;
    uint32_t address = 0;     // 0: it dialled
    uint64_t connection = 0;  // its number; 0: there is none
  };
  void tell_down(PeerId peer, const char* why);

  /// A frame's memory becomes the packet's, so that what is written into it too late is a changed packet.
  std::vector<std::unique_ptr<SimNetwork::PacketBytes>> frames_;  // by cookie; null: free
  std::vector<uint32_t> free_frames_;

  struct Lent {
    std::unique_ptr<SimNetwork::PacketBytes> bytes;
  };

  SimNetwork& network_;
  const uint32_t address_;
  const uint32_t serial_;
  const EndpointIdentity identity_;
  const SimTransportOptions options_;
  Capabilities capabilities_;
  TransportCounters counters_;
  std::vector<Peer> peers_;
  std::map<uint32_t, PeerId> peer_by_address_;
  struct Waiting {
    uint32_t from = 0;
    std::unique_ptr<SimNetwork::PacketBytes> bytes;
    PeerId peer = kNoPeer;  // if it came by a connection
  };
  std::vector<LinkEvent> link_events_;
  std::vector<Waiting> ring_;
  size_t ring_head_ = 0;
  std::vector<Lent> lent_;
  std::vector<uint32_t> lent_free_;
  size_t lent_count_ = 0;
  std::vector<TxToken> completed_;
  std::vector<OneSidedCompletion> done_;
  /// Memory that peers were told of: where it lies differs from run to run, its number here does not.
  struct Named {
    ByteSpan bytes;
    uint32_t key = 0;
    uint8_t rights = 0;
  };
  std::vector<Named> named_;
  uint32_t next_key_ = 0;
  /// Few keys for few places: a name that was kept soon fits what is lent to the same peer later.
  struct Lending {
    enum class State : uint8_t { kFree, kLending, kLent, kEnding };
    State state = State::kFree;
    bool end_wanted = false;
    ByteSpan bytes;
    uint32_t key = 0;
    uint32_t other = 0;  // the peer's serial number
    uint64_t link_number = 0;
    uint64_t cookie = 0;
  };
  void schedule_loan(uint32_t number);
  void turn_loan(uint32_t number);
  std::vector<Lending> lendings_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SIM_SIM_NETWORK_H_
