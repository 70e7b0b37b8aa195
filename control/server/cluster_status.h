// What people see of the cluster, and who makes it: the control thread, for a board that everybody reads from.
#ifndef SKUA_CONTROL_SERVER_CLUSTER_STATUS_H_
#define SKUA_CONTROL_SERVER_CLUSTER_STATUS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/core/cluster_core.h"
#include "control/core/program_security.h"
#include "control/proto/control.pb.h"
#include "control/server/controller.h"
#include "control/server/map_hub.h"
#include "control/server/status_board.h"

namespace skua::control {

void fill(v1::TableInfo& to, const Table& table, const ClusterCore& core);

/// Thread: any. Controller and hub must outlive it, and it outlives the controller's thread.
class StatusDesk {
 public:
  /// What is wrong with a part of this process, for people; empty: nothing. Thread: the controller's.
  using TroubleFn = std::function<std::string()>;

  /// `security`: whom the control plane lets in. `own_troubles`: shown as the control plane's.
  StatusDesk(Controller& controller, MapHub& hub, ProgramSecurity security = {},
             std::vector<TroubleFn> own_troubles = {});
  StatusDesk(const StatusDesk&) = delete;
  StatusDesk& operator=(const StatusDesk&) = delete;

  /// See StatusBoard::ask. Errors also as for Controller::query().
  void ask(StatusBoard::AnswerFn answer);
  /// The same with nothing but the tables and the map's revision: looks once at each shard, and at no node.
  void ask_tables(StatusBoard::AnswerFn answer);

 private:
  using FillFn = void (StatusDesk::*)(const ClusterCore& core, TimeNs now, v1::GetStatusReply& reply) const;

  absl::Status make(StatusBoard& board, FillFn fill);
  void fill_all(const ClusterCore& core, TimeNs now, v1::GetStatusReply& reply) const;
  void fill_tables(const ClusterCore& core, TimeNs now, v1::GetStatusReply& reply) const;

  Controller& controller_;
  MapHub& hub_;
  const ProgramSecurity security_;
  const std::vector<TroubleFn> own_troubles_;
  const TimeNs started_ns_;
  StatusBoard board_;
  StatusBoard tables_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CLUSTER_STATUS_H_
