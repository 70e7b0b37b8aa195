#include "rpc/transport/dpdk/driver_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/membarrier.h>
#include <rte_interrupts.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace skua::rpc::dpdk {
namespace {

/// The marks of all watched threads. One per process, as the EAL is.
struct Watched {
  std::mutex mutex;
  std::vector<const std::atomic<uint64_t>*> marks;
};

Watched& watched() {
  // Never destroyed: a thread may still poll, or devices be closed, while the process ends.
  static auto& all = *new Watched;
  return all;
}

/// Keeps the thread's mark on the list for as long as the thread lives.
struct Place {
  Place() {
    const std::scoped_lock lock(watched().mutex);
    watched().marks.push_back(&internal::driver_mark);
  }
  ~Place() {
    const std::scoped_lock lock(watched().mutex);
    std::erase(watched().marks, &internal::driver_mark);
  }
};

void barrier_on_all_threads() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return;
  // The kernel does not have it. The global barrier is slower: it waits until every processor has passed through the
  // scheduler.
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// What lies at an address. The dynamic linker has addresses as numbers.
template <typename T>
T* pointer_to(uintptr_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// What the dynamic linker knows of a loaded object. Its own entries are addresses already.
struct DynamicTables {
  explicit DynamicTables(const dl_phdr_info& object);

  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  /// Relocations of data, and of calls.
  std::array<std::span<const ElfW(Rela)>, 2> relocations;
};

DynamicTables::DynamicTables(const dl_phdr_info& object) {
  std::array<ElfW(Addr), 2> begins = {};
  std::array<size_t, 2> bytes = {};
  for (const ElfW(Phdr) & part : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (part.p_type != PT_DYNAMIC) continue;
    for (auto* entry = pointer_to<const ElfW(Dyn)>(object.dlpi_addr + part.p_vaddr); entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols = pointer_to<const ElfW(Sym)>(entry->d_un.d_ptr); break;
        case DT_STRTAB: names = pointer_to<const char>(entry->d_un.d_ptr); break;
        case DT_RELA: begins[0] = entry->d_un.d_ptr; break;
        case DT_RELASZ: bytes[0] = entry->d_un.d_val; break;
        case DT_JMPREL: begins[1] = entry->d_un.d_ptr; break;
        case DT_PLTRELSZ: bytes[1] = entry->d_un.d_val; break;
        default: break;
      }
    }
  }
  for (size_t i = 0; i < relocations.size(); ++i) {
    relocations[i] = {pointer_to<const ElfW(Rela)>(begins[i]), bytes[i] / sizeof(ElfW(Rela))};
  }
}

/// Whether the dynamic linker has made the place read-only.
bool is_read_only(const dl_phdr_info& object, uintptr_t place) {
  for (const ElfW(Phdr) & part : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    const uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_RELRO && place >= begin && place < begin + part.p_memsz) return true;
  }
  return false;
}

void overwrite(const dl_phdr_info& object, uintptr_t place, void* value) {
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* page = pointer_to<void>(place & ~(page_bytes - 1));
  const bool locked = is_read_only(object, place);
  if (locked && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(pointer_to<void*>(place), value, __ATOMIC_RELAXED);
  if (locked) mprotect(page, page_bytes, PROT_READ);
}

/// For dl_iterate_phdr(): one object. Drivers are called librte_net_memif.so.23 and the like.
int lead_munmap_here(dl_phdr_info* object, size_t /*bytes*/, void* /*context*/) {
  if (std::string_view(object->dlpi_name).find("/librte_") == std::string_view::npos) return 0;
  const DynamicTables tables(*object);
  if (tables.symbols == nullptr || tables.names == nullptr) return 0;
  for (const std::span<const ElfW(Rela)> list : tables.relocations) {
    for (const ElfW(Rela) & relocation : list) {
      const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
      if (std::strcmp(tables.names + symbol.st_name, "munmap") != 0) continue;
      overwrite(*object, object->dlpi_addr + relocation.r_offset, reinterpret_cast<void*>(&munmap));
    }
  }
  return 0;
}
#endif

}  // namespace

void watch_driver_calls() {
  static const long registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  static_cast<void>(registered);
  static thread_local const Place place;
}

void wait_for_driver_calls() {
  barrier_on_all_threads();
  const std::scoped_lock lock(watched().mutex);
  for (const std::atomic<uint64_t>* mark : watched().marks) {
    const uint64_t seen = mark->load(std::memory_order_acquire);
    if (seen % 2 == 0) continue;
    while (mark->load(std::memory_order_acquire) == seen) sched_yield();
  }
}

}  // namespace skua::rpc::dpdk

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// The program's munmap(), found before the C library's (the linker exports it to the drivers). Only the EAL's own
/// thread waits here. Sanitizers have their own munmap().
extern "C" int munmap(void* address, size_t bytes) noexcept {
  if (rte_thread_is_intr() != 0) skua::rpc::dpdk::wait_for_driver_calls();
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

void skua::rpc::dpdk::lead_munmap_of_drivers_here() {
  if (dlsym(RTLD_DEFAULT, "munmap") == reinterpret_cast<void*>(&munmap)) return;
  dl_iterate_phdr(lead_munmap_here, nullptr);
}
#else
void skua::rpc::dpdk::lead_munmap_of_drivers_here() {}
#endif
