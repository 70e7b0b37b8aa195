// Submits operations to a session and keeps what came back.
#ifndef SKUA_TESTS_YCSB_BINDINGS_COLLECTED_H_
#define SKUA_TESTS_YCSB_BINDINGS_COLLECTED_H_

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ycsb/bindings/binding.h"

namespace skua::ycsb {

struct Collected {
  bool done = false;
  Status status = Status::kOk;
  uint64_t row_count = 0;
  std::map<std::string, std::string> fields;
  std::string message;

  static void on_done(void* context, const OpResult& result) {
    auto& self = *static_cast<Collected*>(context);
    ASSERT_FALSE(self.done) << "completed twice";
    self.done = true;
    self.status = result.status;
    self.row_count = result.row_count;
    for (const NamedValue& field : result.fields) self.fields.emplace(field.name, field.value);
    self.message = result.message;
  }
  CompletionFn completion() { return {&on_done, this}; }
};

/// Submits and polls until it is done.
inline Collected execute(BindingSession& session, const Operation& op) {
  Collected result;
  session.submit(op, result.completion());
  for (int i = 0; i < 1000 && !result.done; ++i) EXPECT_TRUE(session.poll(20 * kMillisecond).ok());
  EXPECT_TRUE(result.done);
  return result;
}

inline void set_values(Operation& op, const std::vector<std::string>& values) {
  std::vector<uint32_t> fields;
  std::vector<uint64_t> lengths;
  for (const std::string& value : values) {
    fields.push_back(static_cast<uint32_t>(fields.size()));
    lengths.push_back(value.size());
  }
  op.begin_writes(fields, lengths);
  for (size_t i = 0; i < values.size(); ++i) values[i].copy(op.value_room(i), values[i].size());
}

}  // namespace skua::ycsb

#endif  // SKUA_TESTS_YCSB_BINDINGS_COLLECTED_H_
