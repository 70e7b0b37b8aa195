// What several handlers need: failures of the store as errors, conditional writes, times of expiry.
#ifndef SKUA_KVSTORE_GATEWAY_HANDLER_SUPPORT_H_
#define SKUA_KVSTORE_GATEWAY_HANDLER_SUPPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// The version of Redis whose replies these are. Clients look at it to know what they may send.
inline constexpr std::string_view kRedisVersion = "7.0.15";

/// True: the store failed, and the client has been told. TRYAGAIN: certainly nothing was written.
bool reply_failure(CommandRun& run, const StoreResult& result);
/// Tells the client of a failure: StoreResult::is_failure().
void reply_failure(CommandRun& run, StoreResult::Status status, std::string_view text);
/// True: `is_wrong`, and the client has been told the error.
bool reply_error_if(CommandRun& run, bool is_wrong, std::string_view error);
/// Tells the client the error. For functions that give nothing then.
std::nullopt_t refuse(CommandRun& run, std::string_view error);
/// True: the store failed, or the key does not hold a string, and the client has been told. `got`: of a GET with_mark.
/// An absent key counts as a string.
bool reply_not_string(CommandRun& run, const StoreResult& got);
/// The same for hashes. An absent key counts as a hash.
bool reply_not_hash(CommandRun& run, const StoreResult& got);

// --- Reads of the first word behind the name

/// The value, for reply_not_string() and reply_not_hash().
[[nodiscard]] StoreRequest read_value(const CommandRun& run);
/// The same, but of the value only its size.
[[nodiscard]] StoreRequest read_mark(const CommandRun& run);
/// Whether the key is there, and the time that it has to live.
[[nodiscard]] StoreRequest read_ttl(const CommandRun& run);
/// OneRequest::ask of GETs of the first word behind the name, with_mark. The value is borrowed.
bool ask_value(const CommandRun& run, StoreRequest& request);
/// The reply of GET. Takes the value, which is a string's.
void reply_value(CommandRun& run, StoreResult&& got);

// --- Words

/// The longest pattern that is taken. Each key costs up to its own size times the pattern's.
inline constexpr size_t kPatternBytesMax = 4096;
/// True: the pattern is longer, and the client has been told.
bool reply_long_pattern(CommandRun& run, std::string_view pattern);
/// Words of a command that the gateway answers by itself: they cost time of the thread, and other connections wait.
inline constexpr size_t kQuestionsMax = 256;
/// True: the command has more words, besides its first `name_words`, and the client has been told.
bool reply_too_many_questions(CommandRun& run, size_t name_words);

/// Replies with an error if it is not an integer.
[[nodiscard]] std::optional<int64_t> integer_arg(CommandRun& run, size_t index);

// --- Read, then write if nobody else wrote meanwhile
//
//   for (Written written = Written::kAgain; written == Written::kAgain;) {
//     const StoreResult old = co_await run.store(get);
//     if (reply_failure(run, old)) co_return;
//     ...
//     written = judge_write(run, co_await run.store(unless_changed(old, {...})));
//     if (written == Written::kDone) run.reply()...
//   }

/// The request, for the case that the key still is as `old` (the result of a GET) says.
[[nodiscard]] StoreRequest unless_changed(const StoreResult& old, StoreRequest request);
enum class Written : uint8_t {
  kDone,
  kAgain,   // somebody else wrote; read again
  kFailed,  // the client has been told
};
[[nodiscard]] Written judge_write(CommandRun& run, const StoreResult& result);

// --- Expiry

enum class TimeUnit : uint8_t { kSeconds, kMilliseconds };
enum class TimeBase : uint8_t { kNow, kEpoch };
/// What a time among the words of a command counts, and since when.
struct TimeForm {
  TimeUnit unit;
  TimeBase base;
  friend bool operator==(const TimeForm&, const TimeForm&) = default;
};
/// That of the command itself: kMilliseconds and kTimeOfDay.
[[nodiscard]] TimeForm time_form(const CommandSpec& spec);
/// That behind the option EX, PX, EXAT or PXAT. Nothing: the word is none of them.
[[nodiscard]] std::optional<TimeForm> expiry_option(std::string_view word);
/// "ERR invalid expire time in 'set' command"
void reply_bad_expiry(CommandRun& run);
/// When a key expires, in milliseconds since 1970. Nothing: the sum is beyond all bounds, or more than 100 years away,
/// which the store does not take.
[[nodiscard]] std::optional<int64_t> expiry_at(int64_t time, TimeForm form, int64_t now_ms);
/// As expiry_at(), for options of SET and others: the time must be above 0. Replies with an error otherwise.
[[nodiscard]] std::optional<int64_t> expiry_arg(CommandRun& run, size_t index, TimeForm form);

/// Sets a value that expires at `at_ms`, or removes the key, if that time is past already.
[[nodiscard]] StoreRequest put_until(std::string_view key, std::string_view value, int64_t at_ms, int64_t now_ms);
/// The first word behind the name expires at `at_ms`, or is removed, if that time is past already.
[[nodiscard]] StoreRequest expire_at(const CommandRun& run, int64_t at_ms);

// --- Commands of several keys, which are not atomic

/// What came of the writes of one command.
class WriteTally {
 public:
  void add(const StoreResult& result);
  [[nodiscard]] size_t ok_count() const { return ok_count_; }
  /// The command must write nothing further.
  [[nodiscard]] bool has_failed() const { return first_failure_.has_value(); }
  /// True: a write failed, and the client has been told which part of the command's `key_count` keys is done.
  bool reply_failure(CommandRun& run, size_t key_count) const;

 private:
  size_t ok_count_ = 0;
  bool is_unknown_ = false;
  std::optional<StoreResult::Status> first_failure_;
  std::string text_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_HANDLER_SUPPORT_H_
