// SimNetwork: a network in memory with one virtual clock, one seed and every fault of a datagram network. Runs are
// repeatable: the same seed gives the same run.
//
//     SimTransport A                      SimNetwork                                SimTransport B
//     tx_burst ------> [ queue of (time, tie, number) -> delivery or DMA read ] ------> ring --> rx_burst
//         ^              lose, duplicate, delay (reorder), corrupt, block                           |
//         +-- token when the "DMA" has read the memory <--+      overwritten on release <---- release
//
// The simulator punishes careless owners of memory as a real wire does. With late completion it reads a packet's memory
// some time after tx_burst returned, and compares the memory with its contents at tx_burst (violations().tx_changed
// counts differences). It overwrites released receive memory at once, so a reader of a returned lease sees garbage.
//
// Optional (set_switch): all packets pass one switch. Each destination has an output link of a given rate, and packets
// that wait for any of these links share one buffer. A packet that finds the buffer full is dropped. This models
// queueing delay and incast. Without a switch every packet takes the latency, however many packets there are.
//
//     A --\                      +--> [queue for C] --rate--> C
//     B ---+--> latency --> [ buffer ]
//     D --/                      +--> [queue for B] --rate--> B
//
// With SimTransportOptions::one_sided, endpoints also reach each other's memory (sim_one_sided.cc); the memory need not
// be registered. The operations use a connection that takes a while to be made. The connection breaks when an operation
// fails, the peer dies or the path is blocked. It is made anew when asked for.
//
// With SimTransportOptions::connected, packets travel over connections, as over TCP (sim_connections.cc): in order and
// once each, until the connection breaks. The side that dialled makes the next one. Nothing is duplicated or corrupted
// then.
//
// Single-threaded. An endpoint crashes when its SimTransport is destroyed. Packets under way to an address reach the
// transport that has the address when they arrive.
#ifndef SKUA_RPC_TRANSPORT_SIM_SIM_NETWORK_H_
#define SKUA_RPC_TRANSPORT_SIM_SIM_NETWORK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/transport/one_sided.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// The fault model. Probabilities are per packet. The default of every field is "no fault".
struct SimFaults {
  double loss = 0;
  double duplicate = 0;
  /// One bit of header or payload is flipped.
  double corrupt = 0;
  /// The packet takes up to reorder_max_ns longer, so that later ones overtake it.
  double reorder = 0;
  DurationNs reorder_max_ns = 200 * kMicrosecond;
  /// The packet is held back for up to clog_max_ns. That is long enough for it to arrive in a later life of its
  /// session.
  double clog = 0;
  DurationNs clog_max_ns = 10 * kSecond;
  /// The packet's memory is read up to late_tx_max_ns after tx_burst returned.
  double late_tx = 0;
  DurationNs late_tx_max_ns = 100 * kMicrosecond;
  /// tx_burst takes only a part of the offered packets; take_frame() gives no frame; send_frames() drops a frame (never
  /// with `connected`).
  double tx_full = 0;
  /// An operation on a peer's memory fails and breaks its connection.
  double one_sided_failure = 0;
  /// Operations and changes of loans take up to this much longer.
  DurationNs one_sided_max_ns = 0;
};

/// The switch between all endpoints. Senders' own links have no limit, which makes bursts worse than on a real network.
struct SimSwitch {
  /// Rate of each destination's link.
  uint64_t bytes_per_second = 0;
  /// Bytes that all queues together hold.
  size_t buffer_bytes = 0;
};

struct SimTransportOptions {
  uint32_t payload_max_bytes = 1024;
  /// Only announced as Capabilities::inline_max_bytes; the simulator treats all sizes alike.
  uint32_t inline_max_bytes = 0;
  /// Packets that the receive ring holds, waiting and lent. Further packets are dropped.
  uint32_t rx_ring = 1024;
  DurationNs latency_ns = 5 * kMicrosecond;
  /// Operations on the memory of peers that also have this option.
  bool one_sided = false;
  /// Packets travel over connections, only to peers that also have this option. Not together with one_sided.
  bool connected = false;
  /// Only announced as Capabilities::integrity: for networks that damage nothing.
  bool integrity = false;
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
    /// Operations on peers' memory, and how many of them failed.
    uint64_t one_sided = 0, one_sided_failed = 0;
    uint64_t connections_broken = 0;
    /// Packets that found the switch's buffer full.
    uint64_t tail_dropped = 0;
  };

  explicit SimNetwork(uint64_t seed);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  /// A transport at `address` (a host and port in one number), which no other transport has now (checked). Must be
  /// destroyed before the network.
  std::unique_ptr<SimTransport> attach(uint32_t address, const EndpointIdentity& identity,
                                       const SimTransportOptions& options);

  void set_faults(const SimFaults& faults) { faults_ = faults; }
  /// Sees each packet that arrives at an endpoint, with both addresses. It may change the bytes, but must leave at
  /// least kPacketHeaderBytes of them.
  using Watch = std::function<void(uint32_t from, uint32_t to, std::vector<std::byte>& packet)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }
  /// Call before the first packet.
  void set_switch(const SimSwitch& with) { switch_ = with; }
  /// The most bytes that ever waited in the switch at once.
  [[nodiscard]] size_t switch_peak_bytes() const { return switch_peak_bytes_; }
  /// Packets from one address to another vanish until `until` or heal(); call twice for both ways.
  void block(uint32_t from, uint32_t to, TimeNs until = kTimeNever) { blocked_[{from, to}] = until; }
  /// Packets from one address to another that are sent before `until` arrive then or later, or are lost.
  void hold_back(uint32_t from, uint32_t to, TimeNs until) { held_back_[{from, to}] = until; }
  void heal() {
    blocked_.clear();
    held_back_.clear();
  }
  /// Breaks all connections; packets under way on them are lost.
  void break_connections();

  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] TimeNs now_ns() const { return clock_.now_ns(); }
  /// When the next packet or completion is due; kTimeNever if none is under way.
  [[nodiscard]] TimeNs next_event_ns() const;
  /// Moves time to `to` and handles every event that is due by then.
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
    uint32_t sender = 0;           // a DMA read: the serial number of the sending transport ...
    TxToken token = kNoToken;      // ... its token, or kNoToken
    std::vector<ByteSpan> memory;  // ... and the memory it reads
    uint64_t fingerprint = 0;
    OneSidedOperation operation;  // kMemory: posted by `sender`, on the memory of `target` ...
    uint32_t target = 0;          // ... also a serial number; kConnect: the other end; kConnection(Down): which end
    uint64_t link_number = 0;     // ... if the connection still has this number
    uint32_t loan = 0;            // kLoan: a loan of `sender` begins or ends
  };
  /// The connection over which two transports reach each other's memory.
  struct Link {
    bool up = false;
    bool asked_for = false;
    uint64_t number = 0;  // of the connection; every connection has another one
  };

  /// A connection for packets, between `connected` transports.
  struct Connection {
    struct End {
      uint32_t serial = 0;
      uint32_t address = 0;
      PeerId peer = kNoPeer;  // the PeerId that this end has for the other end
      TimeNs last_arrival_ns = 0;
    };
    std::array<End, 2> ends;  // the first one dialled
    bool broken = false;
  };

  [[nodiscard]] bool is_blocked(uint32_t from, uint32_t to) const {
    const auto until = blocked_.find({from, to});
    return until != blocked_.end() && clock_.now_ns() < until->second;
  }
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
  std::map<uint32_t, TimeNs> link_free_ns_;  // by destination: when its link has sent all that waits for it
  // By sender and receiver: until when.
  std::map<std::pair<uint32_t, uint32_t>, TimeNs> blocked_;
  std::map<std::pair<uint32_t, uint32_t>, TimeNs> held_back_;
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
  void reject(PeerId peer, const absl::Status& why) override;
  void wait(DurationNs) override {}
  void wake() override {}
  OneSided* one_sided() override { return options_.one_sided ? this : nullptr; }

  /// True if poll() would find work: packets in the ring, completions or link events.
  [[nodiscard]] bool has_received() const {
    return ring_head_ < ring_.size() || !completed_.empty() || !done_.empty() || !link_events_.empty();
  }
  [[nodiscard]] size_t lent_count() const { return lent_count_; }
  /// From now on nothing leaves and nothing arrives. A simulated process that was killed still has to be taken apart;
  /// nobody may hear of that.
  void cut_off() { cut_off_ = true; }

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
    uint32_t address = 0;     // 0: the peer dialled this transport
    uint64_t connection = 0;  // number of the connection; 0: none
  };
  void tell_down(PeerId peer, const char* why);

  /// The frame's memory becomes the packet's memory, so a write after send_frames() changes the packet that arrives.
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
    PeerId peer = kNoPeer;  // set if the packet came over a connection
  };
  std::vector<LinkEvent> link_events_;
  std::vector<Waiting> ring_;
  size_t ring_head_ = 0;
  std::vector<Lent> lent_;
  std::vector<uint32_t> lent_free_;
  size_t lent_count_ = 0;
  bool cut_off_ = false;
  std::vector<TxToken> completed_;
  std::vector<OneSidedCompletion> done_;
  /// A region opened to peers. Its MemoryName carries the index here instead of an address, because addresses differ
  /// from run to run.
  struct Named {
    ByteSpan bytes;
    uint32_t key = 0;
    uint8_t rights = 0;
  };
  std::vector<Named> named_;
  uint32_t next_key_ = 0;
  /// A loan. Places and keys are few and soon reused, on purpose: a name that a peer kept too long then opens a later
  /// loan to the same peer.
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
