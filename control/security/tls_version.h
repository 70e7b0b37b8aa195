// Which versions of TLS the programs speak.
#ifndef SKUA_CONTROL_SECURITY_TLS_VERSION_H_
#define SKUA_CONTROL_SECURITY_TLS_VERSION_H_

namespace skua::control {

/// From now on all TLS connections of this process are of version 1.3, in both directions: those of gRPC, which has no
/// such option, and all others of OpenSSL. For mains, before the first connection and before there are other threads.
/// Not for libraries, because the setting is the whole process's.
void require_tls_13();

/// Contexts that this thread makes while the object lives are made as OpenSSL is configured, whatever
/// require_tls_13() asked for.
class AllowOlderTls {
 public:
  AllowOlderTls();
  ~AllowOlderTls();
  AllowOlderTls(const AllowOlderTls&) = delete;
  AllowOlderTls& operator=(const AllowOlderTls&) = delete;

 private:
  const bool before_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_TLS_VERSION_H_
