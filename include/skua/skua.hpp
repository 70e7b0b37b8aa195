// Skua's client library for C++17: a header over skua.h, without a library of its own. Throws nothing; compiles with
// -fno-exceptions -fno-rtti.
//
//   auto client = skua::Client::create({{"control-address", "10.0.0.1:7400"}});
//   if (!client) return fail(client.status().text());
//   if (auto written = client->put("notes", "greeting", "hello"); !written) return fail(written.status().text());
//   if (auto read = client->get("notes", "greeting"); read) use(read->bytes());
//
// What an operation brought is a Result<T>: a Status, and a T if the status is OK. Values are not copied: they share
// the memory of their result, which lives as long as one of them.
//
// Threads, limits and meanings are those of skua.h.
#ifndef SKUA_INCLUDE_SKUA_SKUA_HPP_
#define SKUA_INCLUDE_SKUA_SKUA_HPP_

#include <skua/skua.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace skua {

namespace detail {
inline skua_bytes bytes_of(std::string_view text) noexcept {
  return {text.data(), text.size()};
}
inline std::vector<skua_bytes> bytes_of(const std::vector<std::string_view>& texts) {
  std::vector<skua_bytes> bytes;
  bytes.reserve(texts.size());
  for (const std::string_view text : texts) bytes.push_back(bytes_of(text));
  return bytes;
}
inline std::string_view view_of(skua_bytes bytes) noexcept {
  return bytes.length == 0 ? std::string_view() : std::string_view(static_cast<const char*>(bytes.data), bytes.length);
}
}  // namespace detail

/// A table's name, an option's name or its value: a text that ends with a zero. Lives as long as what it was made of. A
/// std::string with a zero inside is no name: it becomes NULL, which every call refuses, rather than its first part.
class Name {
 public:
  Name(const char* text) noexcept : text_(text) {}
  Name(const std::string& text) noexcept : text_(text.find('\0') == std::string::npos ? text.c_str() : nullptr) {}
  const char* c_str() const noexcept { return text_; }

 private:
  const char* text_;
};

/// How an operation ended.
class Status {
 public:
  Status() = default;
  Status(skua_code code, std::string text, skua_outcome outcome = SKUA_NOT_DONE)
      : code_(code), outcome_(outcome), text_(std::move(text)) {}
  static Status of(const skua_error& error) {
    return error.code == SKUA_OK ? Status() : Status(error.code, error.text);
  }
  static Status of(const skua_result* result) {
    Status status(skua_result_code(result), skua_result_text(result), skua_result_outcome(result));
    status.version_ = skua_result_version(result);
    return status;
  }

  bool ok() const noexcept { return code_ == SKUA_OK; }
  explicit operator bool() const noexcept { return ok(); }
  skua_code code() const noexcept { return code_; }
  skua_outcome outcome() const noexcept { return outcome_; }
  /// A write that failed: it may have taken effect.
  bool may_have_been_applied() const noexcept { return outcome_ == SKUA_IN_DOUBT; }
  const std::string& text() const noexcept { return text_; }
  /// The key's version, as the store told it; also if a condition did not hold.
  std::uint64_t version() const noexcept { return version_; }

 private:
  skua_code code_ = SKUA_OK;
  skua_outcome outcome_ = SKUA_ANSWERED;
  std::string text_;
  std::uint64_t version_ = 0;
};

/// A T, or why there is none. Reading the value of a Result that is not OK ends the program.
template <typename T>
class Result {
 public:
  Result(Status status) : status_(std::move(status)) {}
  Result(T value, Status status = Status()) : status_(std::move(status)), value_(std::move(value)) {}

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }

  T& operator*() & noexcept { return checked(); }
  T&& operator*() && noexcept { return std::move(checked()); }
  const T& operator*() const& noexcept { return checked(); }
  T* operator->() noexcept { return &checked(); }
  const T* operator->() const noexcept { return &checked(); }

 private:
  T& checked() noexcept { return const_cast<T&>(std::as_const(*this).checked()); }
  const T& checked() const noexcept {
    if (!value_.has_value()) std::abort();
    return *value_;
  }

  Status status_;
  std::optional<T> value_;
};

/// Shares a result of the C library.
class SharedResult {
 public:
  SharedResult() = default;
  /// Takes over what a function of skua.h returned, or skua_result_keep().
  static SharedResult adopt(skua_result* result) noexcept {
    SharedResult shared;
    shared.result_ = result;
    return shared;
  }
  SharedResult(const SharedResult& other) noexcept : result_(skua_result_keep(other.result_)) {}
  SharedResult(SharedResult&& other) noexcept : result_(std::exchange(other.result_, nullptr)) {}
  SharedResult& operator=(SharedResult other) noexcept {
    std::swap(result_, other.result_);
    return *this;
  }
  ~SharedResult() { skua_result_release(result_); }

  skua_result* get() const noexcept { return result_; }

 private:
  skua_result* result_ = nullptr;
};

/// What a GET brought.
class Value {
 public:
  explicit Value(SharedResult result) noexcept : result_(std::move(result)) {}

  /// Lives as long as this object, or a copy of it.
  std::string_view bytes() const noexcept { return detail::view_of(skua_result_value(result_.get())); }
  std::string str() const { return std::string(bytes()); }
  std::uint64_t version() const noexcept { return skua_result_version(result_.get()); }
  skua_token token() const noexcept { return skua_result_token(result_.get()); }
  /// The value of the field with this name, if the value is a row that has one. Read several fields with a RowReader.
  std::optional<std::string_view> field(std::string_view name) const noexcept;
  /// With ReadOptions::with_ttl. Nothing: the key does not expire.
  std::optional<std::chrono::milliseconds> ttl() const noexcept {
    const std::int64_t ms = skua_result_ttl_ms(result_.get());
    return ms < 0 ? std::nullopt : std::optional<std::chrono::milliseconds>(ms);
  }

 private:
  SharedResult result_;
};

/// What a write brought.
struct Written {
  std::uint64_t version = 0;
  /// ADD: the counter afterwards.
  std::int64_t number = 0;
  skua_durability durability = SKUA_DURABILITY_DEFAULT;
  bool repeated = false;
  skua_token token = {0, 0, 0, 0};
};

/// A key of a MULTI_GET, a row of a SCAN, an operation of a BATCH. Views live as long as the Entries.
struct Entry {
  skua_code code = SKUA_OK;
  std::string_view text;
  std::string_view key;
  std::string_view value;
  std::uint64_t version = 0;
  std::int64_t number = 0;
  skua_token token = {0, 0, 0, 0};

  bool ok() const noexcept { return code == SKUA_OK; }
};

class Entries {
 public:
  explicit Entries(SharedResult result) noexcept : result_(std::move(result)) {}

  std::size_t size() const noexcept { return skua_result_entry_count(result_.get()); }
  /// `position` beyond the last: an entry with SKUA_INVALID_ARGUMENT.
  Entry operator[](std::size_t position) const noexcept {
    skua_entry raw = SKUA_ENTRY_INIT;
    if (!skua_result_entry(result_.get(), position, &raw))
      return {SKUA_INVALID_ARGUMENT, "no such entry", {}, {}, 0, 0, {}};
    return {raw.code,   raw.text, detail::view_of(raw.key), detail::view_of(raw.value), raw.version,
            raw.number, raw.token};
  }
  /// SCAN: there may be more rows; scan again from next_start().
  bool has_more() const noexcept { return skua_result_has_more(result_.get()); }
  std::string_view next_start() const noexcept { return detail::view_of(skua_result_next_start(result_.get())); }

 private:
  SharedResult result_;
};

/// A field of a row.
struct Field {
  std::string_view name;
  /// Nothing: patch() removes the field, if the row has it.
  std::optional<std::string_view> value;
};

/// Reads the fields of a row without a copy: for (skua::RowReader row(value.bytes()); auto field = row.next();) ... The
/// bytes must outlive the fields.
class RowReader {
 public:
  explicit RowReader(std::string_view row) noexcept : rest_(detail::bytes_of(row)) {}

  /// Nothing: at the end, and where the bytes are no row.
  std::optional<Field> next() noexcept {
    skua_field raw;
    if (!skua_row_next(&rest_, &raw)) return std::nullopt;
    return Field{detail::view_of(raw.name), detail::view_of(raw.value)};
  }
  /// After next() gave nothing: the bytes were fields to their end.
  bool ok() const noexcept { return rest_.length == 0; }

 private:
  skua_bytes rest_;
};

inline std::optional<std::string_view> Value::field(std::string_view name) const noexcept {
  for (RowReader row(bytes()); const std::optional<Field> field = row.next();) {
    if (field->name == name) return field->value;
  }
  return std::nullopt;
}

struct ReadOptions {
  std::chrono::nanoseconds timeout{0};
  bool with_ttl = false;
  skua_token at_least = {0, 0, 0, 0};
  /// get: only the row's fields with these names, which must live until the operation has begun. None: the whole value.
  std::vector<std::string_view> fields = {};

  /// `names` gets what the result points to.
  skua_read_options raw(std::vector<skua_bytes>& names) const {
    skua_read_options raw = SKUA_READ_OPTIONS_INIT;
    raw.timeout_ns = timeout.count();
    raw.with_ttl = with_ttl;
    raw.at_least = at_least;
    names = detail::bytes_of(fields);
    raw.fields = names.data();
    raw.field_count = names.size();
    return raw;
  }
};

struct WriteOptions {
  std::optional<std::uint64_t> if_version;
  bool if_absent = false;
  bool if_present = false;
  std::chrono::nanoseconds ttl{0};
  bool keep_ttl = false;
  skua_durability durability = SKUA_DURABILITY_DEFAULT;
  std::chrono::nanoseconds timeout{0};

  skua_write_options raw() const noexcept {
    skua_write_options raw = SKUA_WRITE_OPTIONS_INIT;
    raw.has_if_version = if_version.has_value();
    raw.if_version = if_version.value_or(0);
    raw.if_absent = if_absent;
    raw.if_present = if_present;
    raw.keep_ttl = keep_ttl;
    raw.durability = durability;
    raw.ttl_ns = ttl.count();
    raw.timeout_ns = timeout.count();
    return raw;
  }
};

struct ScanRange {
  std::string_view start;
  std::string_view end;
  std::uint32_t limit = 100;

  skua_scan_range raw() const noexcept {
    skua_scan_range raw = SKUA_SCAN_RANGE_INIT;
    raw.start = detail::bytes_of(start);
    raw.end = detail::bytes_of(end);
    raw.limit = limit;
    return raw;
  }
};

/// Options of a client: names and texts, as skua_options_set() says.
using Options = std::initializer_list<std::pair<Name, Name>>;

namespace detail {

template <auto Destroy>
struct Deleter {
  template <typename T>
  void operator()(T* handle) const noexcept {
    Destroy(handle);
  }
};

/// `create` is skua_client_create() or skua_client_create_polled().
template <typename Handle, typename Create>
Status create(Options options, Handle& to, Create create) {
  std::unique_ptr<skua_options, Deleter<skua_options_destroy>> set(skua_options_create());
  skua_error error = SKUA_ERROR_INIT;
  for (const auto& [name, value] : options) {
    if (skua_options_set(set.get(), name.c_str(), value.c_str(), &error) != SKUA_OK) return Status::of(error);
  }
  to.reset(create(set.get(), &error));
  return Status::of(error);
}

inline std::vector<skua_field> fields_of(const std::vector<Field>& fields) {
  std::vector<skua_field> raw;
  raw.reserve(fields.size());
  for (const Field& field : fields) {
    raw.push_back({bytes_of(field.name), field.value.has_value() ? bytes_of(*field.value) : skua_no_value()});
  }
  return raw;
}

inline Written written_of(const skua_result* result) noexcept {
  return {skua_result_version(result), skua_result_number(result), skua_result_durability(result),
          skua_result_repeated(result), skua_result_token(result)};
}

}  // namespace detail

/// Writes to keys of one shard: all are applied, or none.
class Batch {
 public:
  Batch() noexcept : batch_(skua_batch_create()) {}

  Batch& put(std::string_view key, std::string_view value, const WriteOptions& options = {}) noexcept {
    const skua_write_options raw = options.raw();
    skua_batch_put(get(), detail::bytes_of(key), detail::bytes_of(value), &raw);
    return *this;
  }
  Batch& remove(std::string_view key, const WriteOptions& options = {}) noexcept {
    const skua_write_options raw = options.raw();
    skua_batch_remove(get(), detail::bytes_of(key), &raw);
    return *this;
  }
  Batch& add(std::string_view key, std::int64_t delta, const WriteOptions& options = {}) noexcept {
    const skua_write_options raw = options.raw();
    skua_batch_add(get(), detail::bytes_of(key), delta, &raw);
    return *this;
  }
  Batch& append(std::string_view key, std::string_view bytes, const WriteOptions& options = {}) noexcept {
    const skua_write_options raw = options.raw();
    skua_batch_append(get(), detail::bytes_of(key), detail::bytes_of(bytes), &raw);
    return *this;
  }
  Batch& expire(std::string_view key, std::chrono::nanoseconds ttl, const WriteOptions& options = {}) noexcept {
    const skua_write_options raw = options.raw();
    skua_batch_expire(get(), detail::bytes_of(key), ttl.count(), &raw);
    return *this;
  }
  void clear() noexcept { skua_batch_clear(get()); }
  skua_batch* get() const noexcept { return batch_.get(); }

 private:
  std::unique_ptr<skua_batch, detail::Deleter<skua_batch_destroy>> batch_;
};

/// Blocks until operations have ended. Any number of threads may share it.
class Client {
 public:
  static Result<Client> create(Options options = {}) {
    Client client;
    Status status = detail::create(options, client.client_, skua_client_create);
    if (!status) return status;
    return Result<Client>(std::move(client));
  }

  Result<Value> get(Name table, std::string_view key, const ReadOptions& options = {}) {
    std::vector<skua_bytes> names;
    const skua_read_options raw = options.raw(names);
    return share<Value>(skua_get(handle(), table.c_str(), detail::bytes_of(key), &raw));
  }
  Result<Written> put(Name table, std::string_view key, std::string_view value, const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    return wrote(skua_put(handle(), table.c_str(), detail::bytes_of(key), detail::bytes_of(value), &raw));
  }
  Result<Written> remove(Name table, std::string_view key, const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    return wrote(skua_remove(handle(), table.c_str(), detail::bytes_of(key), &raw));
  }
  Result<Written> add(Name table, std::string_view key, std::int64_t delta, const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    return wrote(skua_add(handle(), table.c_str(), detail::bytes_of(key), delta, &raw));
  }
  Result<Written> append(Name table, std::string_view key, std::string_view bytes, const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    return wrote(skua_append(handle(), table.c_str(), detail::bytes_of(key), detail::bytes_of(bytes), &raw));
  }
  Result<Written> expire(Name table, std::string_view key, std::chrono::nanoseconds ttl,
                         const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    return wrote(skua_expire(handle(), table.c_str(), detail::bytes_of(key), ttl.count(), &raw));
  }
  /// Replaces, adds or removes fields of a row. `creates`: a missing key becomes a row; otherwise it is SKUA_NOT_FOUND.
  /// The key goes with its last field.
  Result<Written> patch(Name table, std::string_view key, const std::vector<Field>& fields, bool creates = false,
                        const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    const std::vector<skua_field> raw_fields = detail::fields_of(fields);
    return wrote(skua_patch(handle(), table.c_str(), detail::bytes_of(key), raw_fields.data(), raw_fields.size(),
                            creates, &raw));
  }
  Result<Entries> multi_get(Name table, const std::vector<std::string_view>& keys, const ReadOptions& options = {}) {
    std::vector<skua_bytes> names;
    const skua_read_options raw = options.raw(names);
    const std::vector<skua_bytes> raw_keys = detail::bytes_of(keys);
    return share<Entries>(skua_multi_get(handle(), table.c_str(), raw_keys.data(), raw_keys.size(), &raw));
  }
  Result<Entries> scan(Name table, const ScanRange& range = {}, const ReadOptions& options = {}) {
    const skua_scan_range raw_range = range.raw();
    std::vector<skua_bytes> names;
    const skua_read_options raw = options.raw(names);
    return share<Entries>(skua_scan(handle(), table.c_str(), &raw_range, &raw));
  }
  /// Of `options`, timeout and durability count.
  Result<Entries> batch(Name table, const Batch& batch, const WriteOptions& options = {}) {
    const skua_write_options raw = options.raw();
    return share<Entries>(skua_batch_run(handle(), table.c_str(), batch.get(), &raw));
  }

  /// OK: the certificate is not renewed by this client (renew-certificate), or the last attempt did not fail.
  Status certificate_trouble() const {
    skua_error error = SKUA_ERROR_INIT;
    skua_certificate_trouble(handle(), &error);
    return Status::of(error);
  }

  skua_client* handle() const noexcept { return client_.get(); }

 private:
  Client() = default;

  template <typename T>
  static Result<T> share(skua_result* raw) {
    SharedResult result = SharedResult::adopt(raw);
    Status status = Status::of(result.get());
    if (!status) return status;
    return {T(std::move(result)), std::move(status)};
  }
  static Result<Written> wrote(skua_result* raw) {
    const SharedResult result = SharedResult::adopt(raw);
    Status status = Status::of(result.get());
    if (!status) return status;
    return {detail::written_of(result.get()), std::move(status)};
  }

  std::unique_ptr<skua_client, detail::Deleter<skua_client_destroy>> client_;
};

/// What the callback of a PolledClient gets. Views live until the callback returns; keep_...() for longer.
class Reply {
 public:
  explicit Reply(const skua_result* result) noexcept : result_(result) {}

  Status status() const { return Status::of(result_); }
  bool ok() const noexcept { return skua_result_code(result_) == SKUA_OK; }
  skua_code code() const noexcept { return skua_result_code(result_); }
  std::string_view bytes() const noexcept { return detail::view_of(skua_result_value(result_)); }
  std::uint64_t version() const noexcept { return skua_result_version(result_); }
  Written written() const noexcept { return detail::written_of(result_); }
  Value keep_value() const noexcept { return Value(SharedResult::adopt(skua_result_keep(result_))); }
  Entries keep_entries() const noexcept { return Entries(SharedResult::adopt(skua_result_keep(result_))); }
  const skua_result* raw() const noexcept { return result_; }

 private:
  const skua_result* result_;
};

/// Memory that is lent to a write, not copied. It must stay readable and unchanged until `release(context)` is called:
/// once, and also if the write is refused. skua.h says when, at skua_release. `release` must not be null.
struct Lent {
  std::string_view bytes;
  skua_release release = nullptr;
  void* context = nullptr;
};

/// Calls back from poll(). Belongs to one thread, which must also destroy it. Each operation takes a function of `const
/// Reply&`, which runs exactly once if the operation was accepted, and is destroyed unused otherwise.
class PolledClient {
 public:
  static Result<PolledClient> create(Options options = {}) {
    PolledClient client;
    Status status = detail::create(options, client.client_, skua_client_create_polled);
    if (!status) return status;
    return Result<PolledClient>(std::move(client));
  }

  template <typename Function>
  Status get(Name table, std::string_view key, const ReadOptions& options, Function&& function) {
    std::vector<skua_bytes> names;
    const skua_read_options raw = options.raw(names);
    return submit(skua_async_get, std::forward<Function>(function), table.c_str(), detail::bytes_of(key), &raw);
  }
  template <typename Function>
  Status put(Name table, std::string_view key, std::string_view value, const WriteOptions& options,
             Function&& function) {
    const skua_write_options raw = options.raw();
    return submit(skua_async_put, std::forward<Function>(function), table.c_str(), detail::bytes_of(key),
                  detail::bytes_of(value), &raw);
  }
  template <typename Function>
  Status remove(Name table, std::string_view key, const WriteOptions& options, Function&& function) {
    const skua_write_options raw = options.raw();
    return submit(skua_async_remove, std::forward<Function>(function), table.c_str(), detail::bytes_of(key), &raw);
  }
  template <typename Function>
  Status add(Name table, std::string_view key, std::int64_t delta, const WriteOptions& options, Function&& function) {
    const skua_write_options raw = options.raw();
    return submit(skua_async_add, std::forward<Function>(function), table.c_str(), detail::bytes_of(key), delta, &raw);
  }
  template <typename Function>
  Status append(Name table, std::string_view key, std::string_view bytes, const WriteOptions& options,
                Function&& function) {
    const skua_write_options raw = options.raw();
    return submit(skua_async_append, std::forward<Function>(function), table.c_str(), detail::bytes_of(key),
                  detail::bytes_of(bytes), &raw);
  }
  /// put() and append() of lent memory. Whatever they return, the memory is released once.
  template <typename Function>
  Status put_lend(Name table, std::string_view key, const Lent& value, const WriteOptions& options,
                  Function&& function) {
    return lend(skua_async_put_lend, table, key, value, options, std::forward<Function>(function));
  }
  template <typename Function>
  Status append_lend(Name table, std::string_view key, const Lent& bytes, const WriteOptions& options,
                     Function&& function) {
    return lend(skua_async_append_lend, table, key, bytes, options, std::forward<Function>(function));
  }
  template <typename Function>
  Status expire(Name table, std::string_view key, std::chrono::nanoseconds ttl, const WriteOptions& options,
                Function&& function) {
    const skua_write_options raw = options.raw();
    return submit(skua_async_expire, std::forward<Function>(function), table.c_str(), detail::bytes_of(key),
                  static_cast<std::int64_t>(ttl.count()), &raw);
  }
  /// As Client::patch().
  template <typename Function>
  Status patch(Name table, std::string_view key, const std::vector<Field>& fields, bool creates,
               const WriteOptions& options, Function&& function) {
    const skua_write_options raw = options.raw();
    const std::vector<skua_field> raw_fields = detail::fields_of(fields);
    return submit(skua_async_patch, std::forward<Function>(function), table.c_str(), detail::bytes_of(key),
                  raw_fields.data(), raw_fields.size(), creates, &raw);
  }
  template <typename Function>
  Status multi_get(Name table, const std::vector<std::string_view>& keys, const ReadOptions& options,
                   Function&& function) {
    std::vector<skua_bytes> names;
    const skua_read_options raw = options.raw(names);
    const std::vector<skua_bytes> raw_keys = detail::bytes_of(keys);
    return submit(skua_async_multi_get, std::forward<Function>(function), table.c_str(), raw_keys.data(),
                  raw_keys.size(), &raw);
  }
  template <typename Function>
  Status scan(Name table, const ScanRange& range, const ReadOptions& options, Function&& function) {
    const skua_scan_range raw_range = range.raw();
    std::vector<skua_bytes> names;
    const skua_read_options raw = options.raw(names);
    return submit(skua_async_scan, std::forward<Function>(function), table.c_str(), &raw_range, &raw);
  }
  template <typename Function>
  Status batch(Name table, const Batch& batch, const WriteOptions& options, Function&& function) {
    const skua_write_options raw = options.raw();
    return submit(skua_async_batch_run, std::forward<Function>(function), table.c_str(),
                  static_cast<const skua_batch*>(batch.get()), &raw);
  }

  /// `callbacks`: how many ran. Not OK: another thread than the client's, a callback of the client, or between
  /// begin_wait() and end_wait(). A loop that polls must end then.
  [[nodiscard]] Status poll(std::chrono::nanoseconds max_wait = std::chrono::nanoseconds(0),
                            std::size_t* callbacks = nullptr) {
    return told(skua_poll(handle(), max_wait.count(), callbacks), "the client cannot be polled here");
  }
  std::size_t in_flight() const noexcept { return skua_in_flight(handle()); }
  int wait_fd() const noexcept { return skua_wait_fd(handle()); }
  /// How long the caller may sleep. Nothing: poll again; the poll's status says if the client refuses.
  std::optional<std::chrono::nanoseconds> begin_wait() noexcept {
    std::int64_t longest_ns = 0;
    if (!skua_begin_wait(handle(), &longest_ns)) return std::nullopt;
    return std::chrono::nanoseconds(longest_ns);
  }
  Status end_wait() { return told(skua_end_wait(handle()), "the client does not wait here"); }
  /// Makes the calling thread the owner. Only while no other thread uses the client.
  [[nodiscard]] Status adopt_thread() { return told(skua_adopt_thread(handle()), "the client cannot be adopted here"); }
  /// Ends the client: functions of operations in flight run now, with SKUA_CANCELLED. Not OK: another thread than the
  /// client's, or a callback; the client lives on. Afterwards all calls are refused.
  [[nodiscard]] Status close() {
    const skua_code code = skua_client_destroy(handle());
    if (code == SKUA_OK) static_cast<void>(client_.release());
    return told(code, "the client cannot be destroyed here");
  }

  /// OK: the certificate is not renewed by this client (renew-certificate), or the last attempt did not fail.
  Status certificate_trouble() const {
    skua_error error = SKUA_ERROR_INIT;
    skua_certificate_trouble(handle(), &error);
    return Status::of(error);
  }

  skua_client* handle() const noexcept { return client_.get(); }

 private:
  /// Ends the program rather than leave a client behind that nobody can reach.
  struct Destroy {
    void operator()(skua_client* client) const noexcept {
      if (skua_client_destroy(client) == SKUA_OK) return;
      std::fputs("skua::PolledClient destroyed in its callback, or on another thread: adopt_thread() first\n", stderr);
      std::abort();
    }
  };

  PolledClient() = default;

  static Status told(skua_code code, const char* refusal) { return code == SKUA_OK ? Status() : Status(code, refusal); }

  /// `start` is a skua_async_...(), and `words` are what it takes between the client and the callback.
  template <typename Start, typename Function, typename... Words>
  Status submit(Start start, Function&& function, Words... words) {
    using Stored = std::decay_t<Function>;
    std::unique_ptr<Stored> stored(new (std::nothrow) Stored(std::forward<Function>(function)));
    if (stored == nullptr) return Status(SKUA_RESOURCE_EXHAUSTED, "no memory");
    const skua_callback callback = [](void* context, const skua_result* result) {
      const std::unique_ptr<Stored> owned(static_cast<Stored*>(context));
      (*owned)(Reply(result));
    };
    skua_error error = SKUA_ERROR_INIT;
    if (start(handle(), words..., callback, stored.get(), &error) != SKUA_OK) return Status::of(error);
    static_cast<void>(stored.release());
    return Status();
  }

  template <typename Start, typename Function>
  Status lend(Start start, Name table, std::string_view key, const Lent& lent, const WriteOptions& options,
              Function&& function) {
    // Releases the memory if submit() does not come to `start`: there is no memory, or the function cannot be copied.
    struct Guard {
      Lent lent;
      ~Guard() {
        if (lent.release != nullptr) lent.release(lent.context);
      }
    } guard{lent};
    const auto handed_over = [&guard, start](auto... words) {
      guard.lent.release = nullptr;
      return start(words...);
    };
    const skua_write_options raw = options.raw();
    return submit(handed_over, std::forward<Function>(function), table.c_str(), detail::bytes_of(key),
                  detail::bytes_of(lent.bytes), lent.release, lent.context, &raw);
  }

  std::unique_ptr<skua_client, Destroy> client_;
};

}  // namespace skua

#endif  // SKUA_INCLUDE_SKUA_SKUA_HPP_
