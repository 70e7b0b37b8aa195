#include "kvstore/gateway/hazards.h"

#include <algorithm>

namespace skua::kv::gateway {
namespace {

/// Room that an idle connection keeps, and a command that is used again.
constexpr size_t kKeptEntries = 64;

template <typename Container>
void free_if_large(Container& container) {
  if (container.capacity() > kKeptEntries) Container().swap(container);
}

}  // namespace

void HazardNode::forget_keys() {
  key_hashes.resize(0);  // clear() would free the memory
  free_if_large(key_hashes);
  dependents.clear();
  free_if_large(dependents);
}

void Hazards::depend(HazardNode& node, HazardNode& on) {
  on.dependents.push_back(&node);
  ++node.blocker_count;
}

void Hazards::use(HazardNode& node, uint64_t key_hash) {
  KeyUse& key = keys_[key_hash];
  if (!node.is_write) {
    // A command may name a key twice.
    if (!key.readers.empty() && key.readers.back() == &node) return;
    if (key.writer != nullptr) depend(node, *key.writer);
    key.readers.push_back(&node);
    return;
  }
  if (key.writer == &node) return;
  for (HazardNode* reader : key.readers) depend(node, *reader);
  // Readers wait for the writer before them, so it is enough to wait for the readers.
  if (key.readers.empty() && key.writer != nullptr) depend(node, *key.writer);
  key.readers.clear();
  key.writer = &node;
}

void Hazards::push(std::vector<HazardNode*>& list, HazardNode& node) {
  node.place = list.size();
  list.push_back(&node);
}

void Hazards::enter_keys(HazardNode& node) {
  node.name_keys();
  for (const uint64_t key_hash : node.key_hashes) use(node, key_hash);
}

void Hazards::enter_those_apart() {
  for (HazardNode* const node : apart_) {
    enter_keys(*node);
    node->is_apart = false;
    push(unfinished_, *node);
  }
  apart_.clear();
}

void Hazards::add(HazardNode& node) {
  node.blocker_count = 0;
  node.dependents.clear();
  node.is_apart = false;
  if (node.is_whole_table) {
    for (HazardNode* other : unfinished_) depend(node, *other);
    for (HazardNode* other : apart_) depend(node, *other);
    barrier_ = &node;
    return push(unfinished_, node);
  }
  if (barrier_ != nullptr) depend(node, *barrier_);
  if (node.is_write) ++writer_count_;
  if (writer_count_ == 0 || unfinished_count() == 0) {
    node.is_apart = true;
    return push(apart_, node);
  }
  enter_those_apart();
  enter_keys(node);
  push(unfinished_, node);
}

void Hazards::end_use(const HazardNode& node, uint64_t key_hash) {
  const auto found = keys_.find(key_hash);
  if (found == keys_.end()) return;  // the command named the key twice
  KeyUse& key = found->second;
  if (key.writer == &node) key.writer = nullptr;
  const auto reader = std::find(key.readers.begin(), key.readers.end(), &node);
  if (reader != key.readers.end()) key.readers.erase(reader);
  if (key.writer == nullptr && key.readers.empty()) keys_.erase(found);
}

void Hazards::finish(HazardNode& node, std::vector<HazardNode*>& ready) {
  if (barrier_ == &node) barrier_ = nullptr;
  std::vector<HazardNode*>& list = node.is_apart ? apart_ : unfinished_;
  if (node.is_write && !node.is_whole_table) --writer_count_;
  if (!node.is_apart && !node.is_whole_table) {
    for (const uint64_t key_hash : node.key_hashes) end_use(node, key_hash);
  }
  list[node.place] = list.back();
  list[node.place]->place = node.place;
  list.pop_back();
  for (HazardNode* dependent : node.dependents) {
    if (--dependent->blocker_count == 0) ready.push_back(dependent);
  }
  node.dependents.clear();
  if (keys_.empty()) free_if_large(keys_);
  if (list.empty()) free_if_large(list);
}

}  // namespace skua::kv::gateway
