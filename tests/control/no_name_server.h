// A machine whose name server does not answer.
#ifndef SKUA_TESTS_CONTROL_NO_NAME_SERVER_H_
#define SKUA_TESTS_CONTROL_NO_NAME_SERVER_H_

#include <netinet/in.h>
#include <resolv.h>

namespace skua::control {

/// For as long as it lives, for the calling thread: names that /etc/hosts does not have meet a port where nobody
/// listens.
class NoNameServer {
 public:
  NoNameServer() {
    res_init();
    _res.nscount = 1;
    _res.nsaddr_list[0].sin_family = AF_INET;
    _res.nsaddr_list[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    _res.nsaddr_list[0].sin_port = htons(1);
    _res.retry = 1;
    _res.retrans = 1;
  }
  ~NoNameServer() { res_init(); }
  NoNameServer(const NoNameServer&) = delete;
  NoNameServer& operator=(const NoNameServer&) = delete;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_NO_NAME_SERVER_H_
