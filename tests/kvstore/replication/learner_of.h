// The learner of a view that is on a node.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_LEARNER_OF_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_LEARNER_OF_H_

#include <algorithm>

#include "kvstore/replication/view.h"

namespace skua::kv {

/// Null: none is there. Points into `view`.
inline const Learner* learner_of(const View& view, NodeId node) {
  const auto found =
      std::ranges::find_if(view.learners, [node](const Learner& learner) { return learner.id.node == node; });
  return found == view.learners.end() ? nullptr : &*found;
}

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_LEARNER_OF_H_
