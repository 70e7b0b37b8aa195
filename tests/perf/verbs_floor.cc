// What a device alone makes of a round trip: two processes hand one datagram back and forth, each with ibv_poll_cq()
// and ibv_post_send() and nothing else, or with some function calls in between.
//
//   verbs_floor rxe0 72 0         datagrams of 72 bytes (a bundle of one call of 32 bytes)
//   verbs_floor rxe0 72 60        60 functions of about ten instructions are called between a receive and its answer
//
// An emulated processor looks up where each indirect call and each return goes, so that calls cost more there than what
// they do. The second figure says how much that is of a round trip: an engine is a program that makes calls.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

constexpr int kRoundTrips = 20'000;
constexpr uint32_t kSendDepth = 256;
constexpr uint32_t kReceiveDepth = 512;
constexpr uint32_t kSignalEvery = 64;
constexpr size_t kBufferBytes = 4288;  // as the engine's, which also use another one each time
constexpr size_t kMemoryBytes = kBufferBytes * (kSendDepth + kReceiveDepth);
constexpr uint32_t kInlineBytes = 288;
constexpr uint32_t kKey = 5;
constexpr size_t kFunctions = 256;

using Function = int (*)(int, volatile int*);

/// Each on lines of its own, like functions of a program.
template <size_t kNumber>
[[gnu::noinline, gnu::aligned(512)]] int step(int value, volatile int* memory) {
  if ((value & (1 << (kNumber % 7))) != 0) memory[kNumber % 64] = memory[kNumber % 64] + 1;
  memory[kNumber * 7 % 64] = memory[kNumber * 7 % 64] ^ value;
  return value * static_cast<int>(2 * kNumber + 3) + memory[kNumber * 5 % 64];
}

template <size_t... kNumbers>
constexpr std::array<Function, sizeof...(kNumbers)> all_steps(std::index_sequence<kNumbers...> /*unused*/) {
  return {step<kNumbers>...};
}

constexpr std::array<Function, kFunctions> kSteps = all_steps(std::make_index_sequence<kFunctions>());

/// What the two processes know of each other.
struct Meeting {
  std::array<std::atomic<uint32_t>, 2> qp_numbers;
};

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "verbs_floor: %s does not work\n", what);
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): nobody else ends the program
}

void check(bool ok, const char* what) {
  if (!ok) stop(what);
}

ibv_context* open_device(const char* name) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(ibv_get_device_name(devices[i]), name) == 0) return ibv_open_device(devices[i]);
  }
  return nullptr;
}

/// A plain number: the library's macro combines it with one of another enumeration.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;

/// A UD queue pair with its memory, on port 1.
class Queue {
 public:
  explicit Queue(const char* device) {
    context_ = open_device(device);
    check(context_ != nullptr, device);
    domain_ = ibv_alloc_pd(context_);
    received_ = ibv_create_cq(context_, 2 * kReceiveDepth, nullptr, nullptr, 0);
    sent_ = ibv_create_cq(context_, 2 * kSendDepth, nullptr, nullptr, 0);
    memory_.resize(kMemoryBytes);
    registration_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(), kAccess);
    check(received_ != nullptr && sent_ != nullptr && registration_ != nullptr, "ibv_reg_mr");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sent_;
    wanted.recv_cq = received_;
    wanted.qp_type = IBV_QPT_UD;
    wanted.cap = {kSendDepth, kReceiveDepth, 1, 1, kInlineBytes};
    pair_ = ibv_create_qp(domain_, &wanted);
    check(pair_ != nullptr, "ibv_create_qp");
    make_ready();
  }

  [[nodiscard]] uint32_t number() const { return pair_->qp_num; }

  /// Datagrams go to the queue pair of that number on the same port.
  void connect(uint32_t number, int gid_index) {
    ibv_ah_attr to{};
    to.is_global = 1;
    to.port_num = 1;
    to.grh.sgid_index = static_cast<uint8_t>(gid_index);
    to.grh.hop_limit = 64;
    check(ibv_query_gid(context_, 1, gid_index, &to.grh.dgid) == 0, "ibv_query_gid");
    request_.wr.ud.ah = ibv_create_ah(domain_, &to);
    check(request_.wr.ud.ah != nullptr, "ibv_create_ah");
    request_.wr.ud.remote_qpn = number;
    request_.wr.ud.remote_qkey = kKey;
    request_.opcode = IBV_WR_SEND;
    request_.sg_list = &piece_;
    request_.num_sge = 1;
  }

  void send(uint32_t bytes) {
    const size_t at = kReceiveDepth + count_ % kSendDepth;
    piece_ = {reinterpret_cast<uintptr_t>(memory_.data() + at * kBufferBytes), bytes, registration_->lkey};
    request_.send_flags = bytes <= kInlineBytes ? IBV_SEND_INLINE : 0;
    if (++count_ % kSignalEvery == 0) request_.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    check(ibv_post_send(pair_, &request_, &refused) == 0, "ibv_post_send");
    ibv_wc unused;
    if (count_ % kSignalEvery == kSignalEvery / 2) ibv_poll_cq(sent_, 1, &unused);
  }

  void receive() {
    ibv_wc done;
    while (ibv_poll_cq(received_, 1, &done) == 0) {
    }
    check(done.status == IBV_WC_SUCCESS, "receiving");
    used_ = done.wr_id;
  }

  /// The buffer of the last datagram, again.
  void post_used() { post(used_); }

 private:
  void make_ready() {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qkey = kKey;
    const int what = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    check(ibv_modify_qp(pair_, &to, what) == 0, "ibv_modify_qp (INIT)");
    for (uint64_t i = 0; i < kReceiveDepth; ++i) post(i);
    to.qp_state = IBV_QPS_RTR;
    check(ibv_modify_qp(pair_, &to, IBV_QP_STATE) == 0, "ibv_modify_qp (RTR)");
    to.qp_state = IBV_QPS_RTS;
    check(ibv_modify_qp(pair_, &to, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "ibv_modify_qp (RTS)");
  }

  void post(uint64_t buffer) {
    ibv_sge piece = {reinterpret_cast<uintptr_t>(memory_.data() + buffer * kBufferBytes), kBufferBytes,
                     registration_->lkey};
    ibv_recv_wr request{buffer, nullptr, &piece, 1};
    ibv_recv_wr* refused = nullptr;
    check(ibv_post_recv(pair_, &request, &refused) == 0, "ibv_post_recv");
  }

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* received_ = nullptr;
  ibv_cq* sent_ = nullptr;
  std::vector<std::byte> memory_;
  ibv_mr* registration_ = nullptr;
  ibv_qp* pair_ = nullptr;
  ibv_send_wr request_{};
  ibv_sge piece_{};
  uint64_t count_ = 0;
  uint64_t used_ = 0;
};

int call_functions(int value, int count) {
  static volatile int memory[64];
  static const std::array<Function, kFunctions>* volatile steps = &kSteps;
  for (int i = 0; i < count; ++i) value = (*steps)[static_cast<size_t>(i) * 7 % kFunctions](value, memory);
  return value;
}

void answer(Queue& queue, uint32_t bytes, int calls) {
  for (int i = 0; i < kRoundTrips; ++i) {
    queue.receive();
    call_functions(i, calls);
    queue.send(bytes);
    queue.post_used();
  }
}

void ask(Queue& queue, uint32_t bytes, int calls) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> took_us;
  took_us.reserve(kRoundTrips);
  for (int i = 0; i < kRoundTrips; ++i) {
    const Clock::time_point begun = Clock::now();
    queue.send(bytes);
    queue.receive();
    call_functions(i, calls);
    took_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begun).count());
    queue.post_used();
  }
  std::ranges::sort(took_us);
  std::printf("round trip of %u bytes, %d calls before each answer: p50 %.2f p90 %.2f us\n", bytes, calls,
              took_us[kRoundTrips / 2], took_us[kRoundTrips * 9 / 10]);
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::fputs("usage: verbs_floor DEVICE BYTES CALLS\n", stderr);
    return 2;
  }
  const int bytes = std::atoi(words[2]);
  const int calls = std::atoi(words[3]);
  if (bytes < 1 || bytes > 1024 || calls < 0 || calls > 10'000) {
    std::fputs("verbs_floor: 1 to 1024 bytes, 0 to 10000 calls\n", stderr);
    return 2;
  }
  auto* meeting =
      static_cast<Meeting*>(mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (meeting == MAP_FAILED) stop("mmap");
  const pid_t child = fork();
  const size_t self = child == 0 ? 1 : 0;
  Queue queue(words[1]);
  meeting->qp_numbers[self] = queue.number();
  uint32_t peer = 0;
  while ((peer = meeting->qp_numbers[1 - self]) == 0) usleep(1000);
  queue.connect(peer, 1);
  if (self == 1) {
    answer(queue, static_cast<uint32_t>(bytes), calls);
    return 0;
  }
  ask(queue, static_cast<uint32_t>(bytes), calls);
  int status = 0;
  waitpid(child, &status, 0);
  return 0;
}
