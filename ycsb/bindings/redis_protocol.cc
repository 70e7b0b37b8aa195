#include "ycsb/bindings/redis_protocol.h"

#include <hiredis/read.h>

#include <array>
#include <charconv>

namespace skua::ycsb {
namespace {

void append_header(SendBuffer& out, char type, size_t number) {
  std::array<char, 24> text;
  text[0] = type;
  char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append({text.data(), static_cast<size_t>(end - text.data())});
}

// hiredis' reader calls these for each element of a reply; what they return only marks "something
// is there", so they return the collector itself.

RedisReplies::Collector& collector_of(const redisReadTask* task) {
  return *static_cast<RedisReplies::Collector*>(task->privdata);
}

void* on_string(const redisReadTask* task, char* text, size_t length) {
  auto& collector = collector_of(task);
  RedisReply& reply = collector.reply;
  if (task->parent == nullptr) {
    reply.kind = task->type == REDIS_REPLY_STATUS  ? RedisReply::Kind::kStatus
                 : task->type == REDIS_REPLY_ERROR ? RedisReply::Kind::kError
                                                   : RedisReply::Kind::kString;
    reply.text.assign(text, length);
  } else if (collector.keep_elements) {
    reply.text.append(text, length);
    reply.ends.push_back(reply.text.size());
  }
  return &collector;
}

void* on_array(const redisReadTask* task, int elements) {
  auto& collector = collector_of(task);
  if (task->parent == nullptr) {
    collector.reply.kind = RedisReply::Kind::kArray;
    collector.reply.element_count = elements > 0 ? static_cast<size_t>(elements) : 0;
  }
  return &collector;
}

void* on_integer(const redisReadTask* task, long long value) {
  auto& collector = collector_of(task);
  if (task->parent == nullptr) {
    collector.reply.kind = RedisReply::Kind::kInteger;
    collector.reply.integer = value;
  }
  return &collector;
}

void* on_nil(const redisReadTask* task) {
  auto& collector = collector_of(task);
  RedisReply& reply = collector.reply;
  if (task->parent == nullptr) {
    reply.kind = RedisReply::Kind::kNil;
  } else {
    ++reply.nil_count;
    if (collector.keep_elements) reply.ends.push_back(reply.text.size());
  }
  return &collector;
}

void on_free(void* /*object*/) {}

redisReplyObjectFunctions& functions() {
  // hiredis takes a pointer to non-const and only reads it.
  static redisReplyObjectFunctions table = {&on_string, &on_array, &on_integer, &on_nil, &on_free};
  return table;
}

}  // namespace

void RedisCommands::begin(size_t argument_count) {
  append_header(buffer_, '*', argument_count);
}

void RedisCommands::argument(std::string_view text) {
  append_header(buffer_, '$', text.size());
  buffer_.append(text);
  buffer_.append("\r\n");
}

void RedisCommands::argument(int64_t number) {
  std::array<char, 24> text;
  const char* end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  argument({text.data(), static_cast<size_t>(end - text.data())});
}

void RedisReplies::FreeReader::operator()(redisReader* reader) const {
  redisReaderFree(reader);
}

RedisReplies::RedisReplies() : reader_(redisReaderCreateWithFunctions(&functions())) {
  if (!reader_) return;
  reader_->privdata = &collector_;
  reader_->maxbuf = 0;  // keep the buffer when it is empty
}

bool RedisReplies::feed(const char* bytes, size_t count) {
  return reader_ && redisReaderFeed(reader_.get(), bytes, count) == REDIS_OK;
}

RedisReplies::Progress RedisReplies::next(bool keep_elements) {
  if (!in_reply_) {
    RedisReply& reply = collector_.reply;
    reply.kind = RedisReply::Kind::kNone;
    reply.integer = 0;
    reply.element_count = reply.nil_count = 0;
    reply.text.clear();
    reply.ends.clear();
    collector_.keep_elements = keep_elements;
    in_reply_ = true;
  }
  void* done = nullptr;
  if (!reader_ || redisReaderGetReply(reader_.get(), &done) != REDIS_OK) return Progress::kBroken;
  if (done == nullptr) return Progress::kNeedMore;
  in_reply_ = false;
  return Progress::kReply;
}

}  // namespace skua::ycsb
