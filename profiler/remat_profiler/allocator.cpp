// An allocator for PyTorch's tensors that puts what is allocated in a window of time where a plan says: for those on a CPU, or, with
// ON_CUDA, for those on a GPU.
//
// A session has a plan (sizes and offsets, in the order of allocation), the memory that the offsets are in, and a log of the
// iteration: how large each allocation was, and how many allocations had been made when it was freed. Between window_begin and
// window_end the allocations of the calling thread are the session's. One that the plan does not expect, and one whose place is
// still taken, gets ordinary memory, so that a wrong plan costs memory and nothing else. It knows nothing of graphs; arena.py
// says what a window is and makes plans of logs.
//
// On a GPU ordinary memory that was freed is given again to what is as large; like the arena it is for one stream, whose order makes
// that safe.

#ifndef ON_CUDA
#include <c10/core/CPUAllocator.h>
#endif

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

// PyTorch's own alignment.
#ifdef ON_CUDA
constexpr int64_t kAlignment = 512;
#else
constexpr int64_t kAlignment = 64;
#endif
constexpr int64_t kAlive = std::numeric_limits<int64_t>::max();
constexpr int64_t kElsewhere = -1;

int64_t rounded(int64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// Bytes that are there now, and the most of this iteration.
struct Level {
  int64_t now = 0, peak = 0;
  void add(int64_t bytes) { peak = std::max(peak, now += bytes); }
};

// Of all sessions, and of ordinary memory. Never destroyed: tensors may be freed after everything else.
std::recursive_mutex& mutex = *new std::recursive_mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

#ifdef ON_CUDA

// cudaMalloc, cudaFree and cudaGetLastError, of the library that PyTorch has loaded.
int (*device_malloc)(void**, size_t) = nullptr;
int (*device_free)(void*) = nullptr;
int (*device_last_error)() = nullptr;
std::unordered_map<int64_t, std::vector<void*>>& spare = *new std::unordered_map<int64_t, std::vector<void*>>;
Level ordinary_level;

void trim() {
  for (auto& [size, addresses] : spare)
    for (void* address : addresses) device_free(address);
  spare.clear();
}

// Whether there was that much. Where there was not, the runtime forgets the error: else the next kernel would be blamed for it.
bool device_has(void*& address, int64_t size) {
  if (device_malloc(&address, size) == 0) return true;
  device_last_error();
  return false;
}

void* take_ordinary(int64_t size) {
  Lock lock(mutex);
  void* address = nullptr;
  auto& addresses = spare[size = rounded(size)];
  if (!addresses.empty()) {
    address = addresses.back();
    addresses.pop_back();
  } else if (!device_has(address, size)) {
    trim();
    if (!device_has(address, size)) throw std::bad_alloc();
  }
  ordinary_level.add(size);
  return address;
}

void give_ordinary(void* address, int64_t size) {
  Lock lock(mutex);
  size = rounded(size);
  ordinary_level.now -= size;
  spare[size].push_back(address);
}

// Ordinary memory, for as long as it has an owner.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(int64_t size) : size_(size), address_(take_ordinary(size)) {}
  Bytes(Bytes&& other) noexcept { *this = std::move(other); }
  Bytes& operator=(Bytes&& other) noexcept {
    std::swap(size_, other.size_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~Bytes() {
    if (address_) give_ordinary(address_, size_);
  }
  void* get() const { return address_; }

 private:
  int64_t size_ = 0;
  void* address_ = nullptr;
};

Bytes ordinary_bytes(int64_t size) { return Bytes(size); }

#else

c10::Allocator* previous = nullptr;
using Bytes = c10::DataPtr;
Bytes ordinary_bytes(int64_t size) { return previous->allocate(size); }

#endif

struct Memory {
  Bytes data;
  int64_t height;
  std::map<int64_t, int64_t> taken;  // first byte, and the first byte after it

  // Whether the range is inside, and was free.
  bool take(int64_t first, int64_t end) {
    if (first < 0 || end > height) return false;
    auto next = taken.lower_bound(first);
    if (next != taken.end() && next->first < end) return false;
    if (next != taken.begin() && std::prev(next)->second > first) return false;
    taken.emplace_hint(next, first, end);
    return true;
  }
};

struct Session {
  std::shared_ptr<Memory> memory;
  std::vector<int64_t> plan_sizes, plan_offsets;
  size_t next = 0, end = 0;  // of the plan, in this window
  bool follows = false;
  int64_t iteration = 0;
  std::vector<int64_t> sizes, uppers, addresses;  // the log
  // In the memory; planned elsewhere; expected in the memory, or not at all. The last is of this iteration alone: libraries keep
  // what they allocated within a window once (cuBLAS its workspaces).
  Level inside, outside, beside;
  int64_t occupied = 0;
};

// What was allocated in a window.
struct Block {
  std::shared_ptr<Session> session;
  std::shared_ptr<Memory> memory;  // null where `ordinary` has the bytes
  Bytes ordinary;
  Level Session::*level = nullptr;
  int64_t iteration = 0, index = 0, size = 0, offset = 0;
};

thread_local std::shared_ptr<Session>* current = nullptr;

// By address, which is all that a deleter is given: kernels that want bare memory need a context that is the address.
std::unordered_map<void*, std::unique_ptr<Block>>& blocks = *new std::unordered_map<void*, std::unique_ptr<Block>>;

// Whether it was allocated in a window.
bool release_block(void* address) {
  std::unique_ptr<Block> block;  // outlives the lock: it may free memory
  {
    Lock lock(mutex);
    auto found = blocks.find(address);
    if (found != blocks.end()) {
      block = std::move(found->second);
      blocks.erase(found);
      Session& session = *block->session;
      if (block->memory) block->memory->taken.erase(block->offset);
      const bool present = block->iteration == session.iteration;
      if (present || block->level != &Session::beside) (session.*(block->level)).now -= block->size;
      if (present) session.uppers[block->index] = static_cast<int64_t>(session.sizes.size());
    }
  }
  return block != nullptr;
}

// The planned place of the next allocation: an offset, kElsewhere, or neither where the plan expects something else.
bool expected(Session& session, int64_t size, int64_t& offset) {
  if (!session.follows || session.next == session.end || session.plan_sizes[session.next] != size) {
    session.follows = false;
    return false;
  }
  offset = session.plan_offsets[session.next++];
  return true;
}

void* allocate(const std::shared_ptr<Session>& shared, int64_t size) {
  Session& session = *shared;
  Lock lock(mutex);
  auto block = std::make_unique<Block>();
  block->session = shared;
  block->iteration = session.iteration;
  block->index = static_cast<int64_t>(session.sizes.size());
  block->size = rounded(size);
  int64_t offset = kElsewhere;
  const bool known = expected(session, size, offset);
  void* address = nullptr;
  if (known && offset != kElsewhere && session.memory->take(offset, offset + size)) {
    block->memory = session.memory;
    block->offset = offset;
    block->level = &Session::inside;
    address = static_cast<char*>(session.memory->data.get()) + offset;
  } else {
    session.occupied += known && offset != kElsewhere;
    block->level = known && offset == kElsewhere ? &Session::outside : &Session::beside;
    block->ordinary = ordinary_bytes(size);
    address = block->ordinary.get();
  }
  (session.*(block->level)).add(block->size);
  session.sizes.push_back(size);
  session.uppers.push_back(kAlive);
  session.addresses.push_back(reinterpret_cast<int64_t>(address));
  blocks[address] = std::move(block);
  return address;
}

#ifndef ON_CUDA

void release(void* address) {
  if (!release_block(address)) previous->raw_deallocate(address);  // bare memory from outside of a window
}

struct Planned final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    if (current == nullptr || size == 0) return previous->allocate(size);
    void* address = ::allocate(*current, static_cast<int64_t>(size));
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
};

#endif

Session& of(void* session) { return **static_cast<std::shared_ptr<Session>*>(session); }

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

#ifdef ON_CUDA

API void cuda_use(void* malloc_function, void* free_function, void* last_error_function) {
  device_malloc = reinterpret_cast<int (*)(void**, size_t)>(malloc_function);
  device_free = reinterpret_cast<int (*)(void*)>(free_function);
  device_last_error = reinterpret_cast<int (*)()>(last_error_function);
}

// What PyTorch's pluggable allocator calls.
API void* cuda_allocate(ssize_t size, int, void*) {
  if (size == 0) return nullptr;
  return current == nullptr ? take_ordinary(size) : allocate(*current, size);
}

API void cuda_release(void* address, ssize_t size, int, void*) {
  if (address != nullptr && !release_block(address)) give_ordinary(address, size);
}

// Bytes of ordinary memory that are in use, and the most since the last call with `again`.
API void cuda_level(int64_t again, int64_t* found) {
  Lock lock(mutex);
  if (again) ordinary_level.peak = ordinary_level.now;
  found[0] = ordinary_level.now;
  found[1] = ordinary_level.peak;
}

#endif

API void* session_new() {
#ifndef ON_CUDA
  static Planned& planned = *new Planned;
  if (previous == nullptr) {
    previous = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&planned, std::numeric_limits<uint8_t>::max());
  }
#endif
  return new std::shared_ptr<Session>(std::make_shared<Session>());
}

// Blocks that are alive keep what they need.
API void session_delete(void* session) { delete static_cast<std::shared_ptr<Session>*>(session); }

// The address of new memory of this height, with a plan; of none where the plan is empty. 0 where there is not that much.
API int64_t session_plan(void* session, int64_t count, const int64_t* sizes, const int64_t* offsets, int64_t height) {
  Session& s = of(session);
  Lock lock(mutex);
  s.memory.reset();
  s.plan_sizes.assign(sizes, sizes + count);
  s.plan_offsets.assign(offsets, offsets + count);
  if (count == 0) return 0;
  auto memory = std::make_shared<Memory>();
  memory->height = height;
  try {
    memory->data = ordinary_bytes(std::max(height, kAlignment));
  } catch (const std::exception&) {
    s.plan_sizes.clear();
    return 0;
  }
  s.memory = std::move(memory);
  return reinterpret_cast<int64_t>(s.memory->data.get());
}

API void iteration_begin(void* session) {
  Session& s = of(session);
  Lock lock(mutex);
  ++s.iteration;
  s.sizes.clear();
  s.uppers.clear();
  s.addresses.clear();
  for (Level* level : {&s.inside, &s.outside}) level->peak = level->now;
  s.beside = {};
  s.occupied = 0;
}

// Allocations of this thread are the session's; they follow the plan from `first` to `end` - 1 where there is such a part of it.
// Gives what window_end wants back.
API void* window_begin(void* session, int64_t first, int64_t end) {
  Session& s = of(session);
  Lock lock(mutex);
  s.follows = 0 <= first && first <= end && end <= static_cast<int64_t>(s.plan_sizes.size());
  s.next = s.follows ? first : 0;
  s.end = s.follows ? end : 0;
  return std::exchange(current, static_cast<std::shared_ptr<Session>*>(session));
}

// The plan's first allocation that did not come, or came with another size; -1 where all came.
API int64_t window_end(void* session, void* outer) {
  current = static_cast<std::shared_ptr<Session>*>(outer);
  Session& s = of(session);
  Lock lock(mutex);
  return s.follows && s.next == s.end ? -1 : static_cast<int64_t>(s.next);
}

API int64_t log_length(void* session) {
  Session& s = of(session);
  Lock lock(mutex);
  return static_cast<int64_t>(s.sizes.size());
}

// What was allocated, and how many allocations there were when it was freed (the largest number where it has not been).
API void log_read(void* session, int64_t* sizes, int64_t* uppers) {
  Session& s = of(session);
  Lock lock(mutex);
  std::copy(s.sizes.begin(), s.sizes.end(), sizes);
  std::copy(s.uppers.begin(), s.uppers.end(), uppers);
}

// The latest allocation that is alive at an address; -1 where there is none.
API int64_t log_find(void* session, int64_t address) {
  Session& s = of(session);
  Lock lock(mutex);
  for (int64_t index = static_cast<int64_t>(s.sizes.size()); index-- > 0;)
    if (s.addresses[index] == address && s.uppers[index] == kAlive) return index;
  return -1;
}

// Blocks that are in the memory; its bytes that were used at most in this iteration, those planned elsewhere, those beside; and
// how many allocations found their place taken.
API void session_read(void* session, int64_t* found) {
  Session& s = of(session);
  Lock lock(mutex);
  const int64_t blocks = s.memory ? static_cast<int64_t>(s.memory->taken.size()) : 0;
  const int64_t values[] = {blocks, s.inside.peak, s.outside.peak, s.beside.peak, s.occupied};
  std::copy(std::begin(values), std::end(values), found);
}
