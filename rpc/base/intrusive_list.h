// A doubly linked list whose links live in the elements: O(1) insert and unlink, no allocation.
//
// An element is on at most one list per ListHook member. The list owns nothing; an element must be
// unlinked before it dies (checked), and unlinking an element that is on no list is a no-op.
#ifndef SKUA_RPC_BASE_INTRUSIVE_LIST_H_
#define SKUA_RPC_BASE_INTRUSIVE_LIST_H_

#include <cstddef>

#include "rpc/base/check.h"

namespace skua {

class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { SKUA_CHECK(!linked(), "element destroyed while on a list"); }

  [[nodiscard]] bool linked() const { return next_ != nullptr; }

  void unlink() {
    if (!linked()) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <typename T, ListHook T::*>
  friend class IntrusiveList;

  void insert_before(ListHook& position) {
    SKUA_CHECK(!linked(), "element is on a list already");
    next_ = &position;
    previous_ = position.previous_;
    previous_->next_ = this;
    position.previous_ = this;
  }

  ListHook* next_ = nullptr;
  ListHook* previous_ = nullptr;
};

template <typename T, ListHook T::*Hook>
class IntrusiveList {
 public:
  IntrusiveList() { end_.next_ = end_.previous_ = &end_; }
  ~IntrusiveList() {
    while (!empty()) end_.next_->unlink();
    end_.next_ = end_.previous_ = nullptr;
  }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  [[nodiscard]] bool empty() const { return end_.next_ == &end_; }

  void push_back(T& element) { (element.*Hook).insert_before(end_); }

  void push_front(T& element) { (element.*Hook).insert_before(*end_.next_); }

  [[nodiscard]] T& front() { return *owner(end_.next_); }

  /// Unlinks and returns the first element, or nullptr.
  T* pop_front() {
    if (empty()) return nullptr;
    T* element = owner(end_.next_);
    (element->*Hook).unlink();
    return element;
  }

  /// The element after `element`, or nullptr at the end.
  [[nodiscard]] T* next(T& element) {
    ListHook* hook = (element.*Hook).next_;
    return hook == &end_ ? nullptr : owner(hook);
  }

  /// Moves the elements for which wanted(element) is true to the end of `to`; both lists keep their order. `wanted`
  /// sees each element once, and must not change this list.
  template <typename Predicate>
  void move_if(Predicate wanted, IntrusiveList& to) {
    for (T* at = empty() ? nullptr : &front(); at != nullptr;) {
      T* following = next(*at);
      if (wanted(*at)) {
        (at->*Hook).unlink();
        to.push_back(*at);
      }
      at = following;
    }
  }

 private:
  static T* owner(ListHook* hook) {
    // The offset of the hook inside T, computed on a fake non-null address as container_of does.
    alignas(T) static const char probe[sizeof(T)] = {};
    const T* fake = reinterpret_cast<const T*>(probe);
    const auto offset = reinterpret_cast<const char*>(&(fake->*Hook)) - probe;
    return reinterpret_cast<T*>(reinterpret_cast<char*>(hook) - offset);
  }

  ListHook end_;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_INTRUSIVE_LIST_H_
