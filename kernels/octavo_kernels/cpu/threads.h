// The threads that share a step's work, and the memory that each of them works in. Included behind the vectors.
//
// Work is split into items that threads take as they come, so that a thread that loses its core for a while holds up one item only.

#pragma once

namespace {

constexpr int MOST_THREADS = 256;
constexpr int SPINS = 20000;  // some 100 us: longer than what lies between two products of a step

typedef void (*Work)(const void* job, int item, int thread);

// One job at a time. `ticket` holds the job's number in its upper and the next item in its lower half, so that taking an item and making
// sure that it is of the job that was read is one compare-and-swap. A thread that wakes late finds no item and has held up nobody.
struct Pool {
    int threads = 1;
    std::atomic<uint64_t> ticket{0};
    std::atomic<int> done{0};
    std::atomic<uint32_t> signal{0};  // counts jobs; what sleeping threads wait on
    std::atomic<int> sleeping{0};
    std::atomic<Work> work{nullptr};
    std::atomic<const void*> job{nullptr};
    std::atomic<int> items{0};
} pool;

thread_local bool tiles_ready = false;
void prepare_thread();

void take_items(int thread) {
    for (;;) {
        uint64_t ticket = pool.ticket.load(std::memory_order_acquire);
        const int items = pool.items.load(std::memory_order_acquire), item = (int)(uint32_t)ticket;
        if (item >= items) return;
        const Work work = pool.work.load(std::memory_order_relaxed);  // at least as new as `items`; if newer, the ticket is gone
        const void* job = pool.job.load(std::memory_order_relaxed);
        if (!pool.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
        work(job, item, thread);
        pool.done.fetch_add(1, std::memory_order_release);
    }
}

void* serve(void* number) {
    prepare_thread();
    uint32_t seen = 0;
    for (;;) {
        int spins = 0;
        uint32_t now;
        while ((now = pool.signal.load(std::memory_order_acquire)) == seen) {
            if (++spins < SPINS) { _mm_pause(); continue; }
            pool.sleeping.fetch_add(1);
            syscall(SYS_futex, &pool.signal, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
            pool.sleeping.fetch_sub(1);
            spins = 0;
        }
        seen = now;
        take_items((int)(intptr_t)number);
    }
    return nullptr;
}

// Threads, scratch memory and results in progress are those of one call at a time: every exported function holds a turn.
pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
struct Turn {
    Turn() { pthread_mutex_lock(&turns); }
    ~Turn() { pthread_mutex_unlock(&turns); }
};

void run(Work work, const void* job, int items) {
    if (!tiles_ready) prepare_thread();
    if (pool.threads == 1 || items <= 1) {
        for (int item = 0; item < items; item++) work(job, item, 0);
        return;
    }
    const uint64_t number = (pool.ticket.load(std::memory_order_relaxed) >> 32) + 1;
    // Nobody takes items while these change: the last job has none left, and its ticket does not fit the next one.
    pool.items.store(0, std::memory_order_relaxed);
    pool.ticket.store(number << 32, std::memory_order_release);
    pool.done.store(0, std::memory_order_relaxed);
    pool.work.store(work, std::memory_order_relaxed);
    pool.job.store(job, std::memory_order_relaxed);
    pool.items.store(items, std::memory_order_release);
    pool.signal.fetch_add(1);
    if (pool.sleeping.load()) syscall(SYS_futex, &pool.signal, FUTEX_WAKE_PRIVATE, MOST_THREADS, nullptr, nullptr, 0);
    take_items(0);
    while (pool.done.load(std::memory_order_acquire) < items) _mm_pause();
}

// Calls work(item, thread) for 0 … items - 1 on all threads, the caller's too; returns when all are done.
template <class F>
void parallel(int items, const F& work) {
    run([](const void* job, int item, int thread) { (*(const F*)job)(item, thread); }, &work, items);
}

// Memory of a thread that grows to what was asked for most; what it holds is lost when more is asked for.
struct Scratch {
    void* memory = nullptr;
    size_t bytes = 0;
    template <class T>
    T* get(size_t count) {
        if (count * sizeof(T) > bytes) {
            free(memory);
            bytes = (count * sizeof(T) + 4095) / 4096 * 4096;
            memory = aligned_alloc(64, bytes);
            if (!memory) abort();
        }
        return (T*)memory;
    }
};

thread_local Scratch own;

}  // namespace
