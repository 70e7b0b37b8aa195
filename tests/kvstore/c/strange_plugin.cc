// Shared objects that are no plug-ins of the library that is tested (plugin_test.cc): one without an entry point, and
// one of another build, which must not be used any further.
#include <cstdlib>

#ifdef SKUA_TEST_OTHER_BUILD
extern "C" const char* skua_transport_plugin(const char* /*build*/, const void** plugin) {
  *plugin = nullptr;
  return "0.0.9+000000000000";
}
#else
extern "C" int skua_something_else() {
  return EXIT_SUCCESS;
}
#endif
