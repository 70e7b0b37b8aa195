#include "tests/rpc/protocol/session_harness.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "rpc/base/crc32c.h"

namespace skua::rpc::testing {
namespace {

constexpr std::byte kScribble{0xdd};
constexpr uint32_t kClientIndex = 3;
constexpr uint32_t kServerIndex = 9;
constexpr uint32_t kReadKey = 77;

}  // namespace

std::string pattern(uint64_t seed, size_t size) {
  std::string out(size, '\0');
  Rng rng(seed);
  for (char& c : out) c = static_cast<char>(rng.next());
  return out;
}

MessagePtr message_of(MessagePool& pool, std::string_view bytes) {
  MessagePtr message = pool.make();
  message->append_copy(as_byte_span(bytes));
  return message;
}

PacketSet Flight::set() const {
  PacketSet out;
  EXPECT_TRUE(PacketSet::decode(payload, out));
  return out;
}

// --- Side ------------------------------------------------------------------------------------------------------------

Side::Side(Harness& owner, bool server, ReceiveBudget* budget) : harness(owner), is_server(server) {
  session = std::make_unique<Session>(*this, options, server ? kServerIndex : kClientIndex, budget);
}

Side::~Side() {
  session->ready_hook.unlink();
  session->abort_all(absl::CancelledError("the test is over"), harness.now);
  session.reset();
  fetches.clear();
  requests.clear();
  calls.clear();
  EXPECT_TRUE(lent.empty()) << "a lease was never returned";
  EXPECT_TRUE(announced.empty()) << "an announcement was never ended";
}

void Side::mark_ready(Session& which) {
  EXPECT_EQ(&which, session.get());
  ready = true;
}

void Side::arm_timer(Session&, TimeNs when) {
  timer = std::min(timer, when);
}

bool Side::keep(const Arrival& arrival, Lease& lease) {
  if (keep_fails) return false;
  EXPECT_EQ(lease.size(), 0u);
  if (arrival.payload.empty()) return true;
  const uint64_t cookie = next_cookie++;
  std::vector<std::byte>& bytes = lent[cookie];
  bytes.assign(arrival.payload.begin(), arrival.payload.end());
  lease = Lease(bytes, this, cookie);
  return true;
}

std::optional<Assembly> Side::assemble(const Session& /*session*/, size_t bytes, bool /*is_request*/) {
  if (bytes > memory) return std::nullopt;
  if (memory != SIZE_MAX) memory -= bytes;
  const uint64_t cookie = next_cookie++;
  std::vector<std::byte>& block = lent[cookie];
  block.assign(bytes, kScribble);
  Assembly out;
  out.data = block.data();
  out.lease = Lease(block, this, cookie);
  return out;
}

void Side::return_lease(uint64_t cookie) {
  auto found = lent.find(cookie);
  ASSERT_NE(found, lent.end()) << "a lease was returned twice";
  std::fill(found->second.begin(), found->second.end(), kScribble);
  lent.erase(found);
}

Announcement Side::announce(const MessageOwner& owner, const MessagePtr& message) {
  if (!harness.can_read || message->body_count() == 0) return {};
  ReadList list;
  list.connection = 1;
  list.head = message->head();
  for (size_t i = 0; i < message->body_count(); ++i) {
    const ByteSpan body = message->body(i);
    list.spans[list.span_count++] = {reinterpret_cast<uintptr_t>(body.data()), kReadKey,
                                     static_cast<uint32_t>(body.size())};
  }
  MessagePtr out = messages.make();
  out->set_head_size(list.encode(out->head_room()));
  const uint32_t number = next_announcement++;
  announced[number] = {owner, message, lending_waits ? State::kPending : State::kReadable};
  return Announcement(std::move(out), this, number);
}

void Side::on_lent(bool ok) {
  std::vector<MessageOwner> owners;
  for (auto& [number, what] : announced) {
    if (what.state != State::kPending) continue;
    what.state = ok ? State::kReadable : State::kFailed;
    owners.push_back(what.owner);
  }
  for (const MessageOwner& owner : owners) session->on_lent(owner, harness.now);
}

SessionHost::Fetch Side::fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes) {
  if (!harness.can_read) return Fetch::kImpossible;
  std::optional<Assembly> assembly = assemble(*session, message_bytes, owner.is_request);
  if (!assembly.has_value()) return Fetch::kNoMemory;
  copy_bytes(assembly->data, list.head);
  const bool ok = !read_works || read_works();
  std::byte* to = assembly->data + list.head.size();
  fetches.push_back({harness.now + harness.read_ns, owner, list, to, std::move(assembly->lease), ok});
  return Fetch::kStarted;
}

void Side::sever(const Session& which) {
  EXPECT_EQ(&which, session.get());
  ++harness.severed;
  for (Side* side : {&harness.client, &harness.server}) {
    for (Fetching& fetch : side->fetches) fetch.ok = false;
  }
}

bool Side::run_fetches() {
  bool any = false;
  while (!fetches.empty() && fetches.front().when <= harness.now) {
    any = true;
    Fetching fetch = std::move(fetches.front());
    fetches.pop_front();
    std::byte* to = fetch.to;
    for (uint32_t i = 0; fetch.ok && i < fetch.list.span_count; ++i) {
      const RemoteSpan& span = fetch.list.spans[i];
      EXPECT_EQ(span.key, kReadKey);
      std::memcpy(to, reinterpret_cast<const void*>(span.address), span.bytes);
      to += span.bytes;
    }
    fetched += fetch.ok ? 1 : 0;
    session->on_fetched(fetch.owner, fetch.ok, std::move(fetch.message), harness.now);
  }
  return any;
}

void Side::deliver(Session& which, ArrivedRequest&& request) {
  EXPECT_EQ(&which, session.get());
  ++delivered;
  ++harness.runs[std::string(as_string_view(request.request.bytes()))];
  if (handler) {
    handler(std::move(request));
  } else {
    requests.push_back(std::move(request));
  }
}

void Side::complete(Call& call) {
  auto found = std::find_if(calls.begin(), calls.end(), [&](const TestCall& c) { return &c.call == &call; });
  ASSERT_NE(found, calls.end());
  EXPECT_FALSE(call.hook.linked());
  EXPECT_EQ(call.slot, kNoSlot);
  EXPECT_EQ(++found->completions, 1);
  found->outcome = std::exchange(call.outcome, {});
  call.request.reset();
}

void Side::emit(const Session& which, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                size_t length) {
  EXPECT_EQ(&which, session.get());
  ASSERT_GT(room, 0u) << "emit() without room";
  if (room != SIZE_MAX) --room;
  ASSERT_LE(length, std::max<size_t>(harness.setup.terms.payload_bytes, PacketSet::kEncodedMax));
  Flight flight;
  flight.to_server = !is_server;
  std::array<std::byte, kHeaderBytes> encoded;
  encode_header(header, encoded.data());
  const DecodedHeader decoded = decode_header(encoded);
  ASSERT_TRUE(decoded.ok);
  ASSERT_EQ(decoded.header, header);
  flight.header = decoded.header;
  if (length > 0) {
    ASSERT_LE(offset + length, payload->size());
    std::array<ByteSpan, Message::kBodiesMax + 1> pieces;
    const size_t count = payload->slice(offset, length, pieces);
    for (size_t i = 0; i < count; ++i) flight.payload.insert(flight.payload.end(), pieces[i].begin(), pieces[i].end());
  }
  ASSERT_EQ(flight.payload.size(), length);
  harness.put_on_wire(std::move(flight));
}

absl::Status Side::try_call(std::string request, DurationNs timeout_ns, bool one_way, TestCall** out) {
  TestCall& made = calls.emplace_back();
  made.request = std::move(request);
  made.call.request = message_of(messages, made.request);
  made.call.method = 7;
  made.call.one_way = one_way;
  made.call.deadline_ns = timeout_ns == kTimeNever ? kTimeNever : harness.now + timeout_ns;
  absl::Status status = session->start(made.call, harness.now);
  if (status.ok()) {
    *out = &made;
  } else {
    calls.pop_back();
  }
  return status;
}

TestCall& Side::call(std::string request, DurationNs timeout_ns, bool one_way) {
  TestCall* out = nullptr;
  const absl::Status status = try_call(std::move(request), timeout_ns, one_way, &out);
  EXPECT_TRUE(status.ok()) << status;
  return *out;
}

bool Side::respond(const ArrivedRequest& request, std::string_view bytes, absl::StatusCode code) {
  return session->respond(request.slot, request.req_num, code, false, message_of(messages, bytes), harness.now);
}

// --- Harness ---------------------------------------------------------------------------------------------------------

Harness::Harness(const Setup& with) : setup(with) {
  open();
}

Harness::~Harness() = default;

void Harness::open() {
  ++generation_;
  wire_.clear();
  const uint32_t at_client = generation_;
  const uint32_t at_server = generation_ + 5000;
  client.session->open({kClientIndex, at_client, kServerIndex, at_server}, setup.terms, setup.reliable, now);
  server.session->open({kServerIndex, at_server, kClientIndex, at_client}, setup.terms, setup.reliable, now);
}

void Harness::put_on_wire(Flight flight) {
  flight.number = sent.size();
  const Side& to = flight.to_server ? server : client;
  EXPECT_EQ(flight.header.session_index, to.session->address().local_index);
  EXPECT_EQ(flight.header.session_generation, to.session->address().local_generation);
  sent.push_back(flight);
  const Fate copies = fate ? fate(flight) : Fate{setup.latency_ns};
  for (const DurationNs delay : copies) wire_.push_back({now + delay, order_++, flight});
}

std::vector<Flight> Harness::take_wire() {
  std::sort(wire_.begin(), wire_.end(), [](const Arriving& a, const Arriving& b) { return a.order < b.order; });
  std::vector<Flight> out;
  out.reserve(wire_.size());
  for (Arriving& arriving : wire_) out.push_back(std::move(arriving.flight));
  wire_.clear();
  return out;
}

void Harness::deliver(const Flight& flight) {
  Side& to = flight.to_server ? server : client;
  // The endpoint's part: packets of other generations never reach the session.
  if (!to.session->is_open() || flight.header.session_generation != to.session->address().local_generation) return;
  const std::vector<std::byte> exact(flight.payload);  // so that a sanitizer sees reads behind it
  // Both ways in, by turns: drivers try the first one for each packet.
  if (PieceRun run; flight.number % 2 == 0 && to.session->join(flight.header, run) && exact.size() == run.bytes(0)) {
    copy_bytes(run.place(0), exact);
    return to.session->take_run(flight.header, run, 1, now);
  }
  to.session->on_packet({flight.header, exact}, now);
}

void Harness::inject(bool to_server, const PacketHeader& header, std::string_view payload) {
  Flight flight;
  flight.header = header;
  flight.to_server = to_server;
  const ByteSpan bytes = as_byte_span(payload);
  flight.payload.assign(bytes.begin(), bytes.end());
  deliver(flight);
}

PacketHeader Harness::header_to(bool to_server, PacketType type, uint32_t req_num) const {
  const SessionAddress& address = (to_server ? server : client).session->address();
  PacketHeader header;
  header.type = type;
  header.session_index = address.local_index;
  header.session_generation = address.local_generation;
  header.req_num = req_num;
  header.stamp = to_ticks(now);
  return header;
}

bool Harness::transmit_side(Side& side) {
  if (!side.ready || side.room == 0) return false;
  side.ready = side.session->transmit(side, now);
  if (side.ready) {
    EXPECT_EQ(side.room, 0u) << "transmit() stopped although there was room";
  }
  return true;
}

void Harness::transmit() {
  transmit_side(client);
  transmit_side(server);
}

TimeNs Harness::next_event_ns() const {
  TimeNs next = std::min(client.timer, server.timer);
  for (const Arriving& arriving : wire_) next = std::min(next, arriving.when);
  for (const Side* side : {&client, &server}) {
    if (!side->fetches.empty()) next = std::min(next, side->fetches.front().when);
  }
  return next;
}

/// One round of what is due now; false if there was nothing.
bool Harness::run_due() {
  bool any = false;
  for (Side* side : {&client, &server}) any |= transmit_side(*side);
  while (!wire_.empty()) {
    auto next = std::min_element(wire_.begin(), wire_.end(), [](const Arriving& a, const Arriving& b) {
      return std::tie(a.when, a.order) < std::tie(b.when, b.order);
    });
    if (next->when > now) break;
    any = true;
    const Flight flight = std::move(next->flight);
    wire_.erase(next);
    deliver(flight);
  }
  for (Side* side : {&client, &server}) any |= side->run_fetches();
  for (Side* side : {&client, &server}) {
    if (side->timer > now) continue;
    any = true;
    side->timer = kTimeNever;
    TimeNs next = side->session->on_timer(now);
    EXPECT_GT(next, now) << "a timer that is due again at once spins";
    if (next <= now) next = now + kMillisecond;
    side->timer = std::min(side->timer, next);
  }
  return any;
}

void Harness::run(DurationNs for_ns) {
  const TimeNs until = now + for_ns;
  while (true) {
    while (run_due()) {
    }
    const TimeNs next = next_event_ns();
    if (next > until) break;
    now = std::max(now, next);
  }
  now = until;
}

bool Harness::run_until(const std::function<bool()>& done) {
  const TimeNs until = now + 60 * kSecond;
  while (!done()) {
    if (run_due()) continue;
    const TimeNs next = next_event_ns();
    if (next > until) return false;
    now = std::max(now, next);
  }
  return true;
}

void Harness::serve(size_t response_bytes) {
  server.handler = [this, response_bytes](ArrivedRequest&& request) {
    if (request.one_way) return;
    const ByteSpan bytes = request.request.bytes();
    EXPECT_TRUE(server.respond(request, pattern(crc32c(bytes), response_bytes)));
  };
}

std::string Harness::expected_response(const TestCall& call, size_t response_bytes) const {
  return pattern(crc32c(as_byte_span(call.request)), response_bytes);
}

void Harness::expect_rest() {
  for (Side* side : {&client, &server}) {
    SCOPED_TRACE(side->is_server ? "server" : "client");
    EXPECT_EQ(side->session->outstanding_calls(), 0u);
    EXPECT_EQ(side->session->credits_missing(), 0u);
    EXPECT_EQ(side->session->lingering_slots(), 0u);
    EXPECT_TRUE(side->fetches.empty());
    for (TestCall& call : side->calls) {
      EXPECT_EQ(call.completions, 1);
      call.outcome.response.reset();
    }
    const Session::Retained retained = side->session->retained();
    EXPECT_EQ(side->lent.size(), retained.requests);
    EXPECT_EQ(side->messages.outstanding_count(), retained.responses);
  }
}

}  // namespace skua::rpc::testing
