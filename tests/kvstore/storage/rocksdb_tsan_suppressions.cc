// The packaged librocksdb is not built with ThreadSanitizer, so the tool sees some of its accesses but not the atomics
// that order them, and reports races that are none. This silences reports with a frame of the library in either stack;
// races between our own accesses are still found. Link it into each test that opens a RocksDB database; without the
// sanitizer nobody calls it.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:librocksdb.so\n";
}
