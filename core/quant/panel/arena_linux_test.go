package panel

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeBytes returns the number of bytes of this process on huge pages; negative
// if unknown.
func hugeBytes() int {
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return -1
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "AnonHugePages:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				return -1
			}
			return n << 10
		}
	}
	return -1
}

// Weights get huge pages even if the heap reuses memory that was touched
// before.
func TestHugePages(t *testing.T) {
	modes, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(modes), "[never]") || hugeBytes() < 0 {
		t.Skip("skipped: no huge pages")
	}
	const n = 64 << 20
	// Measure the huge pages of memory that is certainly fresh.
	fresh, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	before := hugeBytes()
	_ = unix.Madvise(fresh, unix.MADV_HUGEPAGE)
	for i := 0; i < n; i += 4096 {
		fresh[i] = 1
	}
	possible := hugeBytes() - before
	if err := unix.Munmap(fresh); err != nil {
		t.Fatal(err)
	}
	if possible < n/2 {
		t.Skip("skipped: too few huge pages")
	}
	used := make([]byte, n+4<<20)
	for i := 0; i < len(used); i += 4096 {
		used[i] = 1
	}
	runtime.KeepAlive(used)
	used = nil
	runtime.GC()
	before = hugeBytes()
	b := hugePages(n)
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	if uintptr(unsafe.Pointer(&b[0]))%cacheLine != 0 {
		t.Error("memory is not aligned to a cache line")
	}
	if got := hugeBytes() - before; got < possible/2 {
		t.Errorf("%d of %d bytes are on huge pages, %d of fresh memory were", got, n, possible)
	}
	runtime.KeepAlive(b)
}

func TestArena(t *testing.T) {
	var a Arena
	seen := make(map[*byte]bool)
	for _, n := range []int{1, 63, 64, 65, 1 << 20, 5 << 20, 7, 100 << 20, 3} {
		b := a.alloc(n)
		if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(&b[0]))%cacheLine != 0 || seen[&b[0]] {
			t.Fatalf("%d bytes: got %d at %p", n, len(b), &b[0])
		}
		seen[&b[0]] = true
		for i := 0; i < n; i += 64 {
			if b[i] != 0 {
				t.Fatal("memory is not zero")
			}
			b[i] = 1
		}
	}
}
