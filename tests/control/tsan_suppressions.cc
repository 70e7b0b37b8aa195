// The packaged gRPC, its OpenSSL, RocksDB and abseil are not built with ThreadSanitizer, so the tool sees some of their
// accesses but not the atomics that order them, and reports races that are none. This silences reports with a frame of
// those libraries in either stack; races between our own accesses are still found (the controller's tests have no gRPC
// in them). Linked into the tests that use the libraries; without the sanitizer nobody calls it.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:librocksdb.so\n"
         "race:libgrpc.so\n"
         "race:libgrpc++.so\n"
         "race:libgpr.so\n"
         "race:libcrypto.so\n"
         "race:libssl.so\n"
         "race:libprotobuf.so\n"
         "race:libabsl_\n";
}
