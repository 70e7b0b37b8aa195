// What Redis's protocol, the kernel's TCP and the disk leave of synced SETs: a server that does nothing else. One
// thread reads commands, keeps the values in a hash table and answers. Another one writes what has gathered to a file
// and syncs it, so that reading goes on meanwhile. There is one table, no expiry, no replica, no recovery, and no other
// command. With a directory for a database, a third thread writes the last value of each key to RocksDB, 114,000 SETs
// at a time, without a log and in the order of the keys, into memtables as a storage node has them.
//
//   set_floor 6397 /var/tmp/set_floor.log &
//   set_floor 6396 /var/tmp/set_floor_2.log /var/tmp/set_floor_db &
//   redis-benchmark -p 6397 -t set -r 100000 -n 1000000 -c 50 -P 16 -d 100 --csv
//
// The file has a fixed size and is written again from its beginning when it is full.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvstore/storage/sort_effects.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/write_batch.h"
#include "rpc/base/bytes.h"
#include "rpc/base/status.h"

namespace {

constexpr size_t kSectorBytes = 4096;
constexpr size_t kFileBytes = size_t{256} << 20;
constexpr size_t kWriteBytesMax = size_t{8} << 20;

/// Writes pieces to a file, one after the other, and syncs each. The caller hands over the next piece when the last one
/// is done; `done_fd` becomes readable then.
class SyncedFile {
 public:
  bool open(const char* path) {
    fd_ = ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
    if (fd_ < 0) return false;
    sectors_ = static_cast<char*>(std::aligned_alloc(kSectorBytes, kWriteBytesMax));
    std::memset(sectors_, 0, kWriteBytesMax);
    // Blocks that were never written cost the file system a journal entry at each sync.
    for (size_t at = 0; at < kFileBytes; at += kWriteBytesMax) {
      if (pwrite(fd_, sectors_, kWriteBytesMax, static_cast<off_t>(at)) != ssize_t{kWriteBytesMax}) return false;
    }
    if (fsync(fd_) != 0) return false;
    done_fd_ = eventfd(0, EFD_CLOEXEC);
    std::thread([this] { run(); }).detach();
    return true;
  }
  [[nodiscard]] int done_fd() const { return done_fd_; }
  void write(std::string&& piece) {
    const std::lock_guard lock(mutex_);
    piece_ = std::move(piece);
    given_.notify_one();
  }

 private:
  [[noreturn]] void run() {
    for (;;) {
      std::string piece;
      {
        std::unique_lock lock(mutex_);
        given_.wait(lock, [this] { return !piece_.empty(); });
        piece = std::exchange(piece_, {});
      }
      const size_t bytes = (piece.size() + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
      if (bytes > kWriteBytesMax) std::abort();
      std::memcpy(sectors_, piece.data(), piece.size());
      if (at_ + bytes > kFileBytes) at_ = 0;
      const iovec all{sectors_, bytes};
      if (pwritev2(fd_, &all, 1, static_cast<off_t>(at_), RWF_DSYNC) != static_cast<ssize_t>(bytes)) std::abort();
      at_ += bytes;
      const uint64_t one = 1;
      if (::write(done_fd_, &one, sizeof one) != sizeof one) std::abort();
    }
  }

  int fd_ = -1;
  int done_fd_ = -1;
  char* sectors_ = nullptr;
  size_t at_ = 0;
  std::mutex mutex_;
  std::condition_variable given_;
  std::string piece_;
};

/// All keys have one prefix. A memtable keeps a hint for it: where the last key was inserted.
class OnePrefix final : public rocksdb::SliceTransform {
 public:
  [[nodiscard]] const char* Name() const override { return "OnePrefix"; }
  [[nodiscard]] rocksdb::Slice Transform(const rocksdb::Slice& /*key*/) const override { return {}; }
  [[nodiscard]] bool InDomain(const rocksdb::Slice& /*key*/) const override { return true; }
};

/// Keys and values, one behind the other.
class Puts {
 public:
  void add(std::string_view key, std::string_view value) {
    places_.push_back({bytes_.size(), key.size(), value.size()});
    bytes_.append(key).append(value);
  }
  [[nodiscard]] size_t size() const { return places_.size(); }
  /// The last value of each key, in the order of the keys.
  void write_to(rocksdb::WriteBatch& batch) const {
    std::vector<skua::kv::AppliedEffect> all;
    all.reserve(places_.size());
    const std::string_view bytes = bytes_;
    for (const Place& place : places_) {
      all.push_back({.key = bytes.substr(place.at, place.key_bytes),
                     .value = skua::as_byte_span(bytes.substr(place.at + place.key_bytes, place.value_bytes))});
    }
    std::vector<skua::kv::AppliedEffect> last;
    skua::kv::sort_last_of_key(all, last);
    for (const skua::kv::AppliedEffect& effect : last) {
      const std::string_view value = skua::as_string_view(*effect.value);
      batch.Put({effect.key.data(), effect.key.size()}, {value.data(), value.size()});
    }
  }

 private:
  struct Place {
    size_t at;
    size_t key_bytes;
    size_t value_bytes;
  };

  std::string bytes_;
  std::vector<Place> places_;
};

/// Writes to RocksDB on a thread of its own.
class Database {
 public:
  static constexpr size_t kPutsAtATime = 114'000;

  bool open(const char* path) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_concurrent_memtable_write = false;
    options.write_buffer_size = size_t{64} << 20;
    options.max_write_buffer_number = 8;
    options.memtable_insert_with_hint_prefix_extractor = std::make_shared<OnePrefix>();
    rocksdb::DB* db = nullptr;
    if (!rocksdb::DB::Open(options, path, &db).ok()) return false;
    db_.reset(db);
    std::thread([this] { run(); }).detach();
    return true;
  }
  [[nodiscard]] bool is_open() const { return db_ != nullptr; }
  void add(std::string_view key, std::string_view value) {
    gathered_.add(key, value);
    if (gathered_.size() < kPutsAtATime) return;
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [this] { return given_.size() == 0; });
    given_ = std::exchange(gathered_, {});
    there_.notify_one();
  }

 private:
  [[noreturn]] void run() {
    for (;;) {
      Puts puts;
      {
        std::unique_lock lock(mutex_);
        there_.wait(lock, [this] { return given_.size() > 0; });
        puts = std::exchange(given_, {});
        taken_.notify_one();
      }
      rocksdb::WriteBatch batch;
      puts.write_to(batch);
      rocksdb::WriteOptions options;
      options.disableWAL = true;
      if (!db_->Write(options, &batch).ok()) std::abort();
    }
  }

  std::unique_ptr<rocksdb::DB> db_;
  Puts gathered_;
  std::mutex mutex_;
  std::condition_variable there_;
  std::condition_variable taken_;
  Puts given_;
};

/// Takes "<mark>NUMBER\r\n" off the front.
std::optional<size_t> take_number(std::string_view& bytes, char mark) {
  if (bytes.empty() || bytes.front() != mark) return std::nullopt;
  size_t number = 0;
  const auto [end, error] = std::from_chars(bytes.data() + 1, bytes.data() + bytes.size(), number);
  const auto length = static_cast<size_t>(end - bytes.data());
  if (error != std::errc{} || bytes.size() < length + 2) return std::nullopt;
  bytes.remove_prefix(length + 2);
  return number;
}

/// Takes a command's words off the front. False: the command has not come as a whole.
bool take_command(std::string_view& bytes, std::vector<std::string_view>& words) {
  words.clear();
  std::string_view rest = bytes;
  const std::optional<size_t> count = take_number(rest, '*');
  for (size_t i = 0; i < count.value_or(0); ++i) {
    const std::optional<size_t> size = take_number(rest, '$');
    if (!size.has_value() || rest.size() < *size + 2) return false;
    words.push_back(rest.substr(0, *size));
    rest.remove_prefix(*size + 2);
  }
  if (!count.has_value()) return false;
  bytes = rest;
  return true;
}

class Server {
 public:
  /// `database`: null: none.
  bool listen(uint16_t port, const char* path, const char* database) {
    if (database != nullptr && !database_.open(database)) return false;
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
    return ::listen(listener_, 64) == 0 && file_.open(path);
  }

  [[noreturn]] void run() {
    watch(listener_);
    watch(file_.done_fd());
    std::array<epoll_event, 64> events;
    for (;;) {
      const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        if (fd == listener_) {
          accept_one();
        } else if (fd == file_.done_fd()) {
          answer();
        } else if (!receive(*connections_[fd])) {
          connections_.erase(fd);
        }
      }
      if (!gathered_.empty() && !is_writing_) {
        is_writing_ = true;
        being_written_ = std::exchange(waiting_, {});
        file_.write(std::exchange(gathered_, {}));
      }
    }
  }

 private:
  struct Connection {
    explicit Connection(int fd_arg) : fd(fd_arg) {}
    ~Connection() { close(fd); }
    int fd;
    std::string unread;
  };
  struct Waiting {
    std::weak_ptr<Connection> connection;
    size_t sets;
  };

  void watch(int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  void accept_one() {
    const int fd = accept(listener_, nullptr, nullptr);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_[fd] = std::make_shared<Connection>(fd);
    watch(fd);
  }

  /// False: the connection is over.
  bool receive(Connection& connection) {
    const ssize_t got = recv(connection.fd, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) return false;
    connection.unread.append(buffer_.data(), static_cast<size_t>(got));
    std::string_view bytes = connection.unread;
    size_t sets = 0;
    for (std::string_view before = bytes; take_command(bytes, words_); before = bytes) {
      if (words_.size() == 3 && words_[0] == "SET") {
        gathered_.append(before, 0, before.size() - bytes.size());
        values_[skua::absl_view(words_[1])] = words_[2];
        if (database_.is_open()) database_.add(words_[1], words_[2]);
        ++sets;
      } else if (!reply(connection, "-ERR this is no SET\r\n")) {  // what redis-benchmark asks first
        return false;
      }
    }
    connection.unread.erase(0, connection.unread.size() - bytes.size());
    if (sets > 0) waiting_.push_back({connections_[connection.fd], sets});
    return true;
  }

  static bool reply(const Connection& connection, std::string_view text) {
    return send(connection.fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  /// The file has what was being written.
  void answer() {
    uint64_t count = 0;
    if (read(file_.done_fd(), &count, sizeof count) != sizeof count) std::abort();
    is_writing_ = false;
    for (const Waiting& each : std::exchange(being_written_, {})) {
      const std::shared_ptr<Connection> connection = each.connection.lock();
      if (connection == nullptr) continue;
      std::string text;
      for (size_t i = 0; i < each.sets; ++i) text += "+OK\r\n";
      static_cast<void>(reply(*connection, text));  // recv() tells of a connection that is gone
    }
  }

  int listener_ = -1;
  int epoll_ = epoll_create1(0);
  SyncedFile file_;
  Database database_;
  std::vector<char> buffer_ = std::vector<char>(size_t{64} << 10);
  std::vector<std::string_view> words_;
  absl::flat_hash_map<std::string, std::string> values_;
  absl::flat_hash_map<int, std::shared_ptr<Connection>> connections_;
  std::string gathered_;
  std::vector<Waiting> waiting_;        // for what is in gathered_
  std::vector<Waiting> being_written_;  // for what the file is given
  bool is_writing_ = false;             // the file has something, and has not said that it is done
};

}  // namespace

int main(int argc, char** argv) {
  Server server;
  const bool is_usable = argc == 3 || argc == 4;
  if (!is_usable || !server.listen(static_cast<uint16_t>(std::atoi(argv[1])), argv[2], argc == 4 ? argv[3] : nullptr)) {
    std::fprintf(stderr,
                 "usage: set_floor PORT FILE [DATABASE]   (a port that is free, a file on a disk that takes O_DIRECT, "
                 "a directory)\n");
    return 2;
  }
  server.run();
}
