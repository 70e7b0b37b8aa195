// What the driver and a store's binding agree on: operations go in, results come back later, and
// nothing ever blocks in between.
//
//   driver thread                       BindingSession                      store
//     submit(op, done)  ------------->  encode, queue   ---------------->
//     submit(op, done)  ------------->  encode, queue
//     poll(timeout)     ------------->  send, receive   <----------------
//        done(result)   <-------------  (from inside poll)
//
// One Binding per run, one BindingSession per driver thread; a session is opened, used and
// destroyed on its thread, so a binding needs no locks unless it shares something by its own
// choice. The driver keeps up to `in_flight_max` operations between submit and completion.
#ifndef SKUA_YCSB_BINDINGS_BINDING_H_
#define SKUA_YCSB_BINDINGS_BINDING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/clock.h"
#include "ycsb/core/operation.h"
#include "ycsb/core/properties.h"

namespace skua::ycsb {

/// Called once per submitted operation, on the driver thread, from inside submit() or poll(). It
/// must not call the session back.
struct CompletionFn {
  void (*function)(void* context, const OpResult& result) = nullptr;
  void* context = nullptr;

  void operator()(const OpResult& result) const { function(context, result); }
};

/// Thread: the driver thread that opened it. The destructor closes the connection; operations
/// still in flight are forgotten, their completions are not called.
class BindingSession {
 public:
  virtual ~BindingSession() = default;

  /// Starts an operation (any kind but kReadModifyWrite) and returns at once. `op` stays as it is
  /// until `done` has been called. At most in_flight_max operations are outstanding.
  virtual void submit(const Operation& op, CompletionFn done) = 0;

  /// Sends, receives and completes what it can; with nothing to complete it waits up to `timeout`
  /// (0: not at all) for something to happen. An error means that the session cannot go on; all
  /// operations then outstanding have been completed with kServiceUnavailable.
  virtual absl::Status poll(DurationNs timeout) = 0;
};

struct SessionOptions {
  size_t in_flight_max = 1;
  /// READ results carry the record's fields (OpResult::fields); else bindings may drop them.
  bool return_fields = false;
  /// For a binding's own random choices.
  uint64_t seed = 0;
};

class Binding {
 public:
  virtual ~Binding() = default;

  /// Thread: the driver thread that will use the session; several may call at once. May block. The
  /// session lives no longer than the binding. Errors name the store's address and what to check.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& options) = 0;

  /// Name and value pairs for the report's environment block: where the store is, its version,
  /// transport, durability.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
};

/// Whole lines to a stream from several threads.
class LineSink {
 public:
  explicit LineSink(std::ostream& out) : out_(out) {}
  /// Adds the line break. Thread: any.
  void write_line(std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    out_ << line << '\n';
  }

 private:
  std::mutex mutex_;
  std::ostream& out_;
};

/// What a binding is made from; all of it outlives the binding.
struct BindingContext {
  const Properties& properties;
  const Schema& schema;
  /// The driver's standard output.
  LineSink& out;
};

using BindingFactory = absl::StatusOr<std::unique_ptr<Binding>> (*)(const BindingContext& context);

/// A line of the driver's table of bindings.
struct BindingEntry {
  std::string_view name;
  /// Java's class for the same store, accepted for -db and `db`.
  std::string_view java_class;
  /// One line for --help.
  std::string_view help;
  /// Its own properties, for --help: name, default and meaning.
  std::span<const std::array<std::string_view, 3>> properties;
  BindingFactory make;
  /// Options that stand for a property whose name is another: option without dashes, property.
  std::span<const std::array<std::string_view, 2>> options = {};
  /// What of these properties has no effect beside the others, in words for a warning each. May be null.
  std::vector<std::string> (*doubts)(const Properties& properties) = nullptr;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_BINDING_H_
